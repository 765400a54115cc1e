#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "wire/ib/reth.h"

namespace verbatim::wire {

/// Tag matching header (<infiniband/tm_types.h>): the first bytes of a SEND to a tag matching
/// queue.
///
///     byte   0           1-3    4-7       8-15
///          +-----------+------+---------+-----+
///          | operation | rsvd | context | tag |
///          +-----------+------+---------+-----+
///
/// In a rendezvous request and its end, a rendezvous header follows: the address, key and length of
/// the data, in the layout of a RETH.
struct TagHeader {
  static constexpr std::size_t kSize = 16;
  static constexpr std::size_t kRendezvousSize = kSize + Reth::kSize;
  enum class Operation : std::uint8_t { no_tag = 0, rendezvous = 1, finished = 2, eager = 3 };

  Operation operation{};
  std::uint32_t context = 0;  // Chosen by the program.
  std::uint64_t tag = 0;
  friend bool operator==(const TagHeader&, const TagHeader&) = default;
};

inline TagHeader decode_tag_header(std::span<const std::byte, TagHeader::kSize> bytes) {
  return {.operation = static_cast<TagHeader::Operation>(bytes[0]),
          .context = load_be<std::uint32_t>(&bytes[4]),
          .tag = load_be<std::uint64_t>(&bytes[8])};
}

inline void encode(const TagHeader& header, std::span<std::byte, TagHeader::kSize> out) {
  store_be(&out[0], std::uint32_t{0});
  out[0] = static_cast<std::byte>(header.operation);
  store_be(&out[4], header.context);
  store_be(&out[8], header.tag);
}

}  // namespace verbatim::wire
