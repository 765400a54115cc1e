#include "ulp/iscsi/wire/text.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace verbatim::ulp::iscsi {
namespace {

constexpr std::size_t kBinaryBytesMax = 1024;

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const int lower = std::tolower(static_cast<unsigned char>(c));
  if (lower >= 'a' && lower <= 'f') return lower - 'a' + 10;
  return std::nullopt;
}

std::optional<std::vector<std::byte>> parse_hex(std::string_view digits) {
  std::vector<std::byte> out;
  // An odd number of digits has a zero in front.
  unsigned half = 0;
  bool has_half = digits.size() % 2 != 0;
  for (const char c : digits) {
    const auto digit = hex_digit(c);
    if (!digit) return std::nullopt;
    if (has_half) out.push_back(static_cast<std::byte>(half << 4 | *digit));
    half = *digit;
    has_half = !has_half;
  }
  return out;
}

std::optional<std::vector<std::byte>> parse_base64(std::string_view digits) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<std::byte> out;
  std::uint32_t bits = 0, count = 0;
  while (digits.ends_with('=')) digits.remove_suffix(1);
  for (const char c : digits) {
    const std::size_t value = kDigits.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out.push_back(static_cast<std::byte>(bits >> count));
  }
  return out;
}

}  // namespace

std::expected<std::vector<Key>, const char*> parse_keys(std::string_view text) {
  if (text.size() > kTextBytesMax) return std::unexpected("more than 16384 bytes of keys");
  std::vector<Key> keys;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\0'), text.size());
    const std::string_view pair = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (pair.empty()) continue;  // Padding.
    const std::size_t sign = pair.find('=');
    if (sign == std::string_view::npos || sign == 0) return std::unexpected("a key without '='");
    if (sign > kKeyBytesMax) return std::unexpected("a key's name is longer than 63 bytes");
    if (pair.size() - sign - 1 > kValueBytesMax)
      return std::unexpected("a key's value is longer than 8192 bytes");
    if (keys.size() == kKeysMax) return std::unexpected("more than 128 keys");
    keys.push_back({pair.substr(0, sign), pair.substr(sign + 1)});
  }
  return keys;
}

void add_key(std::string& text, std::string_view name, std::string_view value) {
  text.append(name).append("=").append(value).push_back('\0');
}

std::optional<std::uint32_t> parse_number(std::string_view text) {
  const bool is_hex = text.starts_with("0x") || text.starts_with("0X");
  if (is_hex) text.remove_prefix(2);
  std::uint32_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value, is_hex ? 16 : 10);
  if (error != std::errc{} || at != end) return std::nullopt;
  return value;
}

std::optional<std::vector<std::byte>> parse_binary(std::string_view text) {
  if (text.size() < 3 || text.size() > 2 + 2 * kBinaryBytesMax) return std::nullopt;
  const std::string_view digits = text.substr(2);
  if (text.starts_with("0x") || text.starts_with("0X")) return parse_hex(digits);
  if (text.starts_with("0b") || text.starts_with("0B")) return parse_base64(digits);
  return std::nullopt;
}

std::string hex_text(ByteSpan bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out = "0x";
  for (const std::byte byte : bytes) {
    out.push_back(kDigits[std::to_integer<unsigned>(byte) >> 4]);
    out.push_back(kDigits[std::to_integer<unsigned>(byte) & 0xf]);
  }
  return out;
}

bool is_iscsi_name(std::string_view name) {
  if (name.size() > kNameBytesMax) return false;
  const auto is_plain = [](unsigned char c) {
    return c >= 0x80 || std::isalnum(c) || c == '-' || c == '.' || c == ':';
  };
  const auto is_hex = [](char c) { return hex_digit(c).has_value(); };
  if (name.starts_with("iqn.")) return name.size() > 4 && std::ranges::all_of(name, is_plain);
  if (name.starts_with("eui."))
    return name.size() == 20 && std::ranges::all_of(name.substr(4), is_hex);
  if (!name.starts_with("naa.")) return false;
  return (name.size() == 20 || name.size() == 36) && std::ranges::all_of(name.substr(4), is_hex);
}

}  // namespace verbatim::ulp::iscsi
