#include "ulp/target_tree/nvmet.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdint>

#include "ulp/target_tree/hooks.h"
#include "ulp/target_tree/node.h"
#include "ulp/target_tree/parsers.h"

namespace verbatim::ulp::target_tree {
namespace {

// --- Namespaces

int busy_if_enabled(const Node& node) { return node.is_set("enable") ? EBUSY : 0; }
int invalid_if_enabled(const Node& node) { return node.is_set("enable") ? EINVAL : 0; }
int invalid_unless_enabled(const Node& node) { return node.is_set("enable") ? 0 : EINVAL; }

Answer<std::string> parse_path(const Written& written) {
  const std::string_view path = written.text.substr(0, written.text.find('\n'));
  if (path.empty()) return std::unexpected(EINVAL);
  return std::string(path);
}

Answer<std::string> parse_namespace_enable(const Written& written) {
  auto value = parse_flag(written);
  if (value == "1" && written.directory.value("device_path") == "(null)")
    return std::unexpected(EINVAL);
  return value;
}

constexpr Attribute kNamespaceAttributes[] = {
    {.name = "ana_grpid", .value = "1", .parse = parse_number, .low = 1, .high = 128},
    {.name = "buffered_io", .value = "0", .parse = parse_flag, .guard = invalid_if_enabled},
    {.name = "device_nguid",
     .value = "00000000-0000-0000-0000-000000000000",
     .parse = parse_uuid,
     .guard = busy_if_enabled},
    {.name = "device_path", .value = "(null)", .parse = parse_path, .guard = busy_if_enabled},
    {.name = "device_uuid", .parse = parse_uuid, .guard = busy_if_enabled},
    {.name = "enable", .value = "0", .parse = parse_namespace_enable},
    {.name = "resv_enable",
     .value = "0",
     .parse = parse_flag,
     .guard = invalid_if_enabled,
     .since = {6, 13}},
    {.name = "revalidate_size",
     .parse = parse_flag,
     .mode = kWriteOnly,
     .guard = invalid_unless_enabled}};

void fill_namespace(Node& node, Hooks& hooks) {
  std::string digits = hooks.random_digits(32);
  digits[12] = '4';  // RFC 4122: a random one.
  digits[16] = '8';
  for (const std::size_t at : {20, 16, 12, 8}) digits.insert(at, 1, '-');
  node.set("device_uuid", digits);
}

constexpr Kind kNamespace{.attributes = kNamespaceAttributes, .made = fill_namespace};
constexpr Kind kNamespaces{.child = [](const Node&, std::string_view name) -> Answer<const Kind*> {
  const auto number = number_after("", name);
  if (!number || *number == 0 || *number == UINT32_MAX) return std::unexpected(EINVAL);
  return &kNamespace;
}};

// --- Hosts and subsystems

constexpr Kind kHost{};
constexpr Kind kHosts{
    .child = [](const Node&, std::string_view) -> Answer<const Kind*> { return &kHost; }};

bool has_link_to(const Node& directory, const Node& target) {
  return std::ranges::any_of(directory.children,
                             [&](const auto& child) { return child->target == &target; });
}

constexpr Kind kAllowedHosts{.link = [](const Node& directory, const Node& target) {
  if (target.kind != &kHost || directory.parent->is_set("attr_allow_any_host")) return EINVAL;
  return has_link_to(directory, target) ? EEXIST : 0;
}};

Answer<std::string> parse_allow_any_host(const Written& written) {
  auto value = parse_flag(written);
  if (value == "1" && !written.directory.child("allowed_hosts")->children.empty())
    return std::unexpected(EINVAL);
  return value;
}

/// The kernel reads 16 bits and ignores those above: 4294967295 is 65535.
std::uint32_t controller_id(const Node& subsystem, std::string_view attribute) {
  return number_of(subsystem.value(attribute)).value_or(0);
}

/// sscanf("%hu"): digits up to whatever comes after them, cut to 16 bits.
Answer<std::uint16_t> short_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || static_cast<std::uint16_t>(number) == 0)
    return std::unexpected(EINVAL);
  return static_cast<std::uint16_t>(number);
}

Answer<std::string> parse_id_min(const Written& written) {
  const auto id = short_of(written.text);
  if (!id || *id >= controller_id(written.directory, "attr_cntlid_max"))
    return std::unexpected(EINVAL);
  return std::to_string(*id);
}

Answer<std::string> parse_id_max(const Written& written) {
  const auto id = short_of(written.text);
  if (!id || *id <= controller_id(written.directory, "attr_cntlid_min"))
    return std::unexpected(EINVAL);
  return std::to_string(*id);
}

/// MAJOR.MINOR or MAJOR.MINOR.TERTIARY.
Answer<std::string> parse_version(const Written& written) {
  const std::string_view text = trimmed(written.text);
  int points = 0;
  bool is_digit_before = false;
  for (const char c : text) {
    const bool is_digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!is_digit && (c != '.' || !is_digit_before || ++points > 2)) return std::unexpected(EINVAL);
    is_digit_before = is_digit;
  }
  if (points == 0 || !is_digit_before || text.size() > 16) return std::unexpected(EINVAL);
  return std::string(text);
}

Answer<std::string> show_padded(const Attribute& attribute, const Node& directory) {
  std::string text = directory.value(attribute.name);
  text.resize(attribute.high, ' ');
  return text + "\n";
}

constexpr Attribute kSubsystemAttributes[] = {
    {.name = "attr_allow_any_host", .value = "0", .parse = parse_allow_any_host},
    {.name = "attr_cntlid_max", .value = "65519", .parse = parse_id_max},
    {.name = "attr_cntlid_min", .value = "1", .parse = parse_id_min},
    {.name = "attr_model", .value = "Linux", .parse = parse_text, .high = 40},
    {.name = "attr_pi_enable", .value = "0", .parse = parse_flag},
    {.name = "attr_qid_max", .value = "128", .parse = parse_strict, .low = 1, .high = 128},
    {.name = "attr_serial", .parse = parse_text, .high = 20, .show = show_padded},
    {.name = "attr_version", .value = "1.3", .parse = parse_version}};

constexpr Group kSubsystemGroups[] = {{"namespaces", &kNamespaces},
                                      {"allowed_hosts", &kAllowedHosts}};

constexpr Kind kSubsystem{
    .attributes = kSubsystemAttributes,
    .groups = kSubsystemGroups,
    .made = [](Node& node, Hooks& hooks) { node.set("attr_serial", hooks.random_digits(20)); }};

constexpr Kind kSubsystems{.child = [](const Node&, std::string_view name) -> Answer<const Kind*> {
  if (name == "nqn.2014-08.org.nvmexpress.discovery") return std::unexpected(EINVAL);
  return &kSubsystem;
}};

// --- Ports

constexpr std::string_view kTransports = "rdma|fc|tcp|loop";
constexpr std::string_view kFamilies = "pcie|ipv4|ipv6|ib|fc|loop";
constexpr std::string_view kSecurity = "not specified|required|not required";
constexpr std::string_view kStates = "optimized|non-optimized|inaccessible|persistent-loss|change";

int refuse_while_listening(const Node& port) {
  return port.child("subsystems")->children.empty() ? 0 : EACCES;
}
int refuse_while_enabled(const Node& referral) { return referral.is_set("enable") ? EACCES : 0; }

Answer<std::string> parse_inline_size(const Written& written) {
  const std::string_view text = trimmed(written.text);
  int bytes = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, bytes);
  if (error != std::errc{} || stop != end) return std::unexpected(EINVAL);
  return std::to_string(bytes);
}

constexpr Attribute kReferralAttributes[] = {
    {.name = "addr_adrfam", .parse = parse_word, .words = kFamilies, .guard = refuse_while_enabled},
    {.name = "addr_portid",
     .value = "0",
     .parse = parse_strict,
     .high = 65535,
     .guard = refuse_while_enabled},
    {.name = "addr_traddr", .parse = parse_text, .high = 256, .guard = refuse_while_enabled},
    {.name = "addr_treq",
     .value = "not specified",
     .parse = parse_word,
     .words = kSecurity,
     .guard = refuse_while_enabled},
    {.name = "addr_trsvcid", .parse = parse_text, .high = 32, .guard = refuse_while_enabled},
    {.name = "addr_trtype",
     .parse = parse_word,
     .words = kTransports,
     .guard = refuse_while_enabled},
    {.name = "enable", .value = "0", .parse = parse_flag}};
constexpr Kind kReferral{.attributes = kReferralAttributes};
constexpr Kind kReferrals{
    .child = [](const Node&, std::string_view) -> Answer<const Kind*> { return &kReferral; }};

constexpr Attribute kFirstGroupAttributes[] = {
    {.name = "ana_state", .value = "optimized", .parse = parse_word, .words = kStates}};
constexpr Attribute kOtherGroupAttributes[] = {
    {.name = "ana_state", .value = "inaccessible", .parse = parse_word, .words = kStates}};
constexpr Kind kFirstGroup{.attributes = kFirstGroupAttributes};
constexpr Kind kOtherGroup{.attributes = kOtherGroupAttributes};
constexpr Group kGroupGroups[] = {{"1", &kFirstGroup}};
constexpr Kind kGroups{.groups = kGroupGroups,
                       .child = [](const Node&, std::string_view name) -> Answer<const Kind*> {
                         const auto number = number_after("", name);
                         if (!number || *number == 0 || *number > 128)
                           return std::unexpected(EINVAL);
                         return &kOtherGroup;
                       }};

constexpr Kind kPortSubsystems{.link =
                                   [](const Node& directory, const Node& target) {
                                     if (target.kind != &kSubsystem) return EINVAL;
                                     if (has_link_to(directory, target)) return EEXIST;
                                     return directory.parent->value("addr_trtype").empty() ? EINVAL
                                                                                           : 0;
                                   },
                               .linked =
                                   [](Node& directory) {
                                     Node& port = *directory.parent;
                                     if (port.value("param_inline_data_size") == "-1")
                                       port.set("param_inline_data_size", "4096");
                                   }};

constexpr Attribute kPortAttributes[] = {
    {.name = "addr_adrfam",
     .parse = parse_word,
     .words = kFamilies,
     .guard = refuse_while_listening},
    {.name = "addr_traddr", .parse = parse_text, .high = 256, .guard = refuse_while_listening},
    {.name = "addr_treq",
     .value = "not specified",
     .parse = parse_word,
     .words = kSecurity,
     .guard = refuse_while_listening},
    {.name = "addr_trsvcid", .parse = parse_text, .high = 32, .guard = refuse_while_listening},
    {.name = "addr_trtype",
     .parse = parse_word,
     .words = kTransports,
     .guard = refuse_while_listening},
    {.name = "param_inline_data_size",
     .value = "-1",
     .parse = parse_inline_size,
     .guard = refuse_while_listening},
    {.name = "param_pi_enable",
     .value = "0",
     .parse = parse_flag,
     .guard = refuse_while_listening}};

constexpr Group kPortGroups[] = {
    {"subsystems", &kPortSubsystems}, {"referrals", &kReferrals}, {"ana_groups", &kGroups}};
constexpr Kind kPort{.attributes = kPortAttributes, .groups = kPortGroups};
constexpr Kind kPorts{.child = [](const Node&, std::string_view name) -> Answer<const Kind*> {
  const auto number = number_after("", name);
  if (!number || *number > 65535) return std::unexpected(EINVAL);
  return &kPort;
}};

constexpr Group kNvmetGroups[] = {
    {"subsystems", &kSubsystems}, {"ports", &kPorts}, {"hosts", &kHosts}};

}  // namespace

constexpr Kind kNvmet{.groups = kNvmetGroups};

}  // namespace verbatim::ulp::target_tree
