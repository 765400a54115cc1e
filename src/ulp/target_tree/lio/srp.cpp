// srpt/: ports of this host's devices, which are targets.
#include <array>
#include <cerrno>

#include <arpa/inet.h>

#include "ulp/target_tree/lio/kinds.h"
#include "ulp/target_tree/parsers.h"

namespace verbatim::ulp::target_tree {
namespace {

constexpr Group kAclGroups[] = {
    {"attrib", &kEmpty}, {"auth", &kEmpty}, {"fabric_statistics", &kEmpty}, {"param", &kEmpty}};
constexpr Kind kAcl{.groups = kAclGroups, .child = mapped_unit};

/// Hexadecimal digits of an initiator's port, or an IP address.
bool is_initiator(std::string_view name) {
  std::string_view digits = name;
  if (digits.starts_with("0x")) digits.remove_prefix(2);
  const bool is_hex = digits.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
  if (is_hex && !digits.empty() && digits.size() <= 32 && digits.size() % 2 == 0) return true;
  const std::string text(name);
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return inet_pton(AF_INET, text.c_str(), address.data()) == 1 ||
         inet_pton(AF_INET6, text.c_str(), address.data()) == 1;
}
constexpr Kind kAcls{.child = [](const Node&, std::string_view name) -> Answer<const Kind*> {
  if (!is_initiator(name)) return std::unexpected(EINVAL);
  return &kAcl;
}};

constexpr Kind kPortals{.child = [](const Node&, std::string_view) -> Answer<const Kind*> {
  return std::unexpected(ENOSYS);
}};

constexpr Attribute kAttribAttributes[] = {
    {.name = "srp_max_rdma_size",
     .value = "65536",
     .parse = parse_strict,
     .low = 1 << 16,
     .high = 1 << 24},
    {.name = "srp_max_rsp_size", .value = "256", .parse = parse_strict, .low = 40, .high = 4095},
    {.name = "srp_sq_size", .value = "4096", .parse = parse_strict, .low = 4, .high = 65535},
    {.name = "use_srq", .value = "0", .parse = parse_strict, .high = 1}};
constexpr Kind kAttrib{.attributes = kAttribAttributes};

constexpr Attribute kGroupAttributes[] = {
    {.name = "enable", .value = "0", .parse = parse_strict, .high = 1}};
constexpr Group kGroupGroups[] = {{"acls", &kAcls}, {"attrib", &kAttrib}, {"auth", &kEmpty},
                                  {"lun", &kUnits}, {"np", &kPortals},    {"param", &kEmpty}};
constexpr Kind kPortalGroup{.attributes = kGroupAttributes, .groups = kGroupGroups};

constexpr Group kTargetGroups[] = {{"param", &kTargetParameters}, {"fabric_statistics", &kEmpty}};
constexpr Kind kTarget{
    .groups = kTargetGroups,
    .child = [](const Node&, std::string_view) -> Answer<const Kind*> { return &kPortalGroup; }};

Answer<std::string> parse_port(const Written& written) {
  const auto port = number_of(written.text);
  if (!port) return std::unexpected(port.error());
  if (*port > 65535) return std::unexpected(ERANGE);
  return std::to_string(*port);
}
constexpr Attribute kDiscoveryAttributes[] = {
    {.name = "rdma_cm_port", .value = "0", .parse = parse_port}};
constexpr Kind kDiscovery{.attributes = kDiscoveryAttributes};

constexpr Attribute kSrpAttributes[] = {{.name = "version", .mode = kReadOnly}};
constexpr Group kSrpGroups[] = {{"discovery_auth", &kDiscovery}};

}  // namespace

constexpr Kind kSrp{
    .attributes = kSrpAttributes,
    .groups = kSrpGroups,
    .child = [](const Node&, std::string_view) -> Answer<const Kind*> { return &kTarget; }};

}  // namespace verbatim::ulp::target_tree
