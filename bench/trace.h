#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include <dlfcn.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/// Counts instructions: a child process runs the work between breakpoints and is single-stepped.
namespace trace {

/// Addresses of the instructions between two breakpoints.
using Places = std::vector<unsigned long>;

/// Ends a part and begins the next one. Only for x86-64.
inline void breakpoint() {
#ifdef __x86_64__
  asm volatile("int3");
#endif
}

inline void require(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::exit(1);
}

/// Runs `work` in a child process. Returns a part for each breakpoint but the last, which ends the
/// count.
inline std::vector<Places> parts_of(const std::function<void()>& work) {
  const pid_t subject = fork();
  require(subject >= 0, "fork");
  if (subject == 0) {
    require(ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0, "ptrace");
    work();
    _exit(0);
  }
  std::vector<Places> parts;
  int status = 0;
  while (waitpid(subject, &status, 0) == subject && WIFSTOPPED(status)) {
    siginfo_t why{};
    user_regs_struct registers{};
    ptrace(PTRACE_GETSIGINFO, subject, nullptr, &why);
    ptrace(PTRACE_GETREGS, subject, nullptr, &registers);
    const bool is_own = WSTOPSIG(status) == SIGTRAP;
    if (is_own && why.si_code == SI_KERNEL) {  // A breakpoint.
      parts.emplace_back();
    } else if (is_own && !parts.empty()) {
      parts.back().push_back(registers.rip);
    }
    const int signal = is_own ? 0 : WSTOPSIG(status);
    ptrace(parts.empty() ? PTRACE_CONT : PTRACE_SINGLESTEP, subject, nullptr, signal);
  }
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the subject");
  require(parts.size() > 1, "breakpoints");
  parts.pop_back();
  return parts;
}

/// Prints a title with the count, and `file offset` for each instruction, which steps.py converts
/// to names. The child is a fork, so its libraries have the same addresses here.
inline void print(const char* name, const Places& places) {
  std::printf("## %zu %s\n", places.size(), name);
  for (const unsigned long place : places) {
    Dl_info found{};
    if (dladdr(reinterpret_cast<const void*>(place), &found) == 0) continue;  // NOLINT
    const auto base = reinterpret_cast<unsigned long>(found.dli_fbase);
    std::printf("%s %lx\n", found.dli_fname, place - base);
  }
}

}  // namespace trace
