#include <algorithm>
#include <utility>

#include "adapter/direct/direct_link.h"

/// Time-outs of the direct path: for a receive request (RNR), for an answer, and for a peer process
/// that has ended.
namespace verbatim::adapter {

using transport::Status;

namespace {

/// An unanswered request is repeated after 4.096 us * 2^timeout (IBA 9.7.6.1.3).
constexpr TimeNs timeout_of(std::uint8_t code) { return TimeNs{4096} << code; }
constexpr unsigned kForEver = ~0u;
constexpr std::uint8_t kInfiniteRnrRetry = 7;
/// A process that holds a lock as long is taken for stopped: no peer loses a connection because
/// another process waits for a processor.
constexpr TimeNs kLockTimeout = 4 * kSecond;
constexpr TimeNs kLockPause = kMillisecond;
/// iWARP: a TCP stream buffers data that its receiver has posted no receive for, so the receiver
/// may be late. Without any receive the stream ends.
constexpr TimeNs kStreamReceiveTimeout = 2 * kSecond;
constexpr TimeNs kStreamPause = kMillisecond / 2;

}  // namespace

/// Waits for `pause`, `tries` times, then completes with `at_last`. Returns `waits` until then.
/// Calls before `deadline_` do not count as tries, nor do those for something else.
DirectLink::Outcome DirectLink::wait(Awaited awaited, TimeNs pause, unsigned tries,
                                     Status at_last) {
  const TimeNs now = monotonic_now();
  if (std::exchange(awaited_, awaited) != awaited) {
    deadline_ = kNever;
    tried_ = 0;
  }
  if (deadline_ != kNever && now < deadline_) return Outcome::waits;
  if (tried_ >= tries) return complete(at_last);
  if (tries != kForEver) ++tried_;
  deadline_ = now + pause;
  return Outcome::waits;
}

DirectLink::Outcome DirectLink::look_again() {
  if (std::exchange(awaited_, Awaited::answer) != Awaited::answer) tried_ = 0;
  deadline_ = monotonic_now() + kLookAgain;
  return Outcome::waits;
}

/// A cable and the receiver's buffers hold a message until the receiver gets to it. Shared memory
/// does not, so the message waits here. The first retries follow quickly, because a receiver that
/// is about to post needs microseconds.
bool DirectLink::is_on_its_way() {
  constexpr unsigned kDoublingsMax = 4;
  const TimeNs now = monotonic_now();
  if (deadline_ == kNever || awaited_ == Awaited::answer || awaited_ == Awaited::lock) {
    awaited_ = Awaited::grace;
    grace_ends_at_ = now + config_.rnr_grace;
    deadline_ = now;
    tried_ = 0;
  }
  if (awaited_ != Awaited::grace || now >= grace_ends_at_) return false;
  if (now < deadline_) return true;
  deadline_ = std::min(now + (kLookAgain << std::min(tried_, kDoublingsMax)), grace_ends_at_);
  ++tried_;
  return true;
}

DirectLink::Outcome DirectLink::not_ready() {
  if (!config_.reliable) return complete(Status::success);
  if (is_on_its_way()) return Outcome::waits;
  if (config_.has_stream) {
    const Outcome outcome = wait(Awaited::receive, kStreamPause,
                                 kStreamReceiveTimeout / kStreamPause, Status::rnr_retry_exceeded);
    return outcome == Outcome::completed ? refuse_request() : outcome;
  }
  const unsigned tries = config_.rnr_retry == kInfiniteRnrRetry ? kForEver : config_.rnr_retry;
  return wait(Awaited::receive, wire::Syndrome::rnr_nak(target_.min_rnr_timer).rnr_timer_ns(),
              tries, Status::rnr_retry_exceeded);
}

/// How long a request to a dead peer waits before retry_exceeded: the queue pair's whole retry
/// time, at most 250 ms. So the DREQ that the peer's agent sends arrives first, as with hardware,
/// whose retries take longer.
TimeNs DirectLink::silence() const {
  constexpr TimeNs kErrorDelayMax = kSecond / 4;
  if (config_.timeout == 0) return kErrorDelayMax;
  return std::min(timeout_of(config_.timeout) * (config_.retry_count + 1u), kErrorDelayMax);
}

bool DirectLink::is_served_as_limited_member() const {
  return target_.serves_limited_member(config_.own_qpn, own_name_);
}

/// A P_Key that does not match counts at each repetition, as that of a packet.
DirectLink::Outcome DirectLink::not_served() {
  const bool is_first = deadline_ == kNever;
  const unsigned tried = tried_;
  const Outcome outcome = no_answer();
  const bool is_repeated = outcome == Outcome::waits && tried_ > tried;
  if ((is_first || is_repeated) && target_.refuses_pkey(config_.own_qpn, own_name_)) {
    on_bad_p_key();
  }
  return outcome;
}

void DirectLink::on_bad_p_key() const {
  peer().header().port_counters.pkey_violations.add();
  if (config_.report_bad_key) config_.report_bad_key({});
}

void DirectLink::on_bad_q_key(QKey key) const {
  peer().header().port_counters.qkey_violations.add();
  if (config_.report_bad_key) config_.report_bad_key(key);
}

DirectLink::Outcome DirectLink::no_answer() {
  if (!config_.reliable) return complete(Status::success);
  constexpr Status kAtLast = Status::retry_exceeded;
  if (peer().is_gone()) return wait(Awaited::answer, silence(), 1, kAtLast);
  if (config_.timeout == 0) return wait(Awaited::answer, kLookAgain, kForEver, kAtLast);
  const unsigned tries = config_.retry_count + 1u;
  return wait(Awaited::answer, timeout_of(config_.timeout), tries, kAtLast);
}

DirectLink::Outcome DirectLink::busy() {
  if (!config_.reliable) return complete(Status::success);
  const unsigned tries = config_.timeout == 0 ? kForEver : kLockTimeout / kLockPause;
  return wait(Awaited::lock, kLockPause, tries, Status::retry_exceeded);
}

}  // namespace verbatim::adapter
