#include "ulp/rpcrdma/wire/private_data.h"

namespace verbatim::ulp::rpcrdma {
namespace {

constexpr std::uint32_t kMagic = 0xf6ab0e18;
constexpr std::uint8_t kVersion = 1;
constexpr std::uint8_t kTakesInvalidation = 1;

std::uint32_t bytes_of(std::byte size) { return (std::to_integer<std::uint32_t>(size) + 1) << 10; }
std::byte size_of(std::uint32_t bytes) { return static_cast<std::byte>((bytes >> 10) - 1); }

}  // namespace

std::optional<ConnectionFacts> decode_facts(ByteSpan private_data) {
  if (private_data.size() < ConnectionFacts::kSize) return std::nullopt;
  const std::byte* const at = private_data.data();
  if (load_be<std::uint32_t>(at) != kMagic || std::to_integer<std::uint8_t>(at[4]) != kVersion)
    return std::nullopt;
  return ConnectionFacts{
      .takes_invalidation = (std::to_integer<std::uint8_t>(at[5]) & kTakesInvalidation) != 0,
      .send_bytes = bytes_of(at[6]),
      .receive_bytes = bytes_of(at[7])};
}

std::array<std::byte, ConnectionFacts::kSize> encode(const ConnectionFacts& facts) {
  std::array<std::byte, ConnectionFacts::kSize> out{};
  store_be(out.data(), kMagic);
  out[4] = std::byte{kVersion};
  out[5] = std::byte{facts.takes_invalidation ? kTakesInvalidation : std::uint8_t{0}};
  out[6] = size_of(facts.send_bytes);
  out[7] = size_of(facts.receive_bytes);
  return out;
}

}  // namespace verbatim::ulp::rpcrdma
