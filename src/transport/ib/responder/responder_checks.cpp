#include "transport/ib/responder/responder_checks.h"

namespace verbatim::transport {
namespace {

using wire::NakCode;
using wire::OpcodeInfo;
using wire::Position;
using wire::Verb;

bool is_atomic(Verb verb) { return verb == Verb::compare_swap || verb == Verb::fetch_add; }

/// Checks the payload's length for its position (IBA 9.7.4.1, length validation): first and middle
/// packets are full, a last one has 1 byte to the path MTU, an only one may be empty.
bool payload_fits_position(const wire::Packet& packet, const OpcodeInfo& info,
                           std::uint32_t mtu_bytes) {
  const std::size_t length = packet.payload.size();
  switch (info.position) {
    case Position::first:
    case Position::middle:
      return length == mtu_bytes && packet.headers.bth.pad_count == 0;
    case Position::last:
      return length >= 1 && length <= mtu_bytes;
    case Position::only:
      return length <= mtu_bytes;
  }
  return false;
}

/// Checks that the packets of a WRITE have no more bytes than its RETH says, and all of them after
/// the last one.
bool write_length_agrees(const wire::Packet& packet, const OpcodeInfo& info,
                         const IncomingMessage& message) {
  const std::uint64_t total = info.has(wire::kReth) ? packet.headers.reth.length : message.length;
  const std::uint64_t before = info.has(wire::kReth) ? 0 : message.received;
  if (total > kMessageBytesMax) return false;
  const std::uint64_t left = total - before;
  return info.ends_message() ? packet.payload.size() == left : packet.payload.size() <= left;
}

std::optional<NakCode> check_key(const region::RegionTable& regions, MemoryKey key,
                                 std::uint64_t address, std::uint64_t length, std::uint32_t rights,
                                 const ResponderConfig& config) {
  // IBA C9-88: the key of a request of 0 bytes is not checked.
  if (length == 0) return std::nullopt;
  if (regions.check(key, address, length, rights, {config.pd, config.own_qp})) return std::nullopt;
  return NakCode::remote_access_error;
}

/// Annex A19: the selectivity and type of a FLUSH must be known, and allowed by queue pair and
/// region.
std::optional<NakCode> check_flush(const wire::Headers& headers, const ResponderConfig& config,
                                   const region::RegionTable& regions) {
  const wire::Feth& flush = headers.feth;
  if (!is_known(flush)) return NakCode::invalid_request;
  const std::uint32_t rights = right_for(flush);
  if ((config.access & rights) != rights) return NakCode::invalid_request;
  if (flush.selectivity == wire::Feth::Selectivity::region) {
    if (regions.check_key(headers.reth.key, rights, {config.pd, config.own_qp})) return {};
    return NakCode::remote_access_error;
  }
  return check_key(regions, headers.reth.key, headers.reth.address, headers.reth.length, rights,
                   config);
}

}  // namespace

std::uint32_t right_for(const wire::Feth& flush) {
  return ((flush.placement & wire::Feth::kGlobal) != 0 ? region::kFlushGlobal : 0u) |
         ((flush.placement & wire::Feth::kPersistent) != 0 ? region::kFlushPersistent : 0u);
}

bool is_known(const wire::Feth& flush) {
  constexpr std::uint8_t kKnown = wire::Feth::kGlobal | wire::Feth::kPersistent;
  return flush.placement != 0 && (flush.placement & ~kKnown) == 0 &&
         flush.selectivity <= wire::Feth::Selectivity::region;
}

bool follows(const OpcodeInfo& info, const IncomingMessage& message) {
  if (info.starts_message()) return !message.active;
  return message.active && message.verb == info.verb;
}

bool is_remembered(Verb verb) {
  return verb == Verb::read_request || is_atomic(verb) || verb == Verb::flush ||
         verb == Verb::atomic_write;
}

bool needs_receive(const OpcodeInfo& info) {
  if (info.verb == Verb::send) return info.starts_message();
  return info.verb == Verb::write && info.has(wire::kImmediate);
}

std::optional<NakCode> check_operation(const OpcodeInfo& info, const IncomingMessage& message,
                                       const ResponderConfig& config) {
  // IBA 9.7.4.1, opcode sequence check.
  if (!follows(info, message)) return NakCode::invalid_request;
  // IBA 9.9.3, responder errors, "unsupported or reserved opcode": an operation that the queue pair
  // is not enabled for ("RDMA or ATOMIC on QP not set up for this") is an invalid request, not an
  // access error. Linux's rxe and hfi1 do the same.
  const std::uint32_t right = right_for(info.verb);
  if (info.starts_message() && (config.access & right) != right) return NakCode::invalid_request;
  if (is_remembered(info.verb) && config.max_dest_rd_atomic == 0) return NakCode::invalid_request;
  return std::nullopt;
}

std::optional<NakCode> check_content(const wire::Packet& packet, const OpcodeInfo& info,
                                     const IncomingMessage& message, const ResponderConfig& config,
                                     const region::RegionTable& regions) {
  const wire::Headers& headers = packet.headers;
  if (info.has_payload && !payload_fits_position(packet, info, bytes_of(config.path_mtu))) {
    return NakCode::invalid_request;
  }
  switch (info.verb) {
    case Verb::write:
      if (!write_length_agrees(packet, info, message)) return NakCode::invalid_request;
      break;
    case Verb::read_request:
      if (headers.reth.length > kMessageBytesMax) return NakCode::invalid_request;
      break;
    case Verb::compare_swap:
    case Verb::fetch_add:
      // IBA 9.7.4.1: an atomic's address is a multiple of 8.
      if (headers.atomic_eth.address % 8 != 0) return NakCode::invalid_request;
      return check_key(regions, headers.atomic_eth.key, headers.atomic_eth.address, 8,
                       right_for(info.verb), config);
    case Verb::atomic_write:
      // Annex A19: an ATOMIC WRITE has 8 bytes at a multiple of 8.
      if (headers.reth.address % 8 != 0 || headers.reth.length != 8 || packet.payload.size() != 8) {
        return NakCode::invalid_request;
      }
      break;
    case Verb::flush:
      return check_flush(headers, config, regions);
    default:
      break;
  }
  if (info.has(wire::kIeth) &&
      !regions.check_invalidation(headers.invalidate_key, {config.pd, config.own_qp})) {
    return NakCode::remote_access_error;
  }
  if (!info.has(wire::kReth)) return std::nullopt;
  return check_key(regions, headers.reth.key, headers.reth.address, headers.reth.length,
                   right_for(info.verb), config);
}

}  // namespace verbatim::transport
