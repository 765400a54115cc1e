#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <net/if.h>

#include "config/addresses.h"
#include "config/device_name.h"
#include "config/node_config.h"
#include "config/words.h"

namespace verbatim::config {
namespace {

/// Parses a decimal number, or a hexadecimal one after "0x".
std::optional<std::uint64_t> parse_number(std::string_view text, int base = 10) {
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
    base = 16;
  }
  std::uint64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (failure != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

Result<std::uint32_t> parse_number_between(std::string_view value, std::uint32_t least,
                                           std::uint32_t most) {
  const auto number = parse_number(value);
  if (number && *number >= least && *number <= most) return static_cast<std::uint32_t>(*number);
  return refuse(EINVAL, fmt::format("'{}' is no number from {} to {}", value, least, most));
}

/// Stores the parsed value.
template <auto parse, typename T>
Result<void> parse_into(T& to, std::string_view value) {
  auto parsed = parse(value);
  if (!parsed) return std::unexpected(parsed.error());
  to = std::move(*parsed);
  return {};
}

Result<void> set_addresses(std::string_view value, NodeConfig& config) {
  return parse_into<parse_addresses>(config.addresses, value);
}

Result<void> set_interface(std::string_view value, NodeConfig& config) {
  const bool fits = !value.empty() && value.size() < IFNAMSIZ && value != "." && value != ".." &&
                    value.find_first_of("/: \t,") == std::string_view::npos;
  if (!fits) {
    return refuse(EINVAL, fmt::format("'{}' cannot be the name of a network interface", value));
  }
  config.interface = value;
  return {};
}

Result<void> set_device(std::string_view value, NodeConfig& config) {
  if (auto fitting = check_device_name(value); !fitting) return fitting;
  config.device = value;
  return {};
}

/// Accepts the form of `ibv_devinfo`, or a single number.
Result<void> set_node_guid(std::string_view value, NodeConfig& config) {
  std::string digits(value);
  if (value.size() == 19 && value[4] == ':' && value[9] == ':' && value[14] == ':') {
    std::erase(digits, ':');
  }
  const auto guid = parse_number(digits, 16);
  const bool fits = guid && *guid != 0 && digits.size() >= 16;
  if (!fits) {
    return refuse(EINVAL, fmt::format("'{}' is no GUID: write 16 hexadecimal digits, as in "
                                      "0200:00ff:fe00:0002",
                                      value));
  }
  config.node_guid = guid;
  return {};
}

std::string node_guid_text(const NodeConfig& config) {
  if (!config.node_guid) return {};
  const std::uint64_t guid = *config.node_guid;
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", guid >> 48, guid >> 32 & 0xffff,
                     guid >> 16 & 0xffff, guid & 0xffff);
}

Result<void> set_protocol(std::string_view value, NodeConfig& config) {
  return parse_into<parse_wire_protocol>(config.protocol, value);
}

Result<void> set_versions(std::string_view value, NodeConfig& config) {
  std::string list(value);
  std::erase(list, ' ');
  return parse_into<parse_roce_versions>(config.versions, list);
}

Result<void> set_profile(std::string_view value, NodeConfig& config) {
  const Profile* const profile = find_profile(value);
  if (profile == nullptr) {
    std::vector<std::string_view> names;
    for (const Profile& each : profiles()) names.push_back(each.name);
    return refuse(EINVAL, fmt::format("'{}' is no profile: {} are", value, fmt::join(names, ", ")));
  }
  config.profile = profile;
  config.limits = profile->limits;
  config.firmware = profile->firmware;
  return {};
}

Result<void> set_mtu(std::string_view value, NodeConfig& config) {
  for (const std::uint32_t mtu : {256u, 512u, 1024u, 2048u, 4096u}) {
    if (value != fmt::to_string(mtu)) continue;
    config.limits.max_mtu = mtu;
    return {};
  }
  return refuse(EINVAL, fmt::format("'{}' is no MTU: 256, 512, 1024, 2048 and 4096 are", value));
}

constexpr std::array<std::string_view, 3> kAtomicNames{"none", "hca", "global"};

Result<void> set_atomic(std::string_view value, NodeConfig& config) {
  const auto* const name = std::ranges::find(kAtomicNames, value);
  if (name == kAtomicNames.end()) {
    return refuse(EINVAL, fmt::format("'{}' is none of none, hca and global", value));
  }
  config.limits.atomic = static_cast<std::uint32_t>(name - kAtomicNames.begin());
  return {};
}

template <std::uint32_t DeviceLimits::* member, std::uint32_t most>
Result<void> set_identity(std::string_view value, NodeConfig& config) {
  auto number = parse_number_between(value, 0, most);
  if (!number) return std::unexpected(number.error());
  config.limits.*member = *number;
  return {};
}

template <std::uint32_t DeviceLimits::* member>
std::string identity_text(const NodeConfig& config) {
  return fmt::format("{:#x}", config.limits.*member);
}

Result<void> set_firmware(std::string_view value, NodeConfig& config) {
  if (value.size() > kFirmwareMax) {
    return refuse(EINVAL,
                  fmt::format("{} characters are more than {}", value.size(), kFirmwareMax));
  }
  config.firmware = value;
  return {};
}

Result<void> set_memlock(std::string_view value, NodeConfig& config) {
  if (value != "yes" && value != "no") {
    return refuse(EINVAL, fmt::format("'{}' is neither yes nor no", value));
  }
  config.enforces_memlock = value == "yes";
  return {};
}

Result<void> set_fabric(std::string_view value, NodeConfig& config) {
  constexpr std::size_t kNameMax = 63;
  if (value.empty() || value.size() > kNameMax || value.contains('/')) {
    return refuse(EINVAL, fmt::format("'{}' cannot be the name of a fabric", value));
  }
  config.fabric = value;
  return {};
}

Result<void> set_host(std::string_view value, NodeConfig& config) {
  constexpr std::size_t kNameMax = 64;  // Of a NodeDescription.
  if (value.empty() || value.size() > kNameMax) {
    return refuse(EINVAL, fmt::format("'{}' cannot be the name of a host: 1 to {} characters",
                                      value, kNameMax));
  }
  config.host = value;
  return {};
}

/// The socket's path must be absolute: agents run elsewhere.
Result<void> set_function(std::string_view value, NodeConfig& config) {
  constexpr std::size_t kLengthMax = 127;
  const auto slash = value.rfind('/');
  const bool fits = value.starts_with('/') && value.size() <= kLengthMax && slash != 0 &&
                    value.substr(slash).starts_with("/vf");
  if (!fits) {
    return refuse(EINVAL, fmt::format("'{}' is no function of a card: /PATH/OF/ITS/SOCKET/vf2 is; "
                                      "'verbatim nic show' tells the socket",
                                      value));
  }
  config.function = value;
  return {};
}

std::vector<Key> make_keys() {
  using Config = const NodeConfig&;
  constexpr std::uint32_t kAny = ~0u;
  std::vector<Key> keys{
      {"address", "VERBATIM_ADDRESS", "IP addresses, separated by commas", nullptr, set_addresses,
       [](Config c) { return text_of(c.addresses); }},
      {"interface", "", "network interface that the first address belongs to", nullptr,
       set_interface, [](Config c) { return c.interface; }},
      {"device", "VERBATIM_DEVICE", "name of the device, or NAME_GUID and other rules", nullptr,
       set_device, [](Config c) { return c.device; }},
      {"node_guid", "", "GUID of node and system image", nullptr, set_node_guid, node_guid_text},
      {"protocol", "VERBATIM_PROTOCOL", "roce, or iwarp", nullptr, set_protocol,
       [](Config c) { return std::string(name_of(c.protocol)); }},
      {"roce", "VERBATIM_ROCE", "RoCE versions of the GIDs, that of rdma_cm first", nullptr,
       set_versions, [](Config c) { return text_of(c.versions); }},
      {"fabric", "VERBATIM_FABRIC", "InfiniBand fabric of the host", nullptr, set_fabric,
       [](Config c) { return c.fabric; }},
      {"host", "VERBATIM_HOST", "host of the fabric: the node is on InfiniBand", nullptr, set_host,
       [](Config c) { return c.host; }},
      {"function", "VERBATIM_FUNCTION", "function of a card that is its interface: SOCKET/vf2",
       nullptr, set_function, [](Config c) { return c.function; }},
      {"memlock", "", "yes: registered memory counts against ulimit -l", nullptr, set_memlock,
       [](Config c) { return std::string(c.enforces_memlock ? "yes" : "no"); }},
      {"profile", "VERBATIM_PROFILE", "the device whose limits it has", nullptr, set_profile,
       [](Config c) { return std::string(c.profile->name); }},
  };
  for (const LimitField& field : limit_fields())
    keys.push_back({field.name, "", field.meaning, &field});
  keys.insert(
      keys.end(),
      {{"max_mtu", "", "largest path MTU", nullptr, set_mtu,
        [](Config c) { return fmt::to_string(c.limits.max_mtu); }},
       {"atomic", "", "atomics: none, hca or global", nullptr, set_atomic,
        [](Config c) { return std::string(kAtomicNames[c.limits.atomic]); }},
       {"vendor_id", "", "vendor of the device", nullptr,
        set_identity<&DeviceLimits::vendor_id, 0xffffff>, identity_text<&DeviceLimits::vendor_id>},
       {"vendor_part_id", "", "the vendor's number of the device", nullptr,
        set_identity<&DeviceLimits::vendor_part_id, kAny>,
        [](Config c) { return fmt::to_string(c.limits.vendor_part_id); }},
       {"hw_ver", "", "version of the hardware", nullptr, set_identity<&DeviceLimits::hw_ver, kAny>,
        identity_text<&DeviceLimits::hw_ver>},
       {"fw_ver", "", "version of the firmware", nullptr, set_firmware,
        [](Config c) { return c.firmware; }}});
  return keys;
}

}  // namespace

const std::vector<Key>& keys() {
  static const std::vector<Key> all = make_keys();
  return all;
}

const Key* find_key(std::string_view name) {
  const auto found = std::ranges::find(keys(), name, &Key::name);
  return found == keys().end() ? nullptr : &*found;
}

std::string_view nearest_key(std::string_view name) {
  std::string_view nearest;
  std::size_t least = name.size() / 2 + 1;  // With more changes than this, any word would match.
  for (const Key& key : keys()) {
    const std::size_t distance = edit_distance(name, key.name);
    if (distance >= least) continue;
    least = distance;
    nearest = key.name;
  }
  constexpr std::size_t kPartMin = 3;
  if (!nearest.empty() || name.size() < kPartMin) return nearest;
  const auto whole =
      std::ranges::find_if(keys(), [name](const Key& key) { return key.name.contains(name); });
  return whole == keys().end() ? nearest : whole->name;
}

Result<void> apply(std::string_view name, std::string_view value, NodeConfig& config) {
  const Key* const key = find_key(name);
  if (key == nullptr) {
    constexpr std::size_t kNameMax = 40;
    const std::string_view shown = name.substr(0, kNameMax);
    const auto nearest = nearest_key(shown);
    return refuse(EINVAL,
                  nearest.empty()
                      ? fmt::format("there is no key '{}': 'verbatim config' lists them", shown)
                      : fmt::format("there is no key '{}': did you mean '{}'?", shown, nearest));
  }
  if (key->limit == nullptr) return key->set(value, config);
  const auto number =
      parse_number_between(value, key->limit->least, kVerbatimLimits.*key->limit->member);
  if (!number) return std::unexpected(number.error());
  config.limits.*key->limit->member = *number;
  return {};
}

std::string text_of(const Key& key, const NodeConfig& config) {
  if (key.limit == nullptr) return key.text(config);
  return fmt::to_string(config.limits.*key.limit->member);
}

}  // namespace verbatim::config
