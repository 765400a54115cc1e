#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if !defined __x86_64__ && !defined __aarch64__
#include <cerrno>

#include <unistd.h>
#endif

/// Code that depends on the CPU architecture; memory barriers are in `fence.h`. Others than those
/// named here get portable code.
namespace verbatim {

/// Pauses in a loop that waits for another CPU's write.
inline void relax_processor() {
#if defined __x86_64__
  __builtin_ia32_pause();
#elif defined __aarch64__
  // Most cores execute `yield` as a no-op; `isb` takes about as long as the pause of x86.
  asm volatile("isb" : : : "memory");
#else
  asm volatile("" : : : "memory");
#endif
}

/// Asks for a cache line that this thread is about to write, and that another CPU has.
inline void prefetch_to_write(const void* at) {
#if defined __x86_64__
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(at)));
#else
  __builtin_prefetch(at, 1);
#endif
}

/// True if glibc's control block of a thread begins at the thread pointer; else it ends there.
#if defined __x86_64__
inline constexpr bool kControlBlockIsAboveThreadPointer = true;
#else
inline constexpr bool kControlBlockIsAboveThreadPointer = false;
#endif

/// Where a thread that ptrace(2) has stopped keeps the number and the result of its system call, as
/// PTRACE_PEEKUSER counts; not known on other processors.
#if defined __x86_64__
inline constexpr bool kKnowsStoppedCall = true;
inline constexpr long kStoppedCallNumberAt = 15 * sizeof(long);  // ORIG_RAX of sys/reg.h
inline constexpr long kStoppedCallResultAt = 10 * sizeof(long);  // RAX
#else
inline constexpr bool kKnowsStoppedCall = false;
inline constexpr long kStoppedCallNumberAt = 0;
inline constexpr long kStoppedCallResultAt = 0;
#endif

/// Makes a system call without writing to the C library's memory; errno keeps its value. Returns
/// the result, or a negative errno.
inline long bare_system_call(long number, long a, long b, long c, long d = 0, long e = 0) {
#if defined __x86_64__
  long result = number;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  asm volatile("syscall"
               : "+a"(result)
               : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
               : "rcx", "r11", "memory");
  return result;
#elif defined __aarch64__
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  register long x4 asm("x4") = e;
  asm volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
  return x0;
#else
  const int before = errno;
  const long result = syscall(number, a, b, c, d, e);
  const int failure = errno;
  errno = before;
  return result == -1 ? -failure : result;
#endif
}

/// Copies whole pages. Unlike memcpy, it is not checked by AddressSanitizer.
inline void copy_pages(std::byte* to, const std::byte* from, std::uint64_t length) {
#if defined __x86_64__
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(length) : : "memory");
#elif defined __aarch64__
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  asm volatile(
      "1: cbz %[length], 2f\n"
      "ldp %[low], %[high], [%[from]], #16\n"
      "stp %[low], %[high], [%[to]], #16\n"
      "sub %[length], %[length], #16\n"
      "b 1b\n"
      "2:"
      :
      [to] "+r"(to), [from] "+r"(from), [length] "+r"(length), [low] "=&r"(low), [high] "=&r"(high)
      :
      : "memory");
#else
  auto* volatile_to = reinterpret_cast<volatile std::uint64_t*>(to);
  const auto* volatile_from = reinterpret_cast<const volatile std::uint64_t*>(from);
  for (std::uint64_t i = 0; i < length / sizeof *volatile_to; ++i)
    volatile_to[i] = volatile_from[i];
#endif
}

}  // namespace verbatim
