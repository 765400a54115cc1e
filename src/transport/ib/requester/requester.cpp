#include "transport/ib/requester/requester.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"

namespace verbatim::transport {

Requester::Requester(std::uint32_t capacity) : capacity_(capacity), requests_(capacity) {
  VERBATIM_ASSERT(capacity > 0);
  reset();
}

void Requester::reset() {
  config_ = {};
  started_ = failed_ = flushing_ = probe_due_ = waiting_rnr_ = has_probed_ = false;
  may_migrate_ = wants_to_migrate_ = false;
  retries_ = rnr_retries_ = 0;
  done_slot_ = ack_slot_ = send_slot_ = tail_slot_ = 0;
  error_slot_ = kNoSlot;
  local_end_ = 0;
  acknowledged_ = send_sequence_ = sent_end_ = posted_end_ = 0;
  posted_position_ = acknowledged_position_ = ack_requested_position_ = 0;
  mtu_bytes_ = bytes_of(Mtu::k256);  // Requests posted before the start are only flushed.
  reads_.clear();
  recovery_end_ = 0;
  went_back_to_ = kNoSequence;
  progress_at_ = rnr_until_ = 0;
  rnr_sequence_ = 0;
  retransmissions_ = 0;
}

void Requester::configure(const RequesterConfig& config) {
  config_ = config;
  if (started_) return window_.set_max(config.window_bytes_max);
  VERBATIM_ASSERT(tail_slot_ == 0);
  started_ = true;
  mtu_bytes_ = bytes_of(config.path_mtu);
  full_packet_cost_ = mtu_bytes_ + SendWindow::kPacketOverheadBytes;
  // No window holds 2^23 packets, since each counts more than 2^32 / 2^23 bytes. IBA 9.7.2: a PSN
  // that far ahead looks like an old one.
  static_assert(SendWindow::kPacketOverheadBytes >= 512);
  window_.start(full_packet_cost_, config.window_bytes_max, config.lossless);
  round_trip_.start();
}

Slot Requester::post(const SendRequest& request) {
  VERBATIM_ASSERT(!full());
  PostedRequest& posted = requests_[tail_slot_];
  posted.operation = request.operation;
  posted.fence = request.fence;
  posted.solicited = request.solicited;
  posted.immediate =
      request.operation == Operation::flush ? request.flush_bytes : request.immediate;
  posted.flush = request.flush;
  posted.remote_address = request.remote_address;
  posted.remote_key = request.remote_key;
  posted.remote_srq = request.remote_srq;
  posted.compare_add = request.compare_add;
  posted.swap = request.swap;
  const bool is_local = info(request.operation).is_local;
  posted.length = is_local ? 0 : static_cast<std::uint32_t>(request.length);
  // A request without bytes is one packet, and so is an atomic: 8 bytes fit in every MTU.
  posted.packets = std::max((posted.length + mtu_bytes_ - 1) >> std::countr_zero(mtu_bytes_), 1u);
  if (is_local) posted.packets = 0;
  posted.first_sequence = posted_end_;
  posted.first_position = posted_position_;
  posted_end_ += posted.packets;
  posted_position_ +=
      posted.length + std::uint64_t{posted.packets} * SendWindow::kPacketOverheadBytes;
  return tail_slot_++;
}

/// Completes the oldest unacknowledged request with `status` and stops the requester.
void Requester::fail(Status status) {
  failed_ = true;
  error_slot_ = ack_slot_;
  error_status_ = status;
}

void Requester::on_local_error(Slot slot, Status status, RequesterEffects& out) {
  VERBATIM_ASSERT(slot >= done_slot_ && slot < tail_slot_);
  if (!failed_ && slot < error_slot_) {
    error_slot_ = slot;
    error_status_ = status;
  }
  emit(out, tail_slot_);
}

void Requester::flush(RequesterEffects& out) {
  failed_ = flushing_ = true;
  emit(out, tail_slot_);
}

/// Returns the status with which the oldest incomplete request completes now; nothing if it does
/// not yet.
std::optional<Status> Requester::due_status() const {
  if (done_slot_ == tail_slot_) return std::nullopt;
  if (done_slot_ == error_slot_) {
    if (ack_slot_ >= error_slot_ || flushing_) return error_status_;
    return std::nullopt;
  }
  if (done_slot_ < ack_slot_ && done_slot_ < error_slot_) return Status::success;
  if (flushing_) return Status::flushed;
  return std::nullopt;
}

/// Appends the due completions of slots before `end`, as far as the list has room.
void Requester::emit(RequesterEffects& out, Slot end) {
  if (ack_slot_ >= error_slot_) failed_ = true;
  // A failure needs two effects.
  constexpr std::size_t kRoom = decltype(out.list)::capacity() - 2;
  while (done_slot_ < end && out.list.size() <= kRoom) {
    const auto status = due_status();
    if (!status) break;
    const bool is_error = done_slot_ == error_slot_;
    out.list.push(CompleteRequest{done_slot_++, *status});
    if (is_error) out.list.push(RequesterFailed{*status});
  }
  out.more = due_status().has_value();
}

}  // namespace verbatim::transport
