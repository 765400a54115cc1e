#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <utility>

#include "base/assert.h"

namespace verbatim {

/// A list of at most `N` elements. One thread at a time adds; others read meanwhile without a lock,
/// because an element never changes or moves once it is added.
template <typename T, std::size_t N>
class AppendOnlyList {
 public:
  AppendOnlyList() = default;
  AppendOnlyList(std::initializer_list<T> elements) { assign(elements); }
  // Requires that no thread adds to either list.
  AppendOnlyList(const AppendOnlyList& other) { assign(other.elements()); }
  AppendOnlyList& operator=(const AppendOnlyList& other) {
    if (this != &other) assign(other.elements());
    return *this;
  }

  /// Requires that the list is not full.
  void push_back(T value) {
    const std::size_t at = size();
    VERBATIM_ASSERT(at < N);
    elements_[at] = std::move(value);
    size_.store(at + 1, std::memory_order_release);  // Release; pairs with size(): a reader that
                                                     // sees the size sees the element.
  }

  std::size_t size() const { return size_.load(std::memory_order_acquire); }
  /// Returns the elements that have been added so far.
  std::span<const T> elements() const { return std::span(elements_).first(size()); }
  const T& operator[](std::size_t i) const { return elements_[i]; }

 private:
  void assign(std::span<const T> elements) {
    size_.store(0, std::memory_order_relaxed);
    for (const T& element : elements) push_back(element);
  }

  std::array<T, N> elements_{};
  std::atomic<std::size_t> size_{0};
};

}  // namespace verbatim
