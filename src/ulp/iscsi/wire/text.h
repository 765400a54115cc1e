#pragma once

#include <algorithm>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

/// Keys of logins and of text requests: "key=value" and a zero byte, as often as needed
/// (RFC 7143, section 6.1).
namespace verbatim::ulp::iscsi {

/// A request's keys, all PDUs together; ours are shorter.
inline constexpr std::size_t kTextBytesMax = 16384;
inline constexpr std::size_t kKeysMax = 128;
inline constexpr std::size_t kKeyBytesMax = 63;
inline constexpr std::size_t kNameBytesMax = 223;
inline constexpr std::size_t kValueBytesMax = 8192;

struct Key {
  std::string_view name;
  std::string_view value;
  friend bool operator==(const Key&, const Key&) = default;
};

/// Borrows from `text`. The error says what is wrong with it.
std::expected<std::vector<Key>, const char*> parse_keys(std::string_view text);
void add_key(std::string& text, std::string_view name, std::string_view value);

/// "a,b,c": calls `visit(item)` until it returns true. Returns whether it has.
template <typename Visit>
bool any_of_list(std::string_view list, Visit visit) {
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    if (visit(list.substr(at, end - at))) return true;
    at = end + 1;
  }
  return false;
}
/// "123" or "0x7b".
std::optional<std::uint32_t> parse_number(std::string_view text);
/// A large binary value: "0x6162" or "0bYWI=" (section 6.1). At most 1,024 bytes.
std::optional<std::vector<std::byte>> parse_binary(std::string_view text);
std::string hex_text(ByteSpan bytes);
/// iqn., eui. or naa. with the rest's form (section 4.2.7).
bool is_iscsi_name(std::string_view name);

}  // namespace verbatim::ulp::iscsi
