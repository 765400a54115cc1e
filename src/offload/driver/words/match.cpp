#include "offload/driver/words/match.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include <netinet/in.h>
#include <rte_byteorder.h>

#include "offload/driver/words/actions.h"
#include "offload/driver/words/taker.h"

namespace verbatim::offload::driver {
namespace {

constexpr std::uint8_t kTagPresent = 0x10;  // In the first byte of vnic_match.vlan_tag.
constexpr std::uint16_t kMoreFragments = 0x2000;
constexpr std::uint16_t kFragmentBits = 0x3fff;
constexpr std::uint16_t kFragmentOffset = 0x1fff;
constexpr std::size_t kGeneveOptionHeader = 4;
constexpr std::uint8_t kGeneveOptionLength = 0x1f;

/// With a tag, the type of the Ethernet header announces it.
bool eth(const rte_flow_item& item, Taker& to) {
  Values<rte_flow_item_eth> values(item, to);
  auto& mask = values.mask;
  to.take(&vnic_match::destination_mac, &values.spec.hdr.dst_addr, &mask.hdr.dst_addr);
  to.take(&vnic_match::source_mac, &values.spec.hdr.src_addr, &mask.hdr.src_addr);
  to.take(&vnic_match::ether_type, &values.spec.hdr.ether_type, &mask.hdr.ether_type);
  if (mask.has_vlan != 0) {
    to.mask().vlan_tag[0] |= kTagPresent;
    if (values.spec.has_vlan != 0) to.key().vlan_tag[0] |= kTagPresent;
    mask.has_vlan = 0;
  }
  return values.are_taken();
}

bool vlan(const rte_flow_item& item, Taker& to) {
  Values<rte_flow_item_vlan> values(item, to);
  auto& mask = values.mask;
  std::ranges::copy(to.key().ether_type, to.key().vlan_protocol);
  std::ranges::copy(to.mask().ether_type, to.mask().vlan_protocol);
  to.take(&vnic_match::vlan_tag, &values.spec.hdr.vlan_tci, &mask.hdr.vlan_tci);
  to.take(&vnic_match::ether_type, &values.spec.hdr.eth_proto, &mask.hdr.eth_proto);
  to.key().vlan_tag[0] |= kTagPresent;
  to.mask().vlan_tag[0] |= kTagPresent;
  return values.are_taken();
}

/// None: 0, all bits; the first: 0x2000, all bits; a later one: 1 to 0x1fff of the offset's.
bool ipv4_fragment(const rte_flow_item& item, std::uint16_t spec, std::uint16_t& mask, Taker& to) {
  if (item.last != nullptr) {
    const auto* const last = static_cast<const rte_flow_item_ipv4*>(item.last);
    if (last->hdr.fragment_offset != 0) {
      if (mask != kFragmentOffset || spec != 1 ||
          rte_be_to_cpu_16(last->hdr.fragment_offset) != kFragmentOffset) {
        return false;
      }
      to.fragment(VNIC_FRAGMENT_LATER, 3);
      mask = 0;
      return true;
    }
  }
  if (mask == kFragmentBits && (spec == 0 || spec == kMoreFragments)) {
    to.fragment(spec == 0 ? VNIC_FRAGMENT_NONE : VNIC_FRAGMENT_FIRST, 3);
  } else {
    return mask == 0;
  }
  mask = 0;
  return true;
}

bool ipv4(const rte_flow_item& item, Taker& to) {
  Values<rte_flow_item_ipv4> values(item, to);
  const auto& spec = values.spec.hdr;
  auto& mask = values.mask.hdr;
  to.require_type(0x0800);
  to.take(&vnic_match::source_ip, &spec.src_addr, &mask.src_addr, 4);
  to.take(&vnic_match::destination_ip, &spec.dst_addr, &mask.dst_addr, 4);
  to.take(&vnic_match::protocol, &spec.next_proto_id, &mask.next_proto_id);
  to.take(&vnic_match::traffic_class, &spec.type_of_service, &mask.type_of_service);
  to.take(&vnic_match::hop_limit, &spec.time_to_live, &mask.time_to_live);
  std::uint16_t fragment_mask = rte_be_to_cpu_16(mask.fragment_offset);
  const auto fragment =
      static_cast<std::uint16_t>(rte_be_to_cpu_16(spec.fragment_offset) & fragment_mask);
  if (!ipv4_fragment(item, fragment, fragment_mask, to)) return false;
  mask.fragment_offset = values.last.hdr.fragment_offset = 0;
  return values.are_taken();
}

bool ipv6(const rte_flow_item& item, Taker& to) {
  Values<rte_flow_item_ipv6> values(item, to);
  const auto& spec = values.spec.hdr;
  auto& mask = values.mask.hdr;
  to.require_type(0x86dd);
  to.take(&vnic_match::source_ip, &spec.src_addr, &mask.src_addr);
  to.take(&vnic_match::destination_ip, &spec.dst_addr, &mask.dst_addr);
  to.take(&vnic_match::protocol, &spec.proto, &mask.proto);
  to.take(&vnic_match::hop_limit, &spec.hop_limits, &mask.hop_limits);
  const auto class_of = [](rte_be32_t flow) {
    return static_cast<std::uint8_t>(rte_be_to_cpu_32(flow) >> 20);
  };
  to.key().traffic_class = class_of(spec.vtc_flow);
  to.mask().traffic_class = class_of(mask.vtc_flow);
  mask.vtc_flow &= ~rte_cpu_to_be_32(0x0ff00000);
  if (values.mask.has_frag_ext != 0) {
    const bool has = values.spec.has_frag_ext != 0;
    // First and later ones have this bit.
    to.fragment(has ? 1 : VNIC_FRAGMENT_NONE, has ? 1 : 3);
    values.mask.has_frag_ext = 0;
  }
  return values.are_taken();
}

bool ipv6_fragment(const rte_flow_item& item, Taker& to) {
  Values<rte_flow_item_ipv6_frag_ext> values(item, to);
  auto& mask = values.mask.hdr;
  if (mask.frag_data != 0) {
    to.fragment(item.last != nullptr ? VNIC_FRAGMENT_LATER : VNIC_FRAGMENT_FIRST, 3);
    mask.frag_data = values.last.hdr.frag_data = 0;
  }
  to.take(&vnic_match::protocol, &values.spec.hdr.next_header, &mask.next_header);
  return values.are_taken();
}

bool tcp(const rte_flow_item& item, Taker& to) {
  Values<rte_flow_item_tcp> values(item, to);
  const auto& spec = values.spec.hdr;
  auto& mask = values.mask.hdr;
  to.require_protocol(IPPROTO_TCP);
  to.take(&vnic_match::source_port, &spec.src_port, &mask.src_port);
  to.take(&vnic_match::destination_port, &spec.dst_port, &mask.dst_port);
  // The low half of the data offset's byte has the other flags.
  to.key().tcp_flags[0] = spec.data_off & 15;
  to.mask().tcp_flags[0] = mask.data_off & 15;
  to.key().tcp_flags[1] = spec.tcp_flags;
  to.mask().tcp_flags[1] = mask.tcp_flags;
  mask.data_off &= 0xf0;
  mask.tcp_flags = 0;
  return values.are_taken();
}

template <typename Item, std::uint8_t Protocol>
bool ports(const rte_flow_item& item, Taker& to) {
  Values<Item> values(item, to);
  to.require_protocol(Protocol);
  to.take(&vnic_match::source_port, &values.spec.hdr.src_port, &values.mask.hdr.src_port);
  to.take(&vnic_match::destination_port, &values.spec.hdr.dst_port, &values.mask.hdr.dst_port);
  return values.are_taken();
}

bool icmp(const rte_flow_item& item, Taker& to) {
  Values<rte_flow_item_icmp> values(item, to);
  auto& mask = values.mask.hdr;
  to.require_protocol(IPPROTO_ICMP);
  to.key().source_port[1] = values.spec.hdr.icmp_type;
  to.mask().source_port[1] = mask.icmp_type;
  to.key().destination_port[1] = values.spec.hdr.icmp_code;
  to.mask().destination_port[1] = mask.icmp_code;
  mask.icmp_type = mask.icmp_code = 0;
  return values.are_taken();
}

/// The header of a tunnel: what follows is in it.
bool vxlan(const rte_flow_item& item, Taker& to) {
  if (!to.enter(VNIC_TUNNEL_VXLAN, IPPROTO_UDP, 4789)) return false;
  Values<rte_flow_item_vxlan> values(item, to);
  to.take_tunnel_id(values.spec.vni, values.mask.vni, 1, 3);
  values.mask.flags &= static_cast<std::uint8_t>(~0x08);  // Without it, it is no VXLAN.
  return values.are_taken();
}

bool geneve(const rte_flow_item& item, Taker& to) {
  if (!to.enter(VNIC_TUNNEL_GENEVE, IPPROTO_UDP, 6081)) return false;
  Values<rte_flow_item_geneve> values(item, to);
  to.take_tunnel_id(values.spec.vni, values.mask.vni, 1, 3);
  to.take_tunnel_protocol(&values.spec.protocol, &values.mask.protocol);
  return values.are_taken();
}

/// Without a length in the mask, the option has at least the data that the item has.
bool geneve_option(const rte_flow_item& item, Taker& to) {
  if (item.spec == nullptr || item.last != nullptr) return false;
  const auto& spec = *static_cast<const rte_flow_item_geneve_opt*>(item.spec);
  const auto& mask = *static_cast<const rte_flow_item_geneve_opt*>(item.mask);
  const bool has_data = spec.data != nullptr && mask.data != nullptr;
  const std::size_t data = has_data ? (spec.option_len & kGeneveOptionLength) * 4u : 0;
  vnic_option* const option = to.option();
  if (option == nullptr || data > sizeof option->value - kGeneveOptionHeader) return false;
  const auto fill = [&](const rte_flow_item_geneve_opt& from, __u8* bytes) {
    std::memcpy(bytes, &from.option_class, 2);
    bytes[2] = from.option_type;
    bytes[3] = from.option_len & kGeneveOptionLength;
    if (has_data) std::memcpy(bytes + kGeneveOptionHeader, from.data, data);
  };
  fill(spec, option->value);
  fill(mask, option->mask);
  option->size = static_cast<__u8>(kGeneveOptionHeader + data);
  return true;
}

bool gre(const rte_flow_item& item, Taker& to) {
  if (!to.enter(VNIC_TUNNEL_GRE, IPPROTO_GRE, 0)) return false;
  Values<rte_flow_item_gre> values(item, to);
  to.take_tunnel_protocol(&values.spec.protocol, &values.mask.protocol);
  return values.are_taken();
}

/// The network is the first 24 bits of the key (RFC 7637).
bool nvgre(const rte_flow_item& item, Taker& to) {
  if (!to.enter(VNIC_TUNNEL_GRE, IPPROTO_GRE, 0)) return false;
  Values<rte_flow_item_nvgre> values(item, to);
  to.take_tunnel_id(values.spec.tni, values.mask.tni, 0, 3);
  to.take_tunnel_id(&values.spec.flow_id, &values.mask.flow_id, 3, 1);
  to.take_tunnel_protocol(&values.spec.protocol, &values.mask.protocol);
  return values.are_taken();
}

bool gre_key(const rte_flow_item& item, Taker& to) {
  if (!to.is_inside() || item.spec == nullptr) return false;
  Values<rte_be32_t> values(item, to);
  to.take_tunnel_id(&values.spec, &values.mask, 0, 4);
  return true;
}

using Translate = bool (*)(const rte_flow_item&, Taker&);
constexpr std::pair<rte_flow_item_type, Translate> kItems[] = {
    {RTE_FLOW_ITEM_TYPE_ETH, eth},
    {RTE_FLOW_ITEM_TYPE_VLAN, vlan},
    {RTE_FLOW_ITEM_TYPE_IPV4, ipv4},
    {RTE_FLOW_ITEM_TYPE_IPV6, ipv6},
    {RTE_FLOW_ITEM_TYPE_IPV6_FRAG_EXT, ipv6_fragment},
    {RTE_FLOW_ITEM_TYPE_TCP, tcp},
    {RTE_FLOW_ITEM_TYPE_UDP, ports<rte_flow_item_udp, IPPROTO_UDP>},
    {RTE_FLOW_ITEM_TYPE_SCTP, ports<rte_flow_item_sctp, IPPROTO_SCTP>},
    {RTE_FLOW_ITEM_TYPE_ICMP, icmp},
    {RTE_FLOW_ITEM_TYPE_VXLAN, vxlan},
    {RTE_FLOW_ITEM_TYPE_GENEVE, geneve},
    {RTE_FLOW_ITEM_TYPE_GENEVE_OPT, geneve_option},
    {RTE_FLOW_ITEM_TYPE_GRE, gre},
    {RTE_FLOW_ITEM_TYPE_GRE_KEY, gre_key},
    {RTE_FLOW_ITEM_TYPE_NVGRE, nvgre},
};

bool translate(const rte_flow_item& item, Taker& to) {
  if (item.type == RTE_FLOW_ITEM_TYPE_VOID || item.type == kTunnelItem) return true;
  if (item.spec == nullptr ? item.last != nullptr : item.mask == nullptr) return false;
  const auto known =
      std::ranges::find(kItems, item.type, &std::pair<rte_flow_item_type, Translate>::first);
  return known != std::end(kItems) && known->second(item, to) && !to.has_failed();
}

}  // namespace

const rte_flow_item* translate_pattern(const rte_flow_item* items, vnic_rule& rule) {
  Taker to(rule);
  bool has_vlan = false;
  for (; items->type != RTE_FLOW_ITEM_TYPE_END; ++items) {
    const bool is_vlan = items->type == RTE_FLOW_ITEM_TYPE_VLAN;
    const bool was_inside = to.is_inside();
    if (items->type == kTunnelItem) rule.group = static_cast<const Tunnel*>(items->spec)->group;
    if ((is_vlan && has_vlan) || !translate(*items, to)) return items;
    has_vlan = (has_vlan || is_vlan) && to.is_inside() == was_inside;
  }
  return nullptr;
}

}  // namespace verbatim::offload::driver
