#pragma once

#include <atomic>
#include <cstdint>

namespace verbatim {

/// Names a process in a word of shared memory: its number (22 bits, the kernel's largest) and 10
/// bits of the time when it began, so that a process that has its number later is told from it.
/// Never 0. Good among processes of one pid namespace.
using ProcessToken = std::uint32_t;

/// Reads this process's token anew, as a forked child must, and returns it.
ProcessToken renew_own_process_token();

namespace detail {
inline std::atomic<ProcessToken> own_process_token{0};
}  // namespace detail

/// Returns this process's token, which is read from /proc once.
inline ProcessToken own_process_token() {
  const ProcessToken token = detail::own_process_token.load(std::memory_order_relaxed);
  return token != 0 ? token : renew_own_process_token();
}
/// Returns false if the process has ended, though its parent may not have waited for it yet; true
/// if /proc does not tell. Takes some microseconds.
bool process_lives(ProcessToken token);
inline std::uint32_t process_id_of(ProcessToken token) { return token >> 10; }

}  // namespace verbatim
