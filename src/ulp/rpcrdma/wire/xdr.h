#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "ulp/engine/slice.h"

namespace verbatim::ulp::rpcrdma {

constexpr std::uint32_t padded(std::uint32_t bytes) { return (bytes + 3) & ~std::uint32_t{3}; }

/// Reads XDR (RFC 4506) from a message that lies in pieces. Each piece but the last has a multiple
/// of 4 bytes. After the end it reads zeros, and `is_ok` is false.
class XdrReader {
 public:
  explicit XdrReader(std::span<const Slice> pieces)
      : pieces_(pieces), left_(static_cast<std::uint32_t>(bytes_of(pieces))) {}

  bool is_ok() const { return is_ok_; }
  std::uint32_t position() const { return position_; }
  std::uint32_t left() const { return left_; }

  std::uint32_t word() {
    const std::byte* const at = here(4);
    if (at == nullptr) return 0;
    const auto value = load_be<std::uint32_t>(at);
    skip(4);
    return value;
  }
  void skip(std::uint64_t bytes) {
    if (bytes > left_) return fail();
    auto rest = static_cast<std::uint32_t>(bytes);
    position_ += rest;
    left_ -= rest;
    while (rest > 0) {
      const std::uint32_t part = std::min(rest, pieces_[index_].bytes - offset_);
      offset_ += part;
      rest -= part;
      if (offset_ == pieces_[index_].bytes) ++index_, offset_ = 0;
    }
  }
  /// Opaque data or a string: its length, which is skipped with the data and its padding.
  std::uint32_t opaque() {
    const std::uint32_t bytes = word();
    skip((std::uint64_t{bytes} + 3) & ~std::uint64_t{3});
    return is_ok_ ? bytes : 0;
  }
  /// An array of words.
  void words() { skip(std::uint64_t{word()} * 4); }
  void fail() {
    is_ok_ = false;
    left_ = 0;
  }

 private:
  const std::byte* here(std::uint32_t bytes) {
    while (left_ >= bytes && pieces_[index_].bytes == 0) ++index_;
    if (left_ >= bytes && pieces_[index_].bytes - offset_ >= bytes)
      return pieces_[index_].data + offset_;
    fail();
    return nullptr;
  }

  std::span<const Slice> pieces_;
  std::size_t index_ = 0;
  std::uint32_t offset_ = 0;  // In the piece.
  std::uint32_t position_ = 0;
  std::uint32_t left_ = 0;
  bool is_ok_ = true;
};

}  // namespace verbatim::ulp::rpcrdma
