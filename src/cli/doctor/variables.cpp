#include "cli/doctor/variables.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <initializer_list>
#include <ranges>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "agent/client/client.h"
#include "base/text/nearest.h"
#include "config/layers.h"
#include "link/decorators/fault_plan.h"
#include "service/folder.h"

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

/// Empty variables count as not set.
Result<void> check_anything(const std::string&) { return {}; }
template <const char* key>
Result<void> check_key(const std::string& value) {
  config::NodeConfig checked;
  return config::apply(key, value, checked);
}
constexpr char kAddress[] = "address";
constexpr char kRoce[] = "roce";
constexpr char kProtocol[] = "protocol";
constexpr char kDevice[] = "device";
constexpr char kProfile[] = "profile";
constexpr char kFunction[] = "function";
Result<void> check_folders(const std::string& value) {
  return outcome_of(config::parse_folders(value));
}
Result<void> check_log(const std::string& value) {
  return check_word(value, {"off", "error", "warn", "info", "debug"});
}
Result<void> check_path_name(const std::string& value) {
  return check_word(value, {"auto", "direct", "wire"});
}
Result<void> check_switch(const std::string& value) { return check_word(value, {"on", "off"}); }
Result<void> check_fault(const std::string& value) {
  return outcome_of(link::FaultPlan::parse(value));
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
    {"VERBATIM_NODE", service::check_node_name},
    {"VERBATIM_ADDRESS", check_key<kAddress>},
    {"VERBATIM_ROCE", check_key<kRoce>},
    {"VERBATIM_PROTOCOL", check_key<kProtocol>},
    {"VERBATIM_DEVICE", check_key<kDevice>},
    {"VERBATIM_PROFILE", check_key<kProfile>},
    {"VERBATIM_FUNCTION", check_key<kFunction>},
    {"VERBATIM_CONFIG", check_folders},
    {"VERBATIM_FAULT", check_fault},
    {"VERBATIM_MPA", check_mpa},
    {"VERBATIM_LOG", check_log},
    {"VERBATIM_PATH", check_path_name},
    {"VERBATIM_SDP", check_switch},
    {"VERBATIM_RDS", check_anything},
    {"VERBATIM_RNR_GRACE", check_microseconds},
    {"VERBATIM_BUSY_POLL", check_microseconds},
    {"VERBATIM_EARLY_RETRY", check_switch},
    {"VERBATIM_FABRIC", service::check_node_name},  // Names of both have one form.
    {"VERBATIM_HOST", check_anything},
    {"VERBATIM_VIEW", check_anything},
    {"VERBATIM_TARGET", check_anything},
    {"VERBATIM_INITIATOR", check_anything},
    {"VERBATIM_PROGRAM", check_program},
    {"VERBATIMD", check_program},
});

}  // namespace

std::span<const Variable> known_variables() { return kVariables; }

std::string nearest_variable(std::string_view name) {
  std::vector<std::string> names;
  for (const Variable& known : kVariables) names.emplace_back(known.name);
  return nearest(name, names);
}

}  // namespace verbatim::cli::doctor
