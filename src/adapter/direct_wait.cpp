#include <algorithm>

#include "adapter/direct_link.h"

/// The direct path's patience: for a receive request, for an answer, and with a peer that has
/// ended.
namespace verbatim::adapter {

using transport::Status;

namespace {

/// Without an answer a request is repeated after 4.096 us * 2^timeout (IBA 9.7.6.1.3).
constexpr TimeNs timeout_of(std::uint8_t code) { return TimeNs{4096} << code; }
constexpr unsigned kForEver = ~0u;
constexpr std::uint8_t kInfiniteRnrRetry = 7;
/// A stream holds what its receiver's program does not take, so a receiver may be late; without any
/// receive the stream ends.
constexpr TimeNs kStreamPatience = 2 * kSecond;
constexpr TimeNs kStreamPause = kMillisecond / 2;

}  // namespace

/// Attempts before the deadline cost nothing and count nothing.
DirectLink::Outcome DirectLink::wait(TimeNs pause, unsigned tries, Status at_last) {
  const TimeNs now = monotonic_now();
  if (deadline_ != kNever && now < deadline_) return Outcome::waits;
  if (tried_ >= tries) return complete(at_last);
  if (tries != kForEver) ++tried_;
  deadline_ = now + pause;
  return Outcome::waits;
}

DirectLink::Outcome DirectLink::not_ready() {
  if (!config_.reliable) return complete(Status::success);
  if (config_.has_stream) {
    const Outcome outcome =
        wait(kStreamPause, kStreamPatience / kStreamPause, Status::rnr_retry_exceeded);
    return outcome == Outcome::completed ? refuse_request() : outcome;
  }
  const unsigned tries = config_.rnr_retry == kInfiniteRnrRetry ? kForEver : config_.rnr_retry;
  return wait(wire::Syndrome::rnr_nak(target_.min_rnr_timer).rnr_timer_ns(), tries,
              Status::rnr_retry_exceeded);
}

/// Of a peer that has ended. What its agent says for it (a DREQ) comes first, as with cards, whose
/// retries take longer.
TimeNs DirectLink::silence() const {
  constexpr TimeNs kFarewell = kSecond / 4;
  if (config_.timeout == 0) return kFarewell;
  return std::min(timeout_of(config_.timeout) * (config_.retry_count + 1u), kFarewell);
}

DirectLink::Outcome DirectLink::no_answer() {
  if (!config_.reliable) return complete(Status::success);
  if (peer().is_gone()) return wait(silence(), 1, Status::retry_exceeded);
  if (config_.timeout == 0) return wait(kLookAgain, kForEver, Status::retry_exceeded);
  return wait(timeout_of(config_.timeout), config_.retry_count + 1u, Status::retry_exceeded);
}

}  // namespace verbatim::adapter
