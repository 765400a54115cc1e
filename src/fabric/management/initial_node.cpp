#include "fabric/management/initial_node.h"

#include <algorithm>
#include <utility>

#include "fabric/topology/subnets/gid_prefix.h"
#include "mad/sma/node_tables.h"
#include "wire/subnet/link_speed.h"

namespace verbatim::fabric {
namespace {

using mad::SubnetNode;
using mad::SubnetPort;
using wire::PortInfo;

constexpr std::uint8_t kSubnetTimeout = 18;  // 1.07 s: the pace of traps.
constexpr std::uint8_t kResponseTime = 16;   // 0.27 s.
constexpr std::uint8_t kErrorThreshold = 8;  // As cards, and as opensm sets it.

/// What a port that has a LID says of itself.
void add_identity(PortInfo& port, const PortIdentity& identity) {
  using namespace wire::port_capability;
  port.gid_prefix = kDefaultGidPrefix;
  port.lid = identity.lid;
  port.lmc = identity.lmc;
  port.capabilities = kTrap | kSlMapping | kLedInfo | kSystemImageGuid | kExtendedSpeeds |
                      kCapabilityMask2 | kCommunicationManagement | kCapabilityMaskNotice |
                      kClientReregistration | kOtherLocalChangesNotice;
  port.capabilities2 = wire::port_capability2::kSetNodeDescription |
                       wire::port_capability2::kPortInfoExtended |
                       wire::port_capability2::kWidth2x | wire::port_capability2::kSpeedHdr |
                       wire::port_capability2::kSpeedNdr | wire::port_capability2::kSpeedXdr;
  port.guid_cap = mad::kPortGuids;
  port.subnet_timeout = kSubnetTimeout;
  port.response_time = kResponseTime;
}

/// What a port that has a link says of it.
PortInfo link_port(Rate rate) {
  PortInfo port;
  port.width_supported = raw(LinkWidth::x1) | raw(rate.width);
  port.width_enabled = port.width_supported;
  port.width_active = rate.width;
  wire::set_supported_speeds(port, rate.speed);
  wire::set_active_speed(port, rate.speed);
  port.state = wire::PortState::down;
  port.physical_state = wire::PhysicalState::polling;
  port.link_down_default_state = wire::PhysicalState::polling;
  port.neighbor_mtu = Mtu::k4096;
  port.mtu_cap = Mtu::k4096;
  port.vl_cap = mad::kDataLanes;
  port.operational_vls = mad::kDataLanes;
  port.vl_arbitration_high_cap = mad::kArbitrationEntries;
  port.vl_arbitration_low_cap = mad::kArbitrationEntries;
  port.local_physical_errors = port.overrun_errors = kErrorThreshold;
  return port;
}

/// A switch's port 0 has no link, and always works.
PortInfo switch_port_0(const PortIdentity& identity) {
  PortInfo port = link_port({LinkWidth::x4, LinkSpeed::sdr});
  add_identity(port, identity);
  port.state = wire::PortState::active;
  port.physical_state = wire::PhysicalState::link_up;
  port.vl_cap = port.operational_vls = wire::VirtualLanes::one;
  port.vl_arbitration_high_cap = port.vl_arbitration_low_cap = 0;
  return port;
}

wire::SwitchInfo switch_info(const Node& node) {
  return {.linear_forwarding_cap = mad::kLinearLids,
          .multicast_forwarding_cap = mad::kMulticastLids,
          .lifetime = 18,
          .partition_enforcement_cap = mad::kPortPKeys,
          .inbound_enforcement_cap = true,
          .outbound_enforcement_cap = true,
          .filter_raw_inbound_cap = true,
          .filter_raw_outbound_cap = true,
          .enhanced_port_0 = node.enhanced_port_0};
}

wire::NodeType type_of(NodeKind kind) {
  switch (kind) {
    case NodeKind::switch_node:
      return wire::NodeType::switch_node;
    case NodeKind::router:
      return wire::NodeType::router;
    default:
      return wire::NodeType::channel_adapter;
  }
}

SubnetNode initial_node(const Node& node) {
  const bool is_switch = node.kind == NodeKind::switch_node;
  SubnetNode made{
      .info = {.node_type = type_of(node.kind),
               .ports = node.ports,
               .system_image_guid =
                   node.system_image_guid != 0 ? node.system_image_guid : node.guid,
               .node_guid = node.guid,
               .partition_cap = is_switch ? mad::kSwitchPort0PKeys : mad::kPortPKeys,
               .device_id = static_cast<std::uint16_t>(node.device_id),
               .vendor_id = node.vendor_id},
      .description = wire::node_description(node.name),
  };
  made.ports.resize(node.ports + 1u);
  for (unsigned number = 0; number <= node.ports; ++number) {
    SubnetPort& port = made.ports[number];
    port.info = link_port({LinkWidth::x4, LinkSpeed::sdr});
    if (is_switch || number > 0) port.guid = identity_of(node, number).guid;
    if (!is_switch && number > 0) add_identity(port.info, identity_of(node, number));
  }
  if (is_switch) {
    made.switch_info = switch_info(node);
    made.ports[0].info = switch_port_0(identity_of(node, 0));
  }
  return made;
}

}  // namespace

void set_rate(PortInfo& port, Rate rate) {
  const PortInfo link = link_port(rate);
  port.width_supported = port.width_enabled = link.width_supported;
  port.width_active = link.width_active;
  wire::set_supported_speeds(port, rate.speed);
  wire::set_active_speed(port, rate.speed);
}

std::vector<SubnetNode> initial_nodes(const Topology& topology) {
  std::vector<SubnetNode> nodes;
  nodes.reserve(topology.nodes.size());
  for (const Node& node : topology.nodes) nodes.push_back(initial_node(node));
  // A port can do what its link can: tools tell users of links that could be faster.
  for (const Link& link : topology.links) {
    for (const PortPlace end : {link.a, link.b}) {
      set_rate(nodes[end.node].ports[end.port].info, {link.width, link.speed});
    }
  }
  return nodes;
}

}  // namespace verbatim::fabric
