#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include <sys/wait.h>

/// Waiting for killed children, for programs that kill many.
namespace endpoint {

/// The longest time so far that Linux took to remove a child.
inline std::atomic<long long> longest_reap_us{0};

/// Waits until a child has ended, and leaves its removal to a thread. Linux may take seconds to
/// remove a process whose /proc entries others have read (6.18 spins in shrink_dcache_parent, in
/// the thread that waits for it). Returns true if a signal has killed it.
inline bool await_death(pid_t child) {
  siginfo_t told{};
  waitid(P_PID, static_cast<id_t>(child), &told, WEXITED | WNOWAIT);
  std::thread([child] {
    const auto began = std::chrono::steady_clock::now();
    waitpid(child, nullptr, 0);
    const long long took = std::chrono::duration_cast<std::chrono::microseconds>(
                               std::chrono::steady_clock::now() - began)
                               .count();
    long long longest = longest_reap_us;
    while (took > longest && !longest_reap_us.compare_exchange_weak(longest, took)) {
    }
  }).detach();
  return told.si_code == CLD_KILLED;
}

}  // namespace endpoint
