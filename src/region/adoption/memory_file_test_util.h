#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "base/os/page.h"
#include "region/adoption/memory_file.h"

namespace verbatim::region {

inline const std::size_t kPage = page_bytes();

inline std::uint64_t address_of(const void* place) {
  return reinterpret_cast<std::uint64_t>(place);
}

/// Anonymous memory filled with different bytes.
class Pages {
 public:
  explicit Pages(std::size_t pages, int flags = MAP_PRIVATE | MAP_ANONYMOUS)
      : length_(pages * kPage),
        place_(
            static_cast<std::byte*>(mmap(nullptr, length_, PROT_READ | PROT_WRITE, flags, -1, 0))) {
    fill(1);
  }
  ~Pages() { munmap(place_, length_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  void fill(std::uint32_t seed) {
    std::minstd_rand random(seed);
    for (std::size_t i = 0; i < length_; i += 4) {
      const auto word = static_cast<std::uint32_t>(random());
      std::memcpy(place_ + i, &word, sizeof word);
    }
  }
  std::vector<std::byte> copy() const { return {place_, place_ + length_}; }
  std::byte* data() const { return place_; }
  std::uint64_t address() const { return address_of(place_); }
  PageRange range() const { return {address(), address() + length_}; }
  std::size_t length() const { return length_; }

 private:
  std::size_t length_;
  std::byte* place_;
};

inline std::unique_ptr<MemoryFile> make_file() {
  auto made = MemoryFile::create();
  EXPECT_TRUE(made) << made.error().text;
  return std::move(*made);
}

inline bool is_anonymous(std::uint64_t address) {
  const auto mappings = mappings_of(PageRange{address, address + kPage});
  return mappings && mappings->size() == 1 && !mappings->front().shared &&
         mappings->front().file.inode == 0;
}

}  // namespace verbatim::region
