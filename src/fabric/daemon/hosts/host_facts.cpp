#include "fabric/daemon/hosts/host_facts.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "base/text/nearest.h"
#include "fabric/protocol/decode.h"
#include "wire/subnet/link_speed.h"

namespace verbatim::fabric {
namespace {

using protocol::PortDescription;
using protocol::text_of;

// As Linux names them in ports/N/state and ports/N/phys_state.
constexpr std::array kStates{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE"};
constexpr std::array kPhysicalStates{
    "No state change",           "Sleep",  "Polling",           "Disabled",
    "PortConfigurationTraining", "LinkUp", "LinkErrorRecovery", "Phy Test"};

Gid gid_of(std::uint64_t prefix, std::uint64_t guid) {
  Gid gid;
  store_be(reinterpret_cast<std::byte*>(gid.bytes.data()), prefix);
  store_be(reinterpret_cast<std::byte*>(gid.bytes.data()) + 8, guid);
  return gid;
}

std::string guid_text(std::uint64_t guid) {
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", guid >> 48, guid >> 32 & 0xffff,
                     guid >> 16 & 0xffff, guid & 0xffff);
}

template <std::size_t size>
std::string numbered(const std::array<const char*, size>& names, std::uint8_t number) {
  return fmt::format("{}: {}", number, number < size ? names[number] : "<unknown>");
}

/// Whole units, and halves as ".5": the rate of a link without its coding, as libraries read it.
void put_rate(PortDescription& out, const wire::PortInfo& port) {
  const LinkSpeed speed = wire::active_speed(port).value_or(LinkSpeed::sdr);
  const unsigned lanes = std::max(lanes_of(port.width_active), 1u);
  const auto lane = wire::rate_code(LinkWidth::x1, speed);
  out.rate_mbps = lane ? wire::mbps_of(*lane) * lanes : 0;
  protocol::put_text(
      out.rate, fmt::format("{}{} Gb/sec ({}X {})", out.rate_mbps / 1000,
                            out.rate_mbps % 1000 != 0 ? ".5" : "", lanes, facts_of(speed).name));
}

PortDescription describe_port(const ManagementNet& net, PortPlace place) {
  const wire::PortInfo& port = net.port_info(place);
  PortDescription out;
  out.gid_prefix = port.gid_prefix;
  out.guid = net.node_info(place).port_guid;
  out.capabilities = port.capabilities;
  out.lid = raw(port.lid);
  out.sm_lid = raw(port.sm_lid);
  out.lmc = port.lmc;
  out.sm_service_level = port.sm_service_level;
  out.state = raw(port.state);
  out.physical_state = raw(port.physical_state);
  out.width = raw(port.width_active);
  out.speed =
      static_cast<std::uint16_t>(1u << raw(wire::active_speed(port).value_or(LinkSpeed::sdr)));
  out.mtu = raw(port.neighbor_mtu);
  out.mtu_max = raw(port.mtu_cap);
  out.virtual_lanes = raw(port.vl_cap);
  out.subnet_timeout = port.subnet_timeout;
  out.init_type_reply = port.init_type_reply;
  out.reregistrations = net.reregistrations(place);
  put_rate(out, port);
  const auto pkeys = net.pkeys(place);
  out.pkey_count = static_cast<std::uint32_t>(std::min(pkeys.size(), out.pkeys.size()));
  std::copy_n(pkeys.begin(), out.pkey_count, out.pkeys.begin());
  return out;
}

void add_port_files(const PortDescription& port, std::size_t number, std::vector<HostFile>& files) {
  const auto add = [&](std::string_view name, std::string content) {
    files.push_back({fmt::format("ports/{}/{}", number, name), std::move(content)});
  };
  const Gid gid = gid_of(port.gid_prefix, port.guid);
  std::string gid_text;
  for (std::size_t i = 0; i < gid.bytes.size(); i += 2) {
    gid_text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", gid.bytes[i], gid.bytes[i + 1]);
  }
  add("state", numbered(kStates, port.state));
  add("phys_state", numbered(kPhysicalStates, port.physical_state));
  add("link_layer", "InfiniBand");
  add("rate", std::string(text_of(port.rate)));
  add("cap_mask", fmt::format("{:#010x}", port.capabilities));
  add("lid", fmt::format("{:#x}", port.lid));
  add("lid_mask_count", fmt::format("{}", port.lmc));
  add("sm_lid", fmt::format("{:#x}", port.sm_lid));
  add("sm_sl", fmt::format("{}", port.sm_service_level));
  add("gids/0", gid_text);
  add("gid_attrs/types/0", "IB/RoCE v1");  // What Linux calls InfiniBand's own GIDs.
  for (std::uint32_t i = 0; i < port.pkey_count; ++i) {
    add(fmt::format("pkeys/{}", i), fmt::format("{:#06x}", port.pkeys[i]));
  }
}

/// As `verbatim fabric show` prints it, or without zeros in front.
bool is_guid(std::string_view name, std::uint64_t guid) {
  return name == fmt::format("{:#018x}", guid) || name == fmt::format("{:#x}", guid);
}

/// `word`: what is searched for.
template <typename IsMeant>
Result<std::uint32_t> find(const Topology& topology, std::string_view name, std::string_view word,
                           IsMeant is_meant) {
  std::optional<std::uint32_t> found;
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < topology.nodes.size(); ++i) {
    const Node& node = topology.nodes[i];
    if (!is_meant(node)) continue;
    names.push_back(node.name);
    if (node.name != name && !is_guid(name, node.guid)) continue;
    if (found) {
      return refuse(ENODEV, fmt::format("more than one {} has the name '{}': name it by its GUID, "
                                        "such as {:#x}",
                                        word, name, node.guid));
    }
    found = i;
  }
  if (found) return *found;
  const std::string similar = nearest(name, names);
  return refuse(
      ENODEV,
      fmt::format("the fabric has no {} '{}'{}: 'verbatim fabric show' lists them", word, name,
                  similar.empty() ? "" : fmt::format("; '{}' may be meant", similar)));
}

}  // namespace

Result<std::uint32_t> find_node(const Topology& topology, std::string_view name) {
  return find(topology, name, "node", [](const Node&) { return true; });
}

Result<std::uint32_t> find_host(const Topology& topology, std::string_view name) {
  auto host =
      find(topology, name, "host", [](const Node& node) { return node.kind == NodeKind::adapter; });
  if (!host && find_node(topology, name)) {
    return refuse(ENODEV, fmt::format("'{}' is no host: programs run on hosts alone", name));
  }
  return host;
}

protocol::HostDescription describe(const ManagementNet& net, std::uint32_t host) {
  const Node& node = net.topology().nodes[host];
  const wire::NodeInfo info = net.node_info({host, 1});
  protocol::HostDescription out;
  out.guid = info.node_guid;
  out.system_image_guid = info.system_image_guid;
  protocol::put_text(out.device, kDeviceName);
  protocol::put_text(out.firmware, VERBATIM_VERSION);
  protocol::put_text(out.hca_type, "verbatim");
  protocol::put_text(out.hardware, fmt::format("{:#x}", info.revision));
  protocol::put_text(out.name, text_of(net.node_description({host, 1}).text));
  out.port_count = std::min<std::uint32_t>(node.ports, protocol::kPortsMax);
  for (unsigned i = 0; i < out.port_count; ++i) {
    out.ports[i] = describe_port(net, {host, static_cast<std::uint8_t>(i + 1)});
  }
  return out;
}

PortIdentifiers identifiers(const ManagementNet& net, PortPlace port) {
  const wire::PortInfo& info = net.port_info(port);
  return {.lid = info.lid,
          .lmc = info.lmc,
          .gid = gid_of(info.gid_prefix, net.node_info(port).port_guid),
          .pkeys = net.pkeys(port),
          .management = {.manager = info.sm_lid,
                         .service_level = info.sm_service_level,
                         .own = info.lid,
                         .reregistrations = net.reregistrations(port)}};
}

std::vector<HostFile> files_of(const protocol::HostDescription& host) {
  std::vector<HostFile> files = {
      {"node_type", "1: CA"},
      {"node_desc", std::string(text_of(host.name))},
      {"node_guid", guid_text(host.guid)},
      {"sys_image_guid", guid_text(host.system_image_guid)},
      {"fw_ver", std::string(text_of(host.firmware))},
      {"hca_type", std::string(text_of(host.hca_type))},
      {"board_id", std::string(text_of(host.hca_type))},
      {"hw_rev", std::string(text_of(host.hardware))},
  };
  for (std::uint32_t port = 0; port < host.port_count; ++port) {
    add_port_files(host.ports[port], port + 1, files);
  }
  return files;
}

}  // namespace verbatim::fabric
