#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <utility>

#include "base/assert.h"

namespace verbatim {

/// A vector of at most `N` elements, stored in the object itself: it never allocates. `T` is
/// default-constructible.
template <typename T, std::size_t N>
class InplaceVector {
 public:
  InplaceVector() = default;
  InplaceVector(std::initializer_list<T> elements) {
    for (const T& element : elements) push(element);
  }
  static constexpr std::size_t capacity() { return N; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == N; }
  void clear() { size_ = 0; }
  /// Leaves the first ones.
  void truncate(std::size_t size) { size_ = std::min(size_, size); }

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
  const T& front() const { return elements_.front(); }
  const T& back() const { return elements_[size_ - 1]; }
  T& operator[](std::size_t i) { return elements_[i]; }
  const T& operator[](std::size_t i) const { return elements_[i]; }
  T* begin() { return elements_.data(); }
  T* end() { return elements_.data() + size_; }
  const T* begin() const { return elements_.data(); }
  const T* end() const { return elements_.data() + size_; }
  friend bool operator==(const InplaceVector& a, const InplaceVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<T, N> elements_{};
  std::size_t size_ = 0;
};

}  // namespace verbatim
