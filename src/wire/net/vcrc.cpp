#include "wire/net/vcrc.h"

#include <array>

namespace verbatim::wire {
namespace {

/// The polynomial, reflected: bit 15 stands for x^0.
constexpr std::uint16_t kPolynomial = 0xd008;

/// What a byte adds to a CRC.
constexpr auto kTable = [] {
  std::array<std::uint16_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ ((value & 1) != 0 ? kPolynomial : 0u);
    table[byte] = static_cast<std::uint16_t>(value);
  }
  return table;
}();

}  // namespace

void Vcrc::update(ByteSpan bytes) {
  for (const std::byte byte : bytes) {
    const auto index = static_cast<std::uint8_t>(state_ ^ std::to_integer<std::uint8_t>(byte));
    state_ = static_cast<std::uint16_t>(state_ >> 8 ^ kTable[index]);
  }
}

}  // namespace verbatim::wire
