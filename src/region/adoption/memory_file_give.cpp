// Memory that is in the memory file from the start.
#include <cerrno>

#include <sys/mman.h>

#include "base/os/page.h"
#include "region/adoption/memory_file.h"

namespace verbatim::region {

Result<PageRange> MemoryFile::give(std::uint64_t bytes) {
  const std::uint64_t length = (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
  void* const place =
      mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return refuse_errno("mmap");
  const auto begin = reinterpret_cast<std::uint64_t>(place);
  const void* const mapped = mmap(place, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                                  fd(), static_cast<off_t>(begin));
  if (mapped == MAP_FAILED || madvise(place, length, MADV_DONTFORK) != 0) {
    const int error = errno;
    munmap(place, length);
    return refuse(error, "memory of the memory file cannot be mapped");
  }
  const std::lock_guard guard(lock_);
  given_[begin] = begin + length;
  return PageRange{begin, begin + length};
}

bool MemoryFile::has_given(std::uint64_t address, std::uint64_t length) {
  const std::lock_guard guard(lock_);
  const auto after = given_.upper_bound(address);
  if (after == given_.begin()) return false;
  const std::uint64_t end = std::prev(after)->second;
  return address < end && length <= end - address;
}

bool MemoryFile::take_back(std::uint64_t address) {
  const std::lock_guard guard(lock_);
  const auto found = given_.find(address);
  if (found == given_.end()) return false;
  const PageRange pages{found->first, found->second};
  given_.erase(found);
  munmap(reinterpret_cast<void*>(pages.begin),
         pages.length());  // NOLINT(performance-no-int-to-ptr)
  punch(pages);
  return true;
}

}  // namespace verbatim::region
