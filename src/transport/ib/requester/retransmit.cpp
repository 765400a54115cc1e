#include <algorithm>

#include "transport/ib/requester/requester.h"

/// Retransmission: the requester goes back to the oldest unacknowledged packet and sends from there
/// (IBA 9.7.6).
namespace verbatim::transport {
namespace {

constexpr std::uint8_t kRnrRetryForEver = 7;
constexpr std::uint32_t kAckTimeoutShiftMax = 2;

/// IBA 9.7.6.1.3.
constexpr TimeNs ack_timeout_ns(std::uint8_t timeout) { return TimeNs{4096} << (timeout & 31); }

}  // namespace

void Requester::go_back() {
  send_sequence_ = acknowledged_;
  send_slot_ = ack_slot_;
  ack_requested_position_ = acknowledged_position_;
  probe_due_ = false;
  round_trip_.cancel();
}

void Requester::shrink_window() {
  if (acknowledged_ < recovery_end_) return;
  window_.on_loss();
  recovery_end_ = sent_end_;
}

/// A sequence error or a time-out uses up one retry (IBA 9.7.5.2 and 9.7.6).
void Requester::on_loss(TimeNs now) {
  if (retries_ >= config_.retry_count) {
    if (!may_migrate_) return fail(Status::retry_exceeded);
    may_migrate_ = false;
    wants_to_migrate_ = true;
    retries_ = 0;
  }
  ++retries_;
  shrink_window();
  went_back_to_ = acknowledged_;
  progress_at_ = now;
  go_back();
}

/// A later response shows that the response to the oldest request was lost. Each response that
/// follows shows it again, so it is requested again only once; if it is lost again, a time-out
/// repeats it.
void Requester::on_missing_response(TimeNs now) {
  if (went_back_to_ != acknowledged_) on_loss(now);
}

/// IBA 9.7.5.2.8: waits, then sends again from the packet that found no receive request.
void Requester::on_rnr_nak(TimeNs wait_ns, Sequence sequence, TimeNs now) {
  // Ignores a duplicate during the wait, and an RNR NAK of a packet that is to be sent again
  // anyway.
  if (waiting_rnr_ || sequence >= send_sequence_) return;
  if (config_.rnr_retry != kRnrRetryForEver) {
    if (rnr_retries_ >= config_.rnr_retry) return fail(Status::rnr_retry_exceeded);
    ++rnr_retries_;
  }
  waiting_rnr_ = true;
  rnr_until_ = now + wait_ns;
  rnr_sequence_ = sequence;
  go_back();
}

void Requester::on_timeout(TimeNs now, RequesterEffects& out) {
  if (failed_) return;
  if (waiting_rnr_) {
    if (now >= rnr_until_) waiting_rnr_ = false;
    return;
  }
  if (now >= ack_deadline()) {
    on_loss(now);
    return emit(out, tail_slot_);
  }
  if (now >= probe_deadline()) {
    probe_due_ = has_probed_ = true;
    round_trip_.cancel();
  }
}

TimeNs Requester::deadline() const {
  if (failed_) return kNever;
  if (waiting_rnr_) return rnr_until_;
  return std::min(ack_deadline(), probe_deadline());
}

/// A time-out may be up to four times as long as requested (IBA 9.7.6.1.3). Without progress each
/// one is longer than the one before: the responder is a program that may be waiting for a CPU, and
/// it must read the retransmitted packets, too.
TimeNs Requester::ack_deadline() const {
  if (!in_flight() || config_.timeout == 0) return kNever;
  const std::uint32_t shift = std::min(retries_, kAckTimeoutShiftMax);
  return progress_at_ + (ack_timeout_ns(config_.timeout) << shift);
}

/// Once after each progress, and only if it is known how soon the peer answers. A READ or atomic is
/// not probed: its responder may take its time, and the data would come twice.
TimeNs Requester::probe_deadline() const {
  const bool may_probe = in_flight() && !has_probed_ && round_trip_.is_known() && reads_.empty() &&
                         config_.probes && !config_.lossless;
  return may_probe ? progress_at_ + round_trip_.probe_after() : kNever;
}

}  // namespace verbatim::transport
