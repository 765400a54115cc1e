#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>

namespace verbatim {

/// Text of at most `N` characters that lies in the object itself, so that a structure with it can
/// be sent as it is. Longer text is cut. Bytes of another process are a text, too: it ends at the
/// first zero or with the field.
template <std::size_t N>
class InplaceText {
 public:
  static constexpr std::size_t capacity() { return N; }
  constexpr InplaceText() = default;
  template <typename Text>
    requires(std::convertible_to<const Text&, std::string_view> && !std::same_as<Text, InplaceText>)
  constexpr InplaceText(const Text& text) {  // NOLINT(google-explicit-constructor)
    std::ranges::copy(std::string_view(text).substr(0, N), bytes_.begin());
  }

  constexpr std::string_view view() const {
    return {bytes_.begin(), std::ranges::find(bytes_, '\0')};
  }
  constexpr operator std::string_view() const { return view(); }  // NOLINT
  constexpr bool empty() const { return bytes_[0] == '\0'; }
  /// What is not printable ASCII becomes '?'.
  void make_printable() {
    std::ranges::replace_if(bytes_, [](char c) { return c != '\0' && (c < ' ' || c > '~'); }, '?');
  }

  template <typename Text>
    requires std::convertible_to<const Text&, std::string_view>
  friend constexpr bool operator==(const InplaceText& a, const Text& b) {
    return a.view() == std::string_view(b);
  }

 private:
  std::array<char, N + 1> bytes_{};
};

}  // namespace verbatim

template <std::size_t N>
struct fmt::formatter<verbatim::InplaceText<N>> : fmt::formatter<std::string_view> {
  auto format(const verbatim::InplaceText<N>& text, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(text.view(), context);
  }
};
