#include "ulp/target_tree/parsers.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <ranges>

#include "ulp/target_tree/node.h"

namespace verbatim::ulp::target_tree {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

bool has_word(std::string_view words, std::string_view word) {
  return std::ranges::any_of(words | std::views::split('|'), [&](const auto& one) {
    return std::string_view(one.begin(), one.end()) == word;
  });
}

template <typename T>
Answer<T> with_error(Answer<T> answer, int code) {
  if (!answer) return std::unexpected(code);
  return answer;
}

Answer<std::string> in_range(const Written& written, std::uint32_t number) {
  if (number < written.attribute.low || number > written.attribute.high)
    return std::unexpected(EINVAL);
  return std::to_string(number);
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks(" \n\0", 3);
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

Answer<std::uint32_t> number_of(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.starts_with('+')) text.remove_prefix(1);
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text[0] == '0') {
    base = 8;
  }
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, base);
  if (text.empty() || text[0] == '-' || stop != end) return std::unexpected(EINVAL);
  if (error != std::errc{} || number > UINT32_MAX) return std::unexpected(ERANGE);
  return static_cast<std::uint32_t>(number);
}

Answer<bool> truth_of(std::string_view text) {
  const auto letter = [&](std::size_t i) {
    return i < text.size() ? std::tolower(static_cast<unsigned char>(text[i])) : 0;
  };
  if (letter(0) == 'y' || letter(0) == '1') return true;
  if (letter(0) == 'n' || letter(0) == '0') return false;
  if (letter(0) == 'o' && letter(1) == 'n') return true;
  if (letter(0) == 'o' && letter(1) == 'f') return false;
  return std::unexpected(EINVAL);
}

Answer<std::string> refuse_all(const Written& /*written*/) { return std::unexpected(EINVAL); }

Answer<std::string> parse_flag(const Written& written) {
  const auto truth = truth_of(written.text);
  if (!truth) return std::unexpected(truth.error());
  return *truth ? "1" : "0";
}

Answer<std::string> parse_number(const Written& written) {
  const auto number = number_of(written.text);
  if (!number) return std::unexpected(number.error());
  return in_range(written, *number);
}

Answer<std::string> parse_number_or_zero(const Written& written) {
  const auto number = number_of(written.text);
  if (number && *number == 0) return "0";
  return parse_number(written);
}

Answer<std::string> parse_strict(const Written& written) {
  return with_error(parse_number(written), EINVAL);
}

Answer<std::string> parse_word(const Written& written) {
  const std::string_view word = trimmed(written.text);
  if (!has_word(written.attribute.words, word)) return std::unexpected(EINVAL);
  return std::string(word);
}

Answer<std::string> parse_word_list(const Written& written) {
  const std::string_view list = trimmed(written.text);
  for (const auto& word : list | std::views::split(','))
    if (!has_word(written.attribute.words, std::string_view(word.begin(), word.end())))
      return std::unexpected(EINVAL);
  if (list.empty()) return std::unexpected(EINVAL);
  return std::string(list);
}

Answer<std::string> parse_word_number(const Written& written) {
  auto place = number_of(written.text);
  if (!place) return std::unexpected(EINVAL);
  for (const auto& word : written.attribute.words | std::views::split('|')) {
    if (*place == 0) return std::string(word.begin(), word.end());
    --*place;
  }
  return std::unexpected(EINVAL);
}

Answer<std::string> parse_text(const Written& written) {
  const std::string_view text = trimmed(written.text);
  if (text.size() > written.attribute.high) return std::unexpected(EINVAL);
  return std::string(text);
}

Answer<std::string> parse_short_text(const Written& written) {
  return with_error(parse_text(written), EOVERFLOW);
}

Answer<std::string> parse_raw(const Written& written) {
  return std::string(written.text.substr(0, written.attribute.high));
}

Answer<std::string> parse_uuid(const Written& written) {
  std::string digits;
  for (const char c : trimmed(written.text)) {
    if (c == '-') continue;
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) return std::unexpected(EINVAL);
    digits += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  if (digits.size() != 32) return std::unexpected(EINVAL);
  for (const std::size_t at : {20, 16, 12, 8}) digits.insert(at, 1, '-');
  return digits;
}

Answer<std::string> show_exactly(const Attribute& attribute, const Node& directory) {
  return directory.value(attribute.name);
}

Answer<std::string> show_line(const Attribute& attribute, const Node& directory) {
  return directory.value(attribute.name) + "\n";
}

Answer<std::string> show_or_nothing(const Attribute& attribute, const Node& directory) {
  const std::string& value = directory.value(attribute.name);
  return value.empty() ? value : value + "\n";
}

Answer<std::uint32_t> number_after(std::string_view prefix, std::string_view name) {
  if (!name.starts_with(prefix)) return std::unexpected(EINVAL);
  name.remove_prefix(prefix.size());
  if (name.empty() || !is_digit(name[0])) return std::unexpected(EINVAL);
  return with_error(number_of(name), EINVAL);
}

}  // namespace verbatim::ulp::target_tree
