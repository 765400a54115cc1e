#include "transport/iwarp/requester.h"

/// Responses, and the completion of requests.
namespace verbatim::transport::iwarp {

std::optional<Fault> Requester::on_read_response(const wire::Ddp& header, ByteSpan payload,
                                                 RequesterEffects& out) {
  if (reads_.empty()) return faults::kTaggedInvalidStag;
  Outstanding& read = reads_.front();
  const bool is_ready = read.slot == kNoSlot;
  if (!is_ready && at(read.slot).operation != Operation::read) return faults::kUnexpectedOpcode;
  if (header.stag != (is_ready ? 0 : sink_of(read.slot))) return faults::kTaggedInvalidStag;
  const std::uint64_t length = is_ready ? 0 : at(read.slot).length;
  if (payload.size() > length - read.received) return faults::kTaggedBounds;
  if (!payload.empty()) {
    if (header.offset != read.received) return faults::kTaggedBounds;
    out.list.push(PlaceResponse{read.slot, read.received, payload});
    read.received += payload.size();
  }
  if (!header.last) return std::nullopt;
  if (read.received != length) return faults::kOperation;
  end_response(out);
  return std::nullopt;
}

std::optional<Fault> Requester::on_atomic_response(const wire::Ddp& header, ByteSpan payload,
                                                   RequesterEffects& out) {
  using Response = wire::RdmapAtomicResponse;
  if (header.message_number != response_number_ + 1) return faults::kMessageNumber;
  if (header.message_offset != 0) return faults::kMessageOffset;
  if (reads_.empty()) return faults::kNoBuffer;
  const Outstanding& asked = reads_.front();
  const bool is_awaited = asked.slot != kNoSlot && is_atomic(at(asked.slot).operation);
  if (!is_awaited || !header.last || payload.size() != Response::kSize) {
    return faults::kUnexpectedOpcode;
  }
  const Response response = wire::decode_atomic_response(payload.first<Response::kSize>());
  if (response.identifier != asked.message_number) return faults::kOperation;
  ++response_number_;
  out.list.push(PlaceAtomic{asked.slot, response.original});
  end_response(out);
  return std::nullopt;
}

/// `resume` completes it: the placement before may still be refused.
void Requester::end_response(RequesterEffects& out) {
  reads_.pop();
  out.more = due_status().has_value();
}

bool Requester::is(const Outstanding& asked, const Refused& refused) const {
  if (asked.slot == kNoSlot) return false;
  return refused.sink != 0 ? sink_of(asked.slot) == refused.sink
                           : asked.message_number == refused.message_number;
}

void Requester::on_terminate(const Refused& refused, Status status, RequesterEffects& out) {
  if (failed_) return;
  failed_ = true;
  for (std::uint32_t i = 0; i < reads_.size(); ++i) {
    if (!is(reads_[i], refused)) continue;
    error_slot_ = reads_[i].slot;
    error_status_ = status;
  }
  if (error_slot_ == kNoSlot) out.list.push(RequesterFailed{status});
  emit(out);
}

void Requester::on_local_error(Slot slot, Status status, RequesterEffects& out) {
  VERBATIM_ASSERT(slot >= done_slot_ && slot < tail_slot_);
  if (!failed_) {
    failed_ = true;
    error_slot_ = slot;
    error_status_ = status;
  }
  emit(out);
}

void Requester::flush(RequesterEffects& out) {
  failed_ = true;
  emit(out);
}

bool Requester::oldest_awaits_response() const {
  const std::uint32_t first = !reads_.empty() && reads_[0].slot == kNoSlot ? 1 : 0;
  return reads_.size() > first && reads_[first].slot == done_slot_;
}

/// Returns the status with which the oldest incomplete request completes now; nothing if it does
/// not yet.
std::optional<Status> Requester::due_status() const {
  if (done_slot_ == tail_slot_) return std::nullopt;
  if (done_slot_ == error_slot_) return error_status_;
  if (done_slot_ < handed_slot_ && !oldest_awaits_response()) return Status::success;
  if (failed_) return Status::flushed;
  return std::nullopt;
}

void Requester::emit(RequesterEffects& out) {
  // A failure needs two effects.
  constexpr std::size_t kRoom = decltype(out.list)::capacity() - 2;
  while (out.list.size() <= kRoom) {
    const auto status = due_status();
    if (!status) break;
    const bool is_error = done_slot_ == error_slot_;
    out.list.push(CompleteRequest{done_slot_++, *status});
    if (is_error) out.list.push(RequesterFailed{*status});
    // Requests after one that was not done complete as flushed, even if they were done.
    if (*status != Status::success) handed_slot_ = 0;
  }
  out.more = due_status().has_value();
}

}  // namespace verbatim::transport::iwarp
