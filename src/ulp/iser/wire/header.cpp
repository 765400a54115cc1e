#include "ulp/iser/wire/header.h"

namespace verbatim::ulp::iser {
namespace {

constexpr std::uint8_t kHasWrite = 0x08, kHasRead = 0x04;

}  // namespace

std::optional<Header> decode(std::span<const std::byte, kHeaderBytes> bytes) {
  const auto first = std::to_integer<std::uint8_t>(bytes[0]);
  if (first >> 4 < 1 || first >> 4 > 3) return std::nullopt;
  Header out{.type = Type{static_cast<std::uint8_t>(first >> 4)}, .write = {}, .read = {}};
  if ((first & kHasWrite) != 0)
    out.write = Buffer{load_be<std::uint32_t>(&bytes[4]), load_be<std::uint64_t>(&bytes[8])};
  if ((first & kHasRead) != 0)
    out.read = Buffer{load_be<std::uint32_t>(&bytes[16]), load_be<std::uint64_t>(&bytes[20])};
  return out;
}

std::array<std::byte, kHeaderBytes> encode(const Header& header) {
  std::array<std::byte, kHeaderBytes> out{};
  out[0] = static_cast<std::byte>(static_cast<unsigned>(header.type) << 4 |
                                  (header.write ? kHasWrite : 0) | (header.read ? kHasRead : 0));
  if (header.write) {
    store_be(&out[4], header.write->stag);
    store_be(&out[8], header.write->base);
  }
  if (header.read) {
    store_be(&out[16], header.read->stag);
    store_be(&out[20], header.read->base);
  }
  return out;
}

}  // namespace verbatim::ulp::iser
