#include "fabric/protocol/manager_command.h"

#include <array>
#include <cerrno>
#include <string_view>

#include <fmt/format.h>

namespace verbatim::fabric::protocol {
namespace {

/// Options of opensm that would take it away from its host, its log or its daemon.
struct OwnOption {
  std::string_view brief;
  std::string_view name;
  const char* why;
};
constexpr std::array kOwnOptions{
    OwnOption{"-g", "--guid", "it manages the subnet from its first host"},
    OwnOption{"-f", "--log_file", "its log is 'log' in the fabric's folder"},
    OwnOption{"-B", "--daemon", "it ends with the fabric"},
    OwnOption{"-o", "--once", "it runs as long as the fabric"},
};

Result<std::vector<std::string>> words_of(const std::string& text) {
  std::vector<std::string> words;
  bool is_in_word = false;
  char quote = 0;
  for (const char c : text) {
    if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
      is_in_word = false;
      continue;
    }
    if (!is_in_word) words.emplace_back();
    is_in_word = true;
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else {
      words.back() += c;
    }
  }
  if (quote != 0) return refuse(EINVAL, fmt::format("{} is not closed", quote));
  return words;
}

Result<void> check_option(std::string_view word) {
  for (const OwnOption& own : kOwnOptions) {
    const bool is_long = word.starts_with("--");
    const bool is_own =
        is_long ? word.substr(0, word.find('=')) == own.name : word.starts_with(own.brief);
    if (is_own) {
      return refuse(EINVAL, fmt::format("not with {} ({}): {}", own.brief, own.name, own.why));
    }
  }
  return {};
}

}  // namespace

Result<ManagerCommand> parse_manager_command(const std::string& text) {
  auto words = words_of(text);
  if (!words) return std::unexpected(words.error());
  if (words->empty()) return refuse(EINVAL, "none or opensm?");
  const std::string name = words->front();
  words->erase(words->begin());
  if (name == "none" && words->empty()) return ManagerCommand{};
  if (name != "opensm") {
    return refuse(EINVAL, fmt::format("'{}' is neither none nor opensm and its options", text));
  }
  for (const std::string& word : *words) {
    if (auto fitting = check_option(word); !fitting) return std::unexpected(fitting.error());
  }
  return ManagerCommand{.runs = true, .options = std::move(*words)};
}

}  // namespace verbatim::fabric::protocol
