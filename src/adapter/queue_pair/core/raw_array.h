#pragma once

#include <cstddef>
#include <memory_resource>
#include <type_traits>
#include <utility>

namespace verbatim::adapter {

/// Places for values, each of which is written before it is read. Nothing is written when they are
/// made: most queues end before they have used a tenth of their places.
template <typename T>
class RawArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  RawArray(std::size_t count, std::pmr::memory_resource* memory)
      : memory_(memory), count_(count), places_(count == 0 ? nullptr : allocate()) {}
  RawArray(RawArray&& other) noexcept
      : memory_(other.memory_),
        count_(std::exchange(other.count_, 0)),
        places_(std::exchange(other.places_, nullptr)) {}
  RawArray& operator=(RawArray&&) = delete;
  ~RawArray() {
    if (places_ != nullptr) memory_->deallocate(places_, count_ * sizeof(T), alignof(T));
  }

  T* data() { return places_; }
  const T* data() const { return places_; }
  T& operator[](std::size_t place) { return places_[place]; }
  const T& operator[](std::size_t place) const { return places_[place]; }

 private:
  T* allocate() { return static_cast<T*>(memory_->allocate(count_ * sizeof(T), alignof(T))); }

  std::pmr::memory_resource* memory_;
  std::size_t count_;
  T* places_;
};

}  // namespace verbatim::adapter
