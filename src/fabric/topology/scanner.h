#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace verbatim::fabric {

/// Takes a line apart from its beginning. What does not match is left where it is.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::string_view rest() const { return text_; }

  void skip_blanks() {
    const std::size_t at = text_.find_first_not_of(" \t");
    text_.remove_prefix(at == std::string_view::npos ? text_.size() : at);
  }
  bool take(std::string_view word) {
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  /// A decimal number, or another base without a prefix.
  std::optional<std::uint64_t> number(int base = 10) {
    std::uint64_t value = 0;
    const auto [end, error] =
        std::from_chars(text_.data(), text_.data() + text_.size(), value, base);
    if (error != std::errc{}) return std::nullopt;
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return value;
  }
  /// A decimal number, or a hexadecimal one after "0x".
  std::optional<std::uint64_t> any_number() {
    const std::string_view before = text_;
    const auto value = number(take("0x") ? 16 : 10);
    if (!value) text_ = before;
    return value;
  }
  /// What stands between the next two quotes, which must come at once.
  std::optional<std::string_view> quoted() {
    if (!text_.starts_with('"')) return std::nullopt;
    const std::size_t end = text_.find('"', 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view value = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return value;
  }
  /// All up to the next blank.
  std::string_view word() {
    const std::string_view value = text_.substr(0, text_.find_first_of(" \t"));
    text_.remove_prefix(value.size());
    return value;
  }

 private:
  std::string_view text_;
};

}  // namespace verbatim::fabric
