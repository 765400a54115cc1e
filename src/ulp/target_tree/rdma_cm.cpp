#include "ulp/target_tree/rdma_cm.h"

#include <cerrno>

#include "ulp/target_tree/parsers.h"

namespace verbatim::ulp::target_tree {
namespace {

Answer<std::string> parse_byte(const Written& written) {
  const auto number = number_of(written.text);
  if (!number) return std::unexpected(number.error());
  if (*number > 255) return std::unexpected(ERANGE);
  return std::to_string(*number);
}

constexpr Attribute kPortAttributes[] = {
    {.name = "default_roce_mode",
     .value = "RoCE v2",
     .parse = parse_word,
     .words = "IB/RoCE v1|RoCE v2"},
    {.name = "default_roce_tos", .value = "0", .parse = parse_byte}};
constexpr Kind kPort{.attributes = kPortAttributes};
constexpr Group kPortsGroups[] = {{"1", &kPort}};
constexpr Kind kPorts{.groups = kPortsGroups};
constexpr Group kDeviceGroups[] = {{"ports", &kPorts}};
constexpr Kind kDevice{.groups = kDeviceGroups};

}  // namespace

constexpr Kind kRdmaCm{
    .child = [](const Node&, std::string_view) -> Answer<const Kind*> { return &kDevice; }};

}  // namespace verbatim::ulp::target_tree
