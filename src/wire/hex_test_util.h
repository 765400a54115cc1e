#pragma once

#include <array>
#include <cctype>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Golden bytes in tests: written and compared as hexadecimal digits.
namespace verbatim::wire {

/// Converts "04 70 ffff" to bytes; characters that are no digits are ignored.
inline std::vector<std::byte> from_hex(std::string_view text) {
  std::vector<std::byte> bytes;
  std::string digits;
  for (const char c : text) {
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) continue;
    digits += c;
    if (digits.size() == 2) {
      bytes.push_back(static_cast<std::byte>(std::stoul(digits, nullptr, 16)));
      digits.clear();
    }
  }
  return bytes;
}

inline std::string to_hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte b : bytes) {
    text += kDigits[std::to_integer<unsigned>(b) >> 4];
    text += kDigits[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

/// Returns the encoded header as hexadecimal digits.
template <typename Header>
std::string encoded_hex(const Header& header) {
  std::array<std::byte, Header::kSize> out;
  out.fill(std::byte{0xa5});  // A byte that `encode` does not write shows up.
  encode(header, out);
  return to_hex(out);
}

}  // namespace verbatim::wire
