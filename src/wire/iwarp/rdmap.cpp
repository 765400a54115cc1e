#include "wire/iwarp/rdmap.h"

namespace verbatim::wire {
namespace {

// Two bits of version, two reserved, four of opcode.
constexpr std::uint8_t kVersion = 1;
constexpr int kVersionShift = 6;
constexpr std::uint8_t kOpcodeMask = 0x0f;

constexpr std::array<RdmapInfo, 16> kTable = [] {
  std::array<RdmapInfo, 16> table{};
  const auto set = [&table](RdmapOpcode opcode, RdmapInfo info) {
    info.known = true;
    table[static_cast<std::size_t>(opcode)] = info;
  };
  set(RdmapOpcode::write, {.tagged = true});
  set(RdmapOpcode::read_request, {.queue = kRdmapRequestQueue});
  set(RdmapOpcode::read_response, {.tagged = true});
  set(RdmapOpcode::send, {.queue = kRdmapSendQueue});
  set(RdmapOpcode::send_with_invalidate, {.queue = kRdmapSendQueue, .invalidate = true});
  set(RdmapOpcode::send_solicited, {.queue = kRdmapSendQueue, .solicited = true});
  set(RdmapOpcode::send_solicited_with_invalidate,
      {.queue = kRdmapSendQueue, .solicited = true, .invalidate = true});
  set(RdmapOpcode::terminate, {.queue = kRdmapTerminateQueue});
  set(RdmapOpcode::immediate, {.queue = kRdmapSendQueue});
  set(RdmapOpcode::immediate_solicited, {.queue = kRdmapSendQueue, .solicited = true});
  set(RdmapOpcode::atomic_request, {.queue = kRdmapRequestQueue});
  set(RdmapOpcode::atomic_response, {.queue = kRdmapResponseQueue});
  return table;
}();

}  // namespace

const RdmapInfo& info(RdmapOpcode opcode) {
  return kTable[static_cast<std::size_t>(opcode) & kOpcodeMask];
}

void set_rdmap(Ddp& header, RdmapOpcode opcode, std::uint32_t invalidated_stag) {
  const RdmapInfo& found = info(opcode);
  header.tagged = found.tagged;
  header.queue = found.queue;
  header.upper_control =
      static_cast<std::uint8_t>(kVersion << kVersionShift | static_cast<std::uint8_t>(opcode));
  header.upper_word = found.invalidate ? invalidated_stag : 0;
}

std::expected<RdmapOpcode, WireError> rdmap_opcode(const Ddp& header) {
  if (header.upper_control >> kVersionShift != kVersion) {
    return std::unexpected(WireError::rdmap_version);
  }
  const auto opcode = static_cast<RdmapOpcode>(header.upper_control & kOpcodeMask);
  const RdmapInfo& found = info(opcode);
  if (!found.known) return std::unexpected(WireError::unknown_opcode);
  const bool agrees =
      found.tagged == header.tagged && (header.tagged || found.queue == header.queue);
  if (!agrees) return std::unexpected(WireError::rdmap_queue);
  return opcode;
}

RdmapReadRequest decode_read_request(std::span<const std::byte, RdmapReadRequest::kSize> bytes) {
  return {.sink_stag = load_be<std::uint32_t>(&bytes[0]),
          .sink_offset = load_be<std::uint64_t>(&bytes[4]),
          .length = load_be<std::uint32_t>(&bytes[12]),
          .source_stag = load_be<std::uint32_t>(&bytes[16]),
          .source_offset = load_be<std::uint64_t>(&bytes[20])};
}

void encode(const RdmapReadRequest& request, std::span<std::byte, RdmapReadRequest::kSize> out) {
  store_be(&out[0], request.sink_stag);
  store_be(&out[4], request.sink_offset);
  store_be(&out[12], request.length);
  store_be(&out[16], request.source_stag);
  store_be(&out[20], request.source_offset);
}

RdmapAtomicRequest decode_atomic_request(
    std::span<const std::byte, RdmapAtomicRequest::kSize> bytes) {
  using Operation = RdmapAtomicRequest::Operation;
  return {.operation = static_cast<Operation>(load_be<std::uint32_t>(&bytes[0]) & kOpcodeMask),
          .identifier = load_be<std::uint32_t>(&bytes[4]),
          .stag = load_be<std::uint32_t>(&bytes[8]),
          .offset = load_be<std::uint64_t>(&bytes[12]),
          .add_or_swap = load_be<std::uint64_t>(&bytes[20]),
          .add_or_swap_mask = load_be<std::uint64_t>(&bytes[28]),
          .compare = load_be<std::uint64_t>(&bytes[36]),
          .compare_mask = load_be<std::uint64_t>(&bytes[44])};
}

void encode(const RdmapAtomicRequest& request,
            std::span<std::byte, RdmapAtomicRequest::kSize> out) {
  store_be(&out[0], std::uint32_t{static_cast<std::uint8_t>(request.operation)});
  store_be(&out[4], request.identifier);
  store_be(&out[8], request.stag);
  store_be(&out[12], request.offset);
  store_be(&out[20], request.add_or_swap);
  store_be(&out[28], request.add_or_swap_mask);
  store_be(&out[36], request.compare);
  store_be(&out[44], request.compare_mask);
}

RdmapAtomicResponse decode_atomic_response(
    std::span<const std::byte, RdmapAtomicResponse::kSize> bytes) {
  return {.identifier = load_be<std::uint32_t>(&bytes[0]),
          .original = load_be<std::uint64_t>(&bytes[4])};
}

void encode(const RdmapAtomicResponse& response,
            std::span<std::byte, RdmapAtomicResponse::kSize> out) {
  store_be(&out[0], response.identifier);
  store_be(&out[4], response.original);
}

RdmapTerminate decode_terminate(std::span<const std::byte, RdmapTerminate::kSize> bytes) {
  const auto at = [&bytes](std::size_t i) { return std::to_integer<std::uint8_t>(bytes[i]); };
  const unsigned first = at(0) >> 4U, second = at(0) & 0x0fU;
  const unsigned length = at(2) & 0x80U, ddp = at(2) & 0x40U, rdmap = at(2) & 0x20U;
  // Linux's siw (6.1) lays these fields out from the lowest bit on, where RFC 5040 has zeros.
  const unsigned siw_length = at(2) & 1U, siw_ddp = at(2) & 2U, siw_rdmap = at(2) & 4U;
  const bool is_siw = (length | ddp | rdmap) == 0 && (siw_length | siw_ddp | siw_rdmap) != 0;
  return {.layer = static_cast<RdmapTerminate::Layer>(is_siw ? second : first),
          .type = static_cast<std::uint8_t>(is_siw ? first : second),
          .code = at(1),
          .has_segment_length = (is_siw ? siw_length : length) != 0,
          .has_ddp_header = (is_siw ? siw_ddp : ddp) != 0,
          .has_rdmap_header = (is_siw ? siw_rdmap : rdmap) != 0};
}

void encode(const RdmapTerminate& terminate, std::span<std::byte, RdmapTerminate::kSize> out) {
  out[0] = static_cast<std::byte>(static_cast<std::uint8_t>(terminate.layer) << 4 |
                                  (terminate.type & 0x0f));
  out[1] = static_cast<std::byte>(terminate.code);
  out[2] = static_cast<std::byte>((terminate.has_segment_length ? 0x80 : 0) |
                                  (terminate.has_ddp_header ? 0x40 : 0) |
                                  (terminate.has_rdmap_header ? 0x20 : 0));
  out[3] = std::byte{0};
}

}  // namespace verbatim::wire
