#include "ulp/iscsi/md5.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ulp/engine/little_endian.h"

namespace verbatim::ulp::iscsi {
namespace {

using Words = std::array<std::uint32_t, 4>;
constexpr std::size_t kBlockBytes = 64;

void add_block(const std::byte* block, Words& state) {
  constexpr int kShifts[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
  auto [a, b, c, d] = state;
  for (std::uint32_t i = 0; i < 64; ++i) {
    const std::uint32_t round = i / 16;
    std::uint32_t mixed = 0, index = 0;
    switch (round) {
      case 0:
        mixed = (b & c) | (~b & d), index = i;
        break;
      case 1:
        mixed = (d & b) | (~d & c), index = (5 * i + 1) % 16;
        break;
      case 2:
        mixed = b ^ c ^ d, index = (3 * i + 5) % 16;
        break;
      default:
        mixed = c ^ (b | ~d), index = 7 * i % 16;
        break;
    }
    const auto sine = static_cast<std::uint32_t>(std::abs(std::sin(i + 1.0)) * 4294967296.0);
    const std::uint32_t sum = a + mixed + sine + load_le<std::uint32_t>(block + 4 * index);
    a = d, d = c, c = b;
    b += std::rotl(sum, kShifts[round][i % 4]);
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d;
}

}  // namespace

Md5 md5(ByteSpan message) {
  std::vector<std::byte> padded(message.begin(), message.end());
  padded.push_back(std::byte{0x80});
  while (padded.size() % kBlockBytes != kBlockBytes - 8) padded.push_back(std::byte{});
  padded.resize(padded.size() + 8);
  store_le(&padded[padded.size() - 8], std::uint64_t{message.size()} * 8);

  Words state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  for (std::size_t at = 0; at < padded.size(); at += kBlockBytes) add_block(&padded[at], state);
  Md5 out;
  for (std::size_t i = 0; i < state.size(); ++i) store_le(&out[4 * i], state[i]);
  return out;
}

}  // namespace verbatim::ulp::iscsi
