#pragma once

#include <atomic>
#include <cstdint>

namespace verbatim {

/// Names a process in a word of shared memory: its number (22 bits, the kernel's maximum) and 10
/// bits of its start time, which tell it from a later process with the same number. Never 0. Valid
/// within one pid namespace.
using ProcessToken = std::uint32_t;

/// Reads this process's token again and returns it; a forked child must call this.
ProcessToken renew_own_process_token();

namespace detail {
inline std::atomic<ProcessToken> own_process_token{0};
}  // namespace detail

/// Returns this process's token; /proc is read once.
inline ProcessToken own_process_token() {
  const ProcessToken token = detail::own_process_token.load(std::memory_order_relaxed);
  return token != 0 ? token : renew_own_process_token();
}
/// Returns false if the process has ended, even if its parent has not reaped it yet; true if the
/// kernel cannot tell. Takes some microseconds.
bool process_lives(ProcessToken token);
inline std::uint32_t process_id_of(ProcessToken token) { return token >> 10; }

/// Scope object: in this thread, `process_lives` returns false for the process meanwhile. A pidfd
/// has shown that the process has ended, but another process may have its number by now.
class KnownEnd {
 public:
  explicit KnownEnd(ProcessToken ended);
  ~KnownEnd();
  KnownEnd(const KnownEnd&) = delete;
  KnownEnd& operator=(const KnownEnd&) = delete;
};

}  // namespace verbatim
