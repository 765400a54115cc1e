#include "ulp/target_tree/lio/lio.h"

#include <cerrno>

#include "ulp/target_tree/lio/kinds.h"
#include "ulp/target_tree/parsers.h"

namespace verbatim::ulp::target_tree {
namespace {

int refuse_with_fabrics(const Node& target) { return target.has_made_children() ? EINVAL : 0; }

constexpr Attribute kAttributes[] = {
    {.name = "dbroot",
     .value = "/etc/target",
     .parse = parse_text,
     .high = 255,
     .guard = refuse_with_fabrics},
    {.name = "version",
     .value = "Target Engine Core ConfigFS Infrastructure v5.0 on Linux/x86_64 on 6.1.0-56-amd64",
     .mode = kReadOnly}};
constexpr Group kGroups[] = {{"core", &kCore}};

}  // namespace

constexpr Kind kLio{.attributes = kAttributes,
                    .groups = kGroups,
                    .child = [](const Node&, std::string_view name) -> Answer<const Kind*> {
                      if (name == "iscsi") return &kIscsi;
                      if (name == "srpt") return &kSrp;
                      return std::unexpected(EINVAL);
                    }};

}  // namespace verbatim::ulp::target_tree
