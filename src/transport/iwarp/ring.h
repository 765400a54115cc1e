#pragma once

#include <array>
#include <cstdint>

#include "base/assert.h"

namespace verbatim::transport::iwarp {

/// A bounded queue of at most `N` elements, stored in the object itself: it never allocates.
template <typename T, std::uint32_t N>
class Ring {
 public:
  bool empty() const { return count_ == 0; }
  std::uint32_t size() const { return count_; }
  void clear() { first_ = count_ = 0; }
  T& front() { return elements_[first_]; }
  const T& front() const { return elements_[first_]; }
  T& back() { return (*this)[count_ - 1]; }
  T& operator[](std::uint32_t i) { return elements_[(first_ + i) % N]; }
  const T& operator[](std::uint32_t i) const { return elements_[(first_ + i) % N]; }
  void push(const T& value) {
    VERBATIM_ASSERT(count_ < N);
    ++count_;
    back() = value;
  }
  void pop() {
    VERBATIM_ASSERT(count_ > 0);
    first_ = (first_ + 1) % N;
    --count_;
  }

 private:
  std::array<T, N> elements_{};
  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;
};

}  // namespace verbatim::transport::iwarp
