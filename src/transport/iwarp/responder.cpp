#include "transport/iwarp/responder.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace verbatim::transport::iwarp {
namespace {

using wire::RdmapOpcode;

constexpr std::uint32_t kAtomicBytes = 8;

/// Returns true if [offset, offset + length) wraps around.
bool wraps(std::uint64_t offset, std::uint64_t length) {
  return length > 0 && offset > std::numeric_limits<std::uint64_t>::max() - (length - 1);
}

/// Masked atomics are not supported: the masks must select all bits.
bool is_whole(const wire::RdmapAtomicRequest& request) {
  constexpr std::uint64_t kEveryBit = ~std::uint64_t{0};
  if (request.operation == wire::RdmapAtomicRequest::Operation::fetch_and_add) {
    return request.add_or_swap_mask == 0;  // No carry is cut before the last bit.
  }
  return request.operation == wire::RdmapAtomicRequest::Operation::compare_and_swap &&
         request.add_or_swap_mask == kEveryBit && request.compare_mask == kEveryBit;
}

}  // namespace

void Responder::reset() {
  config_ = {};
  receive_.reset();
  received_ = written_ = sent_ = 0;
  write_ended_ = true;
  send_number_ = request_number_ = response_number_ = 0;
  responses_.clear();
}

std::optional<Fault> Responder::on_segment(RdmapOpcode opcode, const wire::Ddp& header,
                                           ByteSpan payload, ReceiveSource& receives,
                                           const region::RegionTable& regions,
                                           ResponderEffects& out) {
  switch (opcode) {
    case RdmapOpcode::write:
      return on_write(header, payload, regions, out);
    case RdmapOpcode::read_request:
      return on_read_request(header, payload, regions);
    case RdmapOpcode::atomic_request:
      return on_atomic_request(header, payload, regions, out);
    case RdmapOpcode::immediate:
    case RdmapOpcode::immediate_solicited:
      return on_immediate(opcode, header, payload, receives, out);
    case RdmapOpcode::send:
    case RdmapOpcode::send_solicited:
    case RdmapOpcode::send_with_invalidate:
    case RdmapOpcode::send_solicited_with_invalidate:
      return on_send(opcode, header, payload, receives, regions, out);
    default:
      return faults::kUnexpectedOpcode;
  }
}

/// Takes the receive request for the message that this segment belongs to.
std::optional<Fault> Responder::take_receive(RdmapOpcode opcode, const wire::Ddp& header,
                                             ReceiveSource& receives) {
  if (header.message_number != send_number_ + 1) return faults::kMessageNumber;
  if (header.message_offset != received_) return faults::kMessageOffset;
  if (receive_) return opcode == opcode_ ? std::nullopt : std::optional(faults::kUnexpectedOpcode);
  Receive taken;
  if (!receives.take(taken)) return faults::kNoBuffer;
  receive_ = taken;
  opcode_ = opcode;
  return std::nullopt;
}

std::optional<Fault> Responder::on_send(RdmapOpcode opcode, const wire::Ddp& header,
                                        ByteSpan payload, ReceiveSource& receives,
                                        const region::RegionTable& regions, ResponderEffects& out) {
  if (const auto fault = take_receive(opcode, header, receives)) return fault;
  if (payload.size() > receive_->capacity_bytes - received_) {
    out.push(CompleteReceive{.ticket = receive_->ticket, .status = Status::local_length_error});
    receive_.reset();
    return faults::kMessageTooLong;
  }
  const MemoryKey ended{header.upper_word};
  if (header.last && info(opcode).invalidate && !regions.check_invalidation(ended, accessor())) {
    return faults::kNotInvalidated;
  }
  if (!payload.empty()) out.push(PlaceReceive{receive_->ticket, received_, payload});
  received_ += payload.size();
  if (header.last) complete_send(opcode, header, out);
  return std::nullopt;
}

void Responder::complete_send(RdmapOpcode opcode, const wire::Ddp& header, ResponderEffects& out) {
  const wire::RdmapInfo& what = info(opcode);
  CompleteReceive completed{
      .ticket = receive_->ticket, .byte_count = received_, .solicited = what.solicited};
  if (what.invalidate) {
    completed.has_invalidated_key = true;
    completed.invalidated_key = MemoryKey{header.upper_word};
    out.push(InvalidateKey{completed.invalidated_key});
  }
  out.push(completed);
  receive_.reset();
  received_ = 0;
  ++send_number_;
}

/// Leaves the receive request's memory unchanged: the data went into the WRITE before.
std::optional<Fault> Responder::on_immediate(RdmapOpcode opcode, const wire::Ddp& header,
                                             ByteSpan payload, ReceiveSource& receives,
                                             ResponderEffects& out) {
  if (const auto fault = take_receive(opcode, header, receives)) return fault;
  if (!header.last || payload.size() != wire::kRdmapImmediateBytes) return faults::kOperation;
  CompleteReceive completed{.ticket = receive_->ticket,
                            .byte_count = written_,
                            .is_write = true,
                            .has_immediate = true,
                            .solicited = info(opcode).solicited};
  std::memcpy(&completed.immediate, payload.data(), sizeof completed.immediate);
  out.push(completed);
  receive_.reset();
  ++send_number_;
  return std::nullopt;
}

std::optional<Fault> Responder::on_write(const wire::Ddp& header, ByteSpan payload,
                                         const region::RegionTable& regions,
                                         ResponderEffects& out) {
  if (std::exchange(write_ended_, header.last)) written_ = 0;
  written_ += payload.size();
  if (payload.empty()) return std::nullopt;  // RFC 5040, 5.2: then the STag is not checked.
  if (wraps(header.offset, payload.size())) return faults::kTaggedOffsetWraps;
  if ((config_.access & region::kRemoteWrite) == 0) return faults::kAccessRights;
  const MemoryKey key{header.stag};
  const auto allowed =
      regions.check(key, header.offset, payload.size(), region::kRemoteWrite, accessor());
  if (!allowed) return tagged_fault_of(allowed.error());
  out.push(PlaceWrite{key, header.offset, payload});
  return std::nullopt;
}

/// A READ or atomic request is complete: checks its number, and that its answer can be queued. At
/// least one always can, because the initiator's RTR message may be an empty READ (RFC 6581).
std::optional<Fault> Responder::begin_response(const wire::Ddp& header) {
  if (header.message_number != request_number_ + 1) return faults::kMessageNumber;
  if (header.message_offset != 0) return faults::kMessageOffset;
  const std::uint32_t depth =
      std::clamp<std::uint32_t>(config_.max_dest_rd_atomic, 1, kResponsesMax);
  if (responses_.size() == depth) return faults::kNoBuffer;
  ++request_number_;
  return std::nullopt;
}

std::optional<Fault> Responder::on_read_request(const wire::Ddp& header, ByteSpan payload,
                                                const region::RegionTable& regions) {
  using Request = wire::RdmapReadRequest;
  if (!header.last || payload.size() != Request::kSize) return faults::kMessageTooLong;
  if (const auto fault = begin_response(header)) return fault;
  const Request request = wire::decode_read_request(payload.first<Request::kSize>());
  if (wraps(request.source_offset, request.length)) return faults::kOffsetWraps;
  if (request.length > 0) {
    if ((config_.access & region::kRemoteRead) == 0) return faults::kAccessRights;
    const auto allowed = regions.check(MemoryKey{request.source_stag}, request.source_offset,
                                       request.length, region::kRemoteRead, accessor());
    if (!allowed) return fault_of(allowed.error());
  }
  responses_.push({.is_read = true, .read = request});
  return std::nullopt;
}

std::optional<Fault> Responder::on_atomic_request(const wire::Ddp& header, ByteSpan payload,
                                                  const region::RegionTable& regions,
                                                  ResponderEffects& out) {
  using Request = wire::RdmapAtomicRequest;
  if (!header.last || payload.size() != Request::kSize) return faults::kMessageTooLong;
  if (const auto fault = begin_response(header)) return fault;
  const Request request = wire::decode_atomic_request(payload.first<Request::kSize>());
  if (!is_whole(request) || request.offset % kAtomicBytes != 0) return faults::kOperation;
  if ((config_.access & region::kRemoteAtomic) == 0) return faults::kAccessRights;
  const MemoryKey key{request.stag};
  const auto allowed =
      regions.check(key, request.offset, kAtomicBytes, region::kRemoteAtomic, accessor());
  if (!allowed) return fault_of(allowed.error());
  const bool swaps = request.operation == Request::Operation::compare_and_swap;
  responses_.push({.identifier = request.identifier});
  out.push(ExecuteAtomic{.key = key,
                         .address = request.offset,
                         .compare_and_swap = swaps,
                         .compare_add = swaps ? request.compare : request.add_or_swap,
                         .swap = request.add_or_swap});
  return std::nullopt;
}

void Responder::on_atomic_result(std::uint64_t original) { responses_.back().original = original; }

void Responder::on_receive_memory_error(ResponderEffects& out) {
  out.push(CompleteReceive{.status = Status::local_protection_error});
  receive_.reset();
}

bool Responder::poll_transmit(OutgoingSegment& out) {
  if (responses_.empty()) return false;
  const Response& response = responses_.front();
  out = {};
  if (!response.is_read) {
    using Answer = wire::RdmapAtomicResponse;
    set_rdmap(out.header, RdmapOpcode::atomic_response);
    out.header.message_number = ++response_number_;
    out.header.last = true;
    encode(Answer{response.identifier, response.original}, out.body.grow<Answer::kSize>());
    responses_.pop();
    return true;
  }
  const wire::RdmapReadRequest& read = response.read;
  set_rdmap(out.header, RdmapOpcode::read_response);
  out.header.stag = read.sink_stag;
  out.header.offset = read.sink_offset + sent_;
  const std::uint64_t room = config_.segment_bytes_max - wire::Ddp::kTaggedSize;
  const auto length = static_cast<std::uint32_t>(std::min(read.length - sent_, room));
  if (length > 0) {
    out.payload = {.from = PayloadSource::From::region,
                   .length = length,
                   .key = MemoryKey{read.source_stag},
                   .address = read.source_offset + sent_,
                   .pd = config_.pd};
  }
  sent_ += length;
  out.header.last = sent_ == read.length;
  if (out.header.last) {
    responses_.pop();
    sent_ = 0;
  }
  return true;
}

}  // namespace verbatim::transport::iwarp
