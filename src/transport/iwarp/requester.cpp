#include "transport/iwarp/requester.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"

namespace verbatim::transport::iwarp {

using wire::RdmapOpcode;

Requester::Requester(std::uint32_t capacity)
    : capacity_(capacity),
      mask_(std::bit_ceil(capacity) - 1),
      requests_(std::make_unique<SendRequest[]>(mask_ + 1)) {
  VERBATIM_ASSERT(capacity > 0);
}

void Requester::reset() {
  config_ = {};
  done_slot_ = handed_slot_ = send_slot_ = tail_slot_ = 0;
  offset_ = 0;
  immediate_is_due_ = failed_ = false;
  rtr_.reset();
  send_number_ = request_number_ = response_number_ = 0;
  reads_.clear();
  error_slot_ = kNoSlot;
}

Slot Requester::post(const SendRequest& request) {
  VERBATIM_ASSERT(!full());
  at(tail_slot_) = request;
  return tail_slot_++;
}

bool Requester::may_begin(const SendRequest& request) const {
  if (request.fence && !reads_.empty()) return false;
  return !info(request.operation).awaits_response || reads_.size() < config_.max_rd_atomic;
}

bool Requester::poll_transmit(OutgoingSegment& out) {
  if (rtr_ && !in_message()) return poll_rtr(out);
  if (failed_) return false;
  if (send_slot_ == tail_slot_) return false;
  const SendRequest& request = at(send_slot_);
  if (info(request.operation).is_local) return false;
  if (!in_message() && !immediate_is_due_ && !may_begin(request)) return false;
  out.header = {};
  out.body.clear();
  out.payload = {};
  if (immediate_is_due_) {
    fill_immediate(request, out);
  } else if (request.operation == Operation::read) {
    fill_read({.sink_stag = sink_of(send_slot_),
               .length = static_cast<std::uint32_t>(request.length),
               .source_stag = raw(request.remote_key),
               .source_offset = request.remote_address},
              send_slot_, out);
  } else if (is_atomic(request.operation)) {
    fill_atomic(request, out);
  } else if (is_write(request.operation)) {
    fill_tagged(request, out);
  } else {
    fill_send(request, out);
  }
  return true;
}

/// An empty message that belongs to no request.
bool Requester::poll_rtr(OutgoingSegment& out) {
  out = {};
  if (*std::exchange(rtr_, std::nullopt) == RtrMessage::read) {
    fill_read({.source_stag = rtr_address_.stag, .source_offset = rtr_address_.offset}, kNoSlot,
              out);
  } else {
    set_rdmap(out.header, RdmapOpcode::write);
    out.header.last = true;
    out.header.stag = rtr_address_.stag;
    out.header.offset = rtr_address_.offset;
  }
  return true;
}

/// Adds the request's next bytes, as many as fit in the segment; marks the last segment.
std::uint32_t Requester::take_payload(const SendRequest& request, OutgoingSegment& out) {
  const std::uint64_t room = config_.segment_bytes_max - out.header.size();
  const auto length = static_cast<std::uint32_t>(std::min(request.length - offset_, room));
  out.payload = {.from = length > 0 ? PayloadSource::From::request : PayloadSource::From::nothing,
                 .length = length,
                 .slot = send_slot_,
                 .offset = offset_};
  offset_ += length;
  out.header.last = offset_ == request.length;
  return length;
}

void Requester::end_request() {
  offset_ = 0;
  ++send_slot_;
}

void Requester::fill_tagged(const SendRequest& request, OutgoingSegment& out) {
  set_rdmap(out.header, RdmapOpcode::write);
  out.header.stag = raw(request.remote_key);
  out.header.offset = request.remote_address + offset_;
  take_payload(request, out);
  if (!out.header.last) return;
  immediate_is_due_ = info(request.operation).immediate;
  if (immediate_is_due_) {
    offset_ = 0;
  } else {
    end_request();
  }
}

void Requester::fill_send(const SendRequest& request, OutgoingSegment& out) {
  const bool invalidates = info(request.operation).invalidate;
  if (invalidates) {
    set_rdmap(out.header,
              request.solicited ? RdmapOpcode::send_solicited_with_invalidate
                                : RdmapOpcode::send_with_invalidate,
              raw(request.remote_key));
  } else {
    set_rdmap(out.header, request.solicited ? RdmapOpcode::send_solicited : RdmapOpcode::send);
  }
  if (!in_message()) ++send_number_;
  out.header.message_number = send_number_;
  out.header.message_offset = static_cast<std::uint32_t>(offset_);
  take_payload(request, out);
  if (out.header.last) end_request();
}

/// RFC 7306, section 6: a separate message after the WRITE. Programs use four of its 8 bytes.
void Requester::fill_immediate(const SendRequest& request, OutgoingSegment& out) {
  set_rdmap(out.header,
            request.solicited ? RdmapOpcode::immediate_solicited : RdmapOpcode::immediate);
  out.header.message_number = ++send_number_;
  out.header.last = true;
  const auto bytes = out.body.grow<wire::kRdmapImmediateBytes>();
  std::ranges::fill(bytes, std::byte{});
  std::memcpy(bytes.data(), &request.immediate, sizeof request.immediate);
  immediate_is_due_ = false;
  end_request();
}

void Requester::begin_request(Slot slot, OutgoingSegment& out) {
  out.header.message_number = ++request_number_;
  out.header.last = true;
  reads_.push({.slot = slot, .message_number = request_number_});
}

void Requester::fill_read(const wire::RdmapReadRequest& request, Slot slot, OutgoingSegment& out) {
  set_rdmap(out.header, RdmapOpcode::read_request);
  begin_request(slot, out);
  encode(request, out.body.grow<wire::RdmapReadRequest::kSize>());
  if (slot != kNoSlot) end_request();
}

void Requester::fill_atomic(const SendRequest& request, OutgoingSegment& out) {
  using Wanted = wire::RdmapAtomicRequest;
  constexpr std::uint64_t kEveryBit = ~std::uint64_t{0};
  set_rdmap(out.header, RdmapOpcode::atomic_request);
  begin_request(send_slot_, out);
  Wanted wanted{.identifier = request_number_,
                .stag = raw(request.remote_key),
                .offset = request.remote_address};
  if (request.operation == Operation::fetch_and_add) {
    wanted.operation = Wanted::Operation::fetch_and_add;
    wanted.add_or_swap = request.compare_add;
  } else {
    wanted.operation = Wanted::Operation::compare_and_swap;
    wanted.add_or_swap = request.swap;
    wanted.compare = request.compare_add;
    wanted.add_or_swap_mask = wanted.compare_mask = kEveryBit;
  }
  encode(wanted, out.body.grow<Wanted::kSize>());
  end_request();
}

std::optional<Slot> Requester::poll_local() {
  if (failed_ || rtr_ || send_slot_ == tail_slot_) return std::nullopt;
  const SendRequest& request = at(send_slot_);
  if (!info(request.operation).is_local || !may_begin(request)) return std::nullopt;
  return send_slot_++;
}

void Requester::on_handed_over(RequesterEffects& out) {
  handed_slot_ = send_slot_;
  emit(out);
}

}  // namespace verbatim::transport::iwarp
