#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "base/assert.h"

namespace verbatim {

/// A vector of at most `N` elements, stored in the object itself: it never allocates. `T` is
/// default-constructible.
template <typename T, std::size_t N>
class InplaceVector {
 public:
  static constexpr std::size_t capacity() { return N; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == N; }
  void clear() { size_ = 0; }

  /// Requires that the vector is not full.
  T& push(T value) {
    VERBATIM_ASSERT(size_ < N);
    return elements_[size_++] = std::move(value);
  }

  /// Takes the last one out. The caller knows that there is one.
  T pop() {
    VERBATIM_ASSERT(size_ > 0);
    return std::move(elements_[--size_]);
  }

  T& operator[](std::size_t i) { return elements_[i]; }
  const T& operator[](std::size_t i) const { return elements_[i]; }
  T* begin() { return elements_.data(); }
  T* end() { return elements_.data() + size_; }
  const T* begin() const { return elements_.data(); }
  const T* end() const { return elements_.data() + size_; }

 private:
  std::array<T, N> elements_{};
  std::size_t size_ = 0;
};

}  // namespace verbatim
