#include "region/memory.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/os/page.h"

namespace verbatim::region {
namespace {

// Numbers, because the C library of older distributions lacks the names.
constexpr int kPopulateRead = 22;
constexpr int kPopulateWrite = 23;

struct Pages {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  // Exclusive.
};

/// Returns the pages that the range overlaps; nothing if the range or its last page wraps around.
std::optional<Pages> pages_of(std::uint64_t address, std::uint64_t length) {
  const std::uint64_t page = page_bytes();
  constexpr std::uint64_t kLast = std::numeric_limits<std::uint64_t>::max();
  if (length > kLast - address || address + length > kLast - (page - 1)) return std::nullopt;
  return Pages{address & ~(page - 1), (address + length + page - 1) & ~(page - 1)};
}

std::unexpected<Error> refuse_wrap(std::uint64_t address, std::uint64_t length) {
  return refuse(EINVAL, fmt::format("{:#x}+{} wraps around the address space", address, length));
}

/// Converts an address of the program's memory that may not be mapped.
void* pointer_to(std::uint64_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

/// Makes the kernel read 8 bytes there: as the mask of a signal mask change of an invalid kind,
/// which it then refuses. EFAULT comes first if it cannot read.
bool can_read(std::uint64_t page) {
  constexpr int kNoSuchChange = -1;
  // Not the page's first byte, because address 0 would be a null pointer, which means no mask.
  syscall(SYS_rt_sigprocmask, kNoSuchChange, page + 8, nullptr, std::size_t{8});
  return errno != EFAULT;
}

/// Makes the kernel OR zero to the page's first word atomically: FUTEX_WAKE_OP does so before it
/// wakes at most one waiter of each word. A thread that is woken for nothing checks its word and
/// sleeps again, as users of futexes must.
bool can_write(std::uint64_t page) {
  std::uint32_t nobody_waits_here = 0;
  constexpr std::uint32_t kOrZero = FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_LT, 0);
  const long woken = syscall(SYS_futex, &nobody_waits_here, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0,
                             0UL, page, kOrZero);
  return woken >= 0;
}

bool is_mapped(std::uint64_t page) {
  unsigned char resident = 0;
  return mincore(pointer_to(page), page_bytes(), &resident) == 0;
}

}  // namespace

Result<void> probe_memory(std::uint64_t address, std::uint64_t length, bool writable) {
  if (length == 0) return {};
  const auto pages = pages_of(address, length);
  if (!pages) return refuse_wrap(address, length);
  for (std::uint64_t page = pages->begin; page != pages->end; page += page_bytes()) {
    const char* wrong = nullptr;
    if (!can_read(page)) {
      wrong = is_mapped(page) ? "cannot be read" : "is not mapped";
    } else if (writable && !can_write(page)) {
      wrong = "cannot be written";
    }
    if (wrong != nullptr) {
      return refuse(EFAULT,
                    fmt::format("{:#x}+{}: the page at {:#x} {}", address, length, page, wrong));
    }
  }
  return {};
}

Result<void> populate_memory(std::uint64_t address, std::uint64_t length, bool writable) {
  if (length == 0) return {};
  const auto pages = pages_of(address, length);
  if (!pages) return refuse_wrap(address, length);
  const int advice = writable ? kPopulateWrite : kPopulateRead;
  if (madvise(pointer_to(pages->begin), pages->end - pages->begin, advice) == 0) {
    return {};
  }
  // EINVAL can mean an old kernel, missing rights or a device's memory, and no error names the
  // page.
  return probe_memory(address, length, writable);
}

bool copy_by_kernel(pid_t process, std::byte* here, std::uint64_t there, std::uint64_t length,
                    bool to_there) {
  const auto copy = to_there ? process_vm_writev : process_vm_readv;
  while (length > 0) {
    // The kernel copies one range after the other, but in any order within one.
    const std::uint64_t last = std::min<std::uint64_t>(length, sizeof(std::uint64_t));
    const std::uint64_t before = length - last;
    const iovec local{here, length};
    const std::array remote{iovec{pointer_to(there), before},
                            iovec{pointer_to(there + before), last}};
    errno = 0;
    const ssize_t copied = copy(process, &local, 1, remote.data(), remote.size(), 0);
    if (copied <= 0) return false;
    here += copied;
    there += static_cast<std::uint64_t>(copied);
    length -= static_cast<std::uint64_t>(copied);
  }
  return true;
}

}  // namespace verbatim::region
