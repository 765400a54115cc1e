#include <algorithm>
#include <array>

#include "base/assert.h"
#include "transport/ib/requester/requester.h"
#include "wire/ib/opcode.h"

namespace verbatim::transport {
namespace {

using wire::Position;
using wire::Verb;

/// Operations that may complete a receive request at the peer (IBA 9.2.3: the SE bit).
constexpr bool may_solicit(const OperationInfo& operation) {
  return operation.verb == Verb::send || operation.immediate;
}

constexpr std::size_t kPositions = 4;
using OpcodeTable = std::array<std::array<wire::Opcode, kPositions>, kOperations>;

/// The opcode of each operation at each position. The last packet has the immediate, or the key to
/// invalidate.
constexpr OpcodeTable opcodes_of(wire::Service service) {
  OpcodeTable table{};
  for (std::size_t op = 0; op < kOperations; ++op) {
    for (std::size_t at = 0; at < kPositions; ++at) {
      const OperationInfo& operation = kOperationTable[op];
      const auto position = static_cast<Position>(at);
      const bool ends = position == Position::last || position == Position::only;
      table[op][at] = wire::opcode_of(service, operation.verb, position,
                                      operation.immediate && ends, operation.invalidate && ends);
    }
  }
  return table;
}
constexpr OpcodeTable kRcOpcodes = opcodes_of(wire::Service::rc);
constexpr OpcodeTable kUcOpcodes = opcodes_of(wire::Service::uc);
constexpr OpcodeTable kXrcOpcodes = opcodes_of(wire::Service::xrc);

constexpr const OpcodeTable& opcodes_for(wire::Service service) {
  return service == wire::Service::uc    ? kUcOpcodes
         : service == wire::Service::xrc ? kXrcOpcodes
                                         : kRcOpcodes;
}

}  // namespace

bool Requester::poll_transmit(TimeNs now, OutgoingPacket& out) {
  if (failed_) return false;
  if (waiting_rnr_) {
    if (now < rnr_until_) return false;
    waiting_rnr_ = false;
  }
  if (probe_due_ && poll_probe(out)) return true;
  pass_local();
  // No request from the failed one on is sent.
  if (send_slot_ >= std::min(tail_slot_, error_slot_)) return false;
  const PostedRequest& request = requests_[send_slot_];
  if (request.is_local()) return false;
  const Sequence end = end_of_packet(request);
  if (config_.service == wire::Service::uc) {
    send_unacknowledged(request, end, out);
    return true;
  }
  if (!may_send(request, end)) return false;
  send(request, end, now, out);
  return true;
}

/// After going back: executed operations are not executed again.
void Requester::pass_local() {
  while (send_slot_ < local_end_ && requests_[send_slot_].is_local()) ++send_slot_;
}

std::optional<Slot> Requester::poll_local() {
  pass_local();
  if (failed_ || waiting_rnr_ || send_slot_ >= std::min(tail_slot_, error_slot_)) {
    return std::nullopt;
  }
  const PostedRequest& request = requests_[send_slot_];
  if (!request.is_local() || is_fenced(request)) return std::nullopt;
  const Slot slot = send_slot_++;
  local_end_ = send_slot_;
  skip_local();
  return slot;
}

/// Returns the sequence after the packet at the cursor. A READ request takes one for each response.
Sequence Requester::end_of_packet(const PostedRequest& request) const {
  if (!request.is_read()) return send_sequence_ + 1;
  if (send_sequence_ < sent_end_) return reads_.holding(send_sequence_).end;
  // Bounds what the peer may answer at once: it must fit in our socket's receive buffer.
  const std::uint32_t packets_max = std::max(window_.quarter() / full_packet_cost_, 1u);
  return std::min(send_sequence_ + packets_max, request.end_sequence());
}

/// IBA 10.8.3.3: a fenced request waits for the completion of all earlier READs and atomics.
bool Requester::is_fenced(const PostedRequest& request) const {
  return request.fence && !reads_.empty() && reads_.oldest().first < request.first_sequence;
}

bool Requester::may_send(const PostedRequest& request, Sequence end) {
  const bool is_new = send_sequence_ == sent_end_;
  const std::uint32_t reads_max =
      std::min<std::uint32_t>(config_.max_rd_atomic, OutstandingReads::kMax);
  if (is_new && request.awaits_response() && reads_.size() >= reads_max) return false;
  if (is_fenced(request)) return false;
  // The smallest window is one packet of any size.
  if (!in_flight()) return true;
  if (position_of(request, end) - acknowledged_position_ <= window_.bytes()) return true;
  window_.note_full();
  return false;
}

/// Sends the packet at the cursor: a new one, or one again after going back.
void Requester::send(const PostedRequest& request, Sequence end, TimeNs now, OutgoingPacket& out) {
  const bool is_new = send_sequence_ == sent_end_;
  if (is_new && request.awaits_response()) reads_.push({send_sequence_, end});
  fill(send_slot_, send_sequence_, end, out);
  // At least each quarter of the window requests an acknowledgement, so that the window moves
  // before it is full (IBA 9.7.3 leaves the choice to the requester).
  const std::uint64_t position = position_of(request, end);
  bool& ack_request = out.headers.bth.ack_request;
  ack_request |= position - ack_requested_position_ >= window_.quarter();
  if (ack_request) {
    ack_requested_position_ = position;
    if (is_new) round_trip_.sent(end - 1, now);
  }
  if (!is_new) ++retransmissions_;
  if (!in_flight()) progress_at_ = now;
  send_sequence_ = end;
  sent_end_ = std::max(sent_end_, end);
  if (end == request.end_sequence()) ++send_slot_;
}

/// UC: a packet that is sent counts as done, whether it arrives or not (IBA 9.8.2).
void Requester::send_unacknowledged(const PostedRequest& request, Sequence end,
                                    OutgoingPacket& out) {
  fill(send_slot_, send_sequence_, end, out);
  out.headers.bth.ack_request = false;
  if (end == request.end_sequence()) ++send_slot_;
  acknowledged_ = send_sequence_ = sent_end_ = end;
  ack_slot_ = send_slot_;
}

/// A probe after some silence: sends the last packet again, so that the responder reports what it
/// has, or NAKs a gap. If only the tail of a burst was lost, no later packet shows it, and the ACK
/// time-out takes thousands of round trips.
bool Requester::poll_probe(OutgoingPacket& out) {
  probe_due_ = false;
  if (!in_flight() || !reads_.empty()) return false;
  const Sequence sequence = send_sequence_ - 1;
  const bool in_cursor =
      send_slot_ < tail_slot_ && sequence >= requests_[send_slot_].first_sequence;
  Slot slot = in_cursor ? send_slot_ : send_slot_ - 1;
  while (requests_[slot].is_local()) --slot;
  if (slot >= error_slot_) return false;
  fill(slot, sequence, sequence + 1, out);
  out.headers.bth.ack_request = true;
  ++retransmissions_;
  return true;
}

/// Builds packet `sequence` of a request; for a READ, the request for the responses from `sequence`
/// to `end`.
void Requester::fill(Slot slot, Sequence sequence, Sequence end, OutgoingPacket& out) const {
  const PostedRequest& request = requests_[slot];
  const std::uint64_t index = sequence - request.first_sequence;
  const std::uint64_t offset = index * mtu_bytes_;
  const bool is_last = end == request.end_sequence();
  const auto bytes =
      static_cast<std::uint32_t>(is_last ? request.length - offset : (end - sequence) * mtu_bytes_);
  const OperationInfo operation = info(request.operation);
  const bool sends_bytes = operation.data == DataFlow::out;
  Position position = Position::only;
  if (sends_bytes && request.packets > 1) {
    position = index == 0 ? Position::first : is_last ? Position::last : Position::middle;
  }
  const OpcodeTable& opcodes = opcodes_for(config_.service);

  out.headers.bth = {
      .opcode = opcodes[raw(request.operation)][static_cast<std::size_t>(position)],
      .solicited_event = is_last && request.solicited && may_solicit(operation),
      .pad_count = static_cast<std::uint8_t>(sends_bytes ? -bytes & 3 : 0),
      .pkey = config_.pkey,
      .dest_qp = config_.dest_qp,
      .ack_request = position == Position::last || position == Position::only,
      .psn = psn_of(sequence),
  };
  out.headers.xrc_eth.srq = request.remote_srq;
  fill_request_headers(request, offset, bytes, out.headers);
  out.payload = {};
  if (sends_bytes && bytes > 0) {
    out.payload = {PayloadSource::From::request, bytes, slot, offset};
  }
}

/// Fills in the extended headers for bytes [offset, offset + bytes) of the request.
void Requester::fill_request_headers(const PostedRequest& request, std::uint64_t offset,
                                     std::uint32_t bytes, wire::Headers& headers) const {
  switch (request.operation) {
    case Operation::compare_and_swap:
    case Operation::fetch_and_add: {
      const bool swaps = request.operation == Operation::compare_and_swap;
      headers.atomic_eth = {.address = request.remote_address,
                            .key = request.remote_key,
                            .swap_or_add = swaps ? request.swap : request.compare_add,
                            .compare = swaps ? request.compare_add : 0};
      return;
    }
    case Operation::read:
      headers.reth = {request.remote_address + offset, request.remote_key, bytes};
      return;
    case Operation::flush:
      headers.feth = request.flush;
      headers.reth = {request.remote_address, request.remote_key, request.immediate};
      return;
    default:
      headers.immediate = request.immediate;
      headers.invalidate_key = request.remote_key;
      headers.reth = {request.remote_address, request.remote_key, request.length};
      return;
  }
}

}  // namespace verbatim::transport
