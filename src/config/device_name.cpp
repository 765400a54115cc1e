#include "config/device_name.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "config/words.h"

namespace verbatim::config {
namespace {

std::string by_kernel(const DeviceIdentity&) { return std::string(kKernelName); }

std::string by_guid(const DeviceIdentity& identity) {
  return fmt::format("{}x{:016x}", identity.protocol == WireProtocol::iwarp ? "iw" : "roce",
                     identity.guid);
}

std::string by_node(const DeviceIdentity& identity) {
  constexpr std::string_view kEnd = "_0";
  return std::string(identity.node.substr(0, kDeviceNameMax - kEnd.size())).append(kEnd);
}

struct Rule {
  std::string_view name;
  std::string (*make)(const DeviceIdentity&);  // Null: no emulated device has what the rule needs.
};
constexpr auto kRules = std::to_array<Rule>({
    {"NAME_KERNEL", by_kernel},
    {"NAME_GUID", by_guid},
    {"NAME_FALLBACK", by_guid},
    {"NAME_NODE", by_node},
    {"NAME_PCI", nullptr},
    {"NAME_ONBOARD", nullptr},
});

bool is_letter(char c) { return is_alphanumeric(c) && (c < '0' || c > '9'); }

}  // namespace

Result<void> check_device_name(std::string_view text) {
  if (text.starts_with("NAME_")) {
    const auto* const rule = std::ranges::find(kRules, text, &Rule::name);
    if (rule == kRules.end()) {
      return refuse(EINVAL, fmt::format("'{}' is no rule: NAME_KERNEL, NAME_GUID, NAME_FALLBACK "
                                        "and NAME_NODE are",
                                        text));
    }
    if (rule->make != nullptr) return {};
    return refuse(EINVAL, fmt::format("{} names a device by its place on a bus, and an emulated "
                                      "one has none: take NAME_GUID, or a plain name",
                                      text));
  }
  const bool fits = !text.empty() && text.size() <= kDeviceNameMax && is_letter(text.front()) &&
                    std::ranges::all_of(text, [](char c) {
                      return is_alphanumeric(c) || c == '_' || c == '-' || c == '.';
                    });
  if (fits) return {};
  return refuse(EINVAL, fmt::format("'{}' cannot be the name of a device: use 1 to {} letters, "
                                    "digits, '_', '-' or '.', a letter first",
                                    text, kDeviceNameMax));
}

std::string device_name(std::string_view name_or_rule, const DeviceIdentity& identity) {
  const auto* const rule = std::ranges::find(kRules, name_or_rule, &Rule::name);
  if (rule != kRules.end() && rule->make != nullptr) return rule->make(identity);
  return std::string(name_or_rule);
}

}  // namespace verbatim::config
