#include "cli/doctor/variables.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <initializer_list>
#include <numeric>
#include <ranges>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "agent/client.h"
#include "agent/runtime_folder.h"

namespace verbatim::cli::doctor {
namespace {

using Words = std::initializer_list<std::string_view>;

template <typename Parsed>
Result<void> outcome_of(Result<Parsed> parsed) {
  if (!parsed) return std::unexpected(parsed.error());
  return {};
}

Result<void> check_word(std::string_view value, Words words) {
  if (std::ranges::find(words, value) != words.end()) return {};
  return refuse(EINVAL, fmt::format("'{}' is none of {}", value, fmt::join(words, ", ")));
}

/// Empty ones count as not set.
Result<void> check_anything(const std::string&) { return {}; }
Result<void> check_addresses(const std::string& value) {
  return outcome_of(agent::parse_addresses(value));
}
Result<void> check_roce(const std::string& value) {
  return outcome_of(agent::parse_roce_versions(value));
}
Result<void> check_protocol(const std::string& value) {
  return outcome_of(agent::parse_wire_protocol(value));
}
Result<void> check_log(const std::string& value) {
  return check_word(value, {"off", "error", "warn", "info", "debug"});
}
Result<void> check_path_name(const std::string& value) {
  return check_word(value, {"auto", "direct", "wire"});
}
Result<void> check_mpa(const std::string& value) {
  for (const auto part : std::views::split(value, ',')) {
    if (auto word = check_word(std::string_view(part), {"no-crc", "markers"}); !word) return word;
  }
  return {};
}

Result<void> check_microseconds(const std::string& value) {
  constexpr std::uint32_t kMax = 1'000'000;
  std::uint32_t number = 0;
  const char* const end = value.data() + value.size();
  const auto [stop, failure] = std::from_chars(value.data(), end, number);
  if (failure == std::errc() && stop == end && number <= kMax) return {};
  return refuse(EINVAL, fmt::format("'{}' is no number of microseconds, 0 to {}", value, kMax));
}

Result<void> check_program(const std::string& value) {
  if (access(value.c_str(), X_OK) == 0) return {};
  return refuse_errno(fmt::format("cannot execute '{}'", value));
}

constexpr auto kVariables = std::to_array<Variable>({
    {"VERBATIM_NODE", agent::check_node_name},
    {"VERBATIM_ADDRESS", check_addresses},
    {"VERBATIM_ROCE", check_roce},
    {"VERBATIM_PROTOCOL", check_protocol},
    {"VERBATIM_MPA", check_mpa},
    {"VERBATIM_LOG", check_log},
    {"VERBATIM_PATH", check_path_name},
    {"VERBATIM_RNR_GRACE", check_microseconds},
    {"VERBATIM_BUSY_POLL", check_microseconds},
    {"VERBATIM_VIEW", check_anything},
    {"VERBATIMD", check_program},
});

/// How many letters have to be added, removed or changed to get from one to the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({changed, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row[b.size()];
}

}  // namespace

std::span<const Variable> known_variables() { return kVariables; }

std::string_view nearest_variable(std::string_view name) {
  constexpr std::size_t kNear = 3;
  std::string upper(name);
  std::ranges::transform(upper, upper.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c; });
  std::string_view nearest;
  std::size_t smallest = kNear + 1;
  for (const Variable& known : kVariables) {
    const std::size_t steps = distance(upper, known.name);
    if (steps < smallest) {
      smallest = steps;
      nearest = known.name;
    }
  }
  return nearest;
}

}  // namespace verbatim::cli::doctor
