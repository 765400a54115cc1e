#include "mad/sma/notices.h"

#include <algorithm>

namespace verbatim::mad {
namespace {

using wire::Notice;
using wire::NoticeType;
using wire::TrapNumber;

/// With the LID of `port`'s manager-visible port as issuer.
Notice notice(const SubnetNode& node, std::uint8_t port, NoticeType type, TrapNumber trap) {
  return {.type = type,
          .producer = static_cast<wire::NoticeProducer>(node.info.node_type),
          .trap = trap,
          .issuer = node.management_port(port).info.lid};
}

/// `others`: what has changed besides the capabilities.
Notice local_changes_notice(const SubnetNode& node, std::uint8_t port, std::uint16_t others) {
  Notice made = notice(node, port, NoticeType::informational, TrapNumber::local_changes);
  const wire::PortInfo& info = node.management_port(port).info;
  set_details(made, wire::LocalChangesDetails{.lid = made.issuer,
                                              .is_other = others != 0,
                                              .capabilities = info.capabilities,
                                              .changes = others,
                                              .capabilities2 = info.capabilities2});
  return made;
}

}  // namespace

Notice link_state_notice(const SubnetNode& node) {
  Notice made = notice(node, 0, NoticeType::urgent, TrapNumber::link_state_change);
  set_details(made, wire::SwitchDetails{.lid = made.issuer});
  return made;
}

Notice link_integrity_notice(const SubnetNode& node, std::uint8_t port) {
  Notice made = notice(node, port, NoticeType::urgent, TrapNumber::local_link_integrity);
  set_details(made, wire::PortErrorDetails{.lid = made.issuer, .port = port});
  return made;
}

Notice capabilities_notice(const SubnetNode& node, std::uint8_t port) {
  return local_changes_notice(node, port, 0);
}

Notice description_notice(const SubnetNode& node, std::uint8_t port) {
  return local_changes_notice(node, port, wire::LocalChangesDetails::kNodeDescription);
}

Notice bad_m_key_notice(const SubnetNode& node, std::uint8_t port, const wire::Smp& smp,
                        Lid source) {
  Notice made = notice(node, port, NoticeType::security, TrapNumber::bad_m_key);
  wire::BadMKeyDetails details{.lid = source,
                               .method = smp.method,
                               .attribute = raw(smp.attribute),
                               .modifier = smp.modifier,
                               .m_key = smp.m_key};
  if (smp.route) {
    details.is_directed = true;
    details.route_source_lid = smp.route->source_lid;
    details.is_path_truncated = smp.route->hop_count > details.return_path.size();
    details.hop_count = smp.route->hop_count;
    std::copy_n(smp.route->return_path.begin(), details.return_path.size(),
                details.return_path.begin());
  }
  set_details(made, details);
  return made;
}

Notice bad_key_notice(const SubnetNode& node, std::uint8_t port, TrapNumber trap,
                      const wire::BadKeyDetails& details) {
  Notice made = notice(node, port, NoticeType::security, trap);
  set_details(made, details);
  return made;
}

Notice switch_bad_p_key_notice(const SubnetNode& node, const wire::SwitchBadPKeyDetails& details) {
  Notice made = notice(node, 0, NoticeType::security, TrapNumber::bad_p_key_at_switch);
  set_details(made, details);
  return made;
}

}  // namespace verbatim::mad
