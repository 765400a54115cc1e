#pragma once

#include <cstddef>
#include <cstdint>

/// The fuzzer's bytes as numbers; zeros after the last byte.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  std::uint32_t byte() { return left_ == 0 ? 0 : (--left_, *data_++); }
  std::uint32_t two() { return byte() << 8 | byte(); }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};
