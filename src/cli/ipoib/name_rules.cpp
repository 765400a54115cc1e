#include "cli/ipoib/name_rules.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fnmatch.h>

namespace verbatim::cli {
namespace {

/// KEY, operator and value of `KEY=="value"`.
struct Part {
  std::string key, op, value;
};

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == ',' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

/// Nothing for a line that is none of parts.
std::optional<std::vector<Part>> parts_of(std::string_view line) {
  std::vector<Part> parts;
  for (line = trimmed(line); !line.empty(); line = trimmed(line)) {
    const auto equals = line.find_first_of("=!+:");
    const auto quote = line.find('"');
    const auto end = quote == line.npos ? line.npos : line.find('"', quote + 1);
    if (end == line.npos || equals > quote) return std::nullopt;
    parts.push_back({std::string(trimmed(line.substr(0, equals))),
                     std::string(trimmed(line.substr(equals, quote - equals))),
                     std::string(line.substr(quote + 1, end - quote - 1))});
    line.remove_prefix(end + 1);
  }
  return parts;
}

/// Patterns separated by '|', as udev's.
bool matches(std::string_view patterns, const std::string& value) {
  for (;;) {
    const auto bar = patterns.find('|');
    const std::string one(patterns.substr(0, bar));
    if (fnmatch(one.c_str(), value.c_str(), 0) == 0) return true;
    if (bar == patterns.npos) return false;
    patterns.remove_prefix(bar + 1);
  }
}

std::optional<std::string> name_of(const std::vector<Part>& rule,
                                   const std::map<std::string, std::string>& facts) {
  std::optional<std::string> name;
  for (const Part& part : rule) {
    if (part.key == "NAME" && (part.op == "=" || part.op == ":=")) {
      name = part.value;
    } else if (part.op == "==" || part.op == "!=") {
      const auto fact = facts.find(part.key);
      const bool is_match = fact != facts.end() && matches(part.value, fact->second);
      if (fact == facts.end() || is_match != (part.op == "==")) return std::nullopt;
    }
  }
  return name;
}

}  // namespace

std::optional<std::string> name_by_rules(std::string_view rules, const RuledInterface& interface) {
  const std::map<std::string, std::string> facts{
      {"ACTION", "add"},
      {"SUBSYSTEM", "net"},
      {"DRIVERS", "verbatim"},
      {"ATTR{type}", "32"},
      {"ATTR{address}", interface.address},
      {"ATTR{dev_id}", fmt::format("{:#x}", interface.port - 1)},
      {"ATTR{dev_port}", fmt::format("{}", interface.port - 1)}};
  std::optional<std::string> name;
  std::string joined;  // Lines that a backslash continues.
  while (!rules.empty()) {
    const auto end = std::min(rules.find('\n'), rules.size());
    joined += rules.substr(0, end);
    rules.remove_prefix(std::min(end + 1, rules.size()));
    if (joined.ends_with('\\')) {
      joined.pop_back();
      continue;
    }
    const std::string line = std::exchange(joined, "");
    if (trimmed(line).starts_with('#')) continue;
    const auto rule = parts_of(line);
    if (auto given = rule ? name_of(*rule, facts) : std::nullopt) name = std::move(given);
  }
  return name;
}

}  // namespace verbatim::cli
