#pragma once

#include <atomic>
#include <cstdint>

namespace verbatim {

/// Names a process in a word of shared memory: its number (22 bits, the kernel's largest) and 10
/// bits of the time when it began, so that a process that has its number later is told from it.
/// Never 0. Good among processes of one pid namespace.
using ProcessToken = std::uint32_t;

/// In a forked child, which has another. Answers with it.
ProcessToken renew_own_process_token();

namespace detail {
inline std::atomic<ProcessToken> own_process_token{0};
}  // namespace detail

/// Of this process; read from /proc once.
inline ProcessToken own_process_token() {
  const ProcessToken token = detail::own_process_token.load(std::memory_order_relaxed);
  return token != 0 ? token : renew_own_process_token();
}
/// False when the process has ended, also where nobody has waited for it yet. True where /proc does
/// not tell. Some microseconds.
bool process_lives(ProcessToken token);
inline std::uint32_t process_id_of(ProcessToken token) { return token >> 10; }

}  // namespace verbatim
