#include "offload/driver/match.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <netinet/in.h>
#include <rte_byteorder.h>

namespace verbatim::offload::driver {
namespace {

constexpr std::uint8_t kTagPresent = 0x10;  // In the first byte of vnic_match.vlan_tag.
constexpr std::uint16_t kMoreFragments = 0x2000;
constexpr std::uint16_t kFragmentBits = 0x3fff;
constexpr std::uint16_t kFragmentOffset = 0x1fff;

/// An item's value and mask. Without a value the item only says that the header is there.
template <typename Item>
struct Values {
  explicit Values(const rte_flow_item& item) {
    if (item.spec == nullptr) return;
    spec = *static_cast<const Item*>(item.spec);
    mask = *static_cast<const Item*>(item.mask);
  }
  Item spec{};
  Item mask{};
};

/// Moves a field out of an item's mask: what is left there at the end cannot be matched.
class Taker {
 public:
  explicit Taker(vnic_rule& rule) : rule_(rule) {}

  /// `spec` and `mask` are fields of packed structures, of `size` bytes.
  template <typename To>
  void take(To vnic_match::* to, const void* spec, void* mask, std::size_t size = sizeof(To)) {
    std::memcpy(&(rule_.key.*to), spec, size);
    std::memcpy(&(rule_.mask.*to), mask, size);
    std::memset(mask, 0, size);
  }
  /// The header itself says what the field must be.
  void require_type(std::uint16_t type) {
    const std::uint8_t bytes[] = {static_cast<std::uint8_t>(type >> 8),
                                  static_cast<std::uint8_t>(type)};
    std::ranges::copy(bytes, rule_.key.ether_type);
    std::ranges::fill(rule_.mask.ether_type, 0xff);
  }
  void require_protocol(std::uint8_t protocol) {
    rule_.key.protocol = protocol;
    rule_.mask.protocol = 0xff;
  }
  void fragment(std::uint8_t value, std::uint8_t mask) {
    rule_.key.fragment = value;
    rule_.mask.fragment = mask;
  }
  vnic_match& key() { return rule_.key; }
  vnic_match& mask() { return rule_.mask; }

 private:
  vnic_rule& rule_;
};

template <typename Item>
bool is_empty(const Item& mask) {
  return std::ranges::all_of(std::as_bytes(std::span(&mask, 1)),
                             [](std::byte byte) { return byte == std::byte{}; });
}

/// With a tag, the type of the Ethernet header announces it.
bool eth(const rte_flow_item& item, Taker& to) {
  Values<rte_flow_item_eth> values(item);
  auto& mask = values.mask;
  to.take(&vnic_match::destination_mac, &values.spec.hdr.dst_addr, &mask.hdr.dst_addr);
  to.take(&vnic_match::source_mac, &values.spec.hdr.src_addr, &mask.hdr.src_addr);
  to.take(&vnic_match::ether_type, &values.spec.hdr.ether_type, &mask.hdr.ether_type);
  if (mask.has_vlan != 0) {
    to.mask().vlan_tag[0] |= kTagPresent;
    if (values.spec.has_vlan != 0) to.key().vlan_tag[0] |= kTagPresent;
    mask.has_vlan = 0;
  }
  return is_empty(mask);
}

bool vlan(const rte_flow_item& item, Taker& to) {
  Values<rte_flow_item_vlan> values(item);
  auto& mask = values.mask;
  std::ranges::copy(to.key().ether_type, to.key().vlan_protocol);
  std::ranges::copy(to.mask().ether_type, to.mask().vlan_protocol);
  to.take(&vnic_match::vlan_tag, &values.spec.hdr.vlan_tci, &mask.hdr.vlan_tci);
  to.take(&vnic_match::ether_type, &values.spec.hdr.eth_proto, &mask.hdr.eth_proto);
  to.key().vlan_tag[0] |= kTagPresent;
  to.mask().vlan_tag[0] |= kTagPresent;
  return is_empty(mask);
}

/// None: 0, all bits; the first: 0x2000, all bits; a later one: 1 to 0x1fff of the offset's.
bool ipv4_fragment(const rte_flow_item& item, std::uint16_t spec, std::uint16_t& mask, Taker& to) {
  if (item.last != nullptr) {
    const auto* const last = static_cast<const rte_flow_item_ipv4*>(item.last);
    rte_flow_item_ipv4 others = *last;
    others.hdr.fragment_offset = 0;
    if (mask != kFragmentOffset || spec != 1 || !is_empty(others) ||
        rte_be_to_cpu_16(last->hdr.fragment_offset) != kFragmentOffset) {
      return false;
    }
    to.fragment(VNIC_FRAGMENT_LATER, 3);
  } else if (mask == kFragmentBits && (spec == 0 || spec == kMoreFragments)) {
    to.fragment(spec == 0 ? VNIC_FRAGMENT_NONE : VNIC_FRAGMENT_FIRST, 3);
  } else {
    return mask == 0;
  }
  mask = 0;
  return true;
}

bool ipv4(const rte_flow_item& item, Taker& to) {
  Values<rte_flow_item_ipv4> values(item);
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
  mask.fragment_offset = 0;
  return is_empty(values.mask);
}

bool ipv6(const rte_flow_item& item, Taker& to) {
  Values<rte_flow_item_ipv6> values(item);
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
  return is_empty(values.mask) && item.last == nullptr;
}

bool ipv6_fragment(const rte_flow_item& item, Taker& to) {
  Values<rte_flow_item_ipv6_frag_ext> values(item);
  auto& mask = values.mask.hdr;
  if (mask.frag_data != 0) {
    to.fragment(item.last != nullptr ? VNIC_FRAGMENT_LATER : VNIC_FRAGMENT_FIRST, 3);
    mask.frag_data = 0;
  } else if (item.last != nullptr) {
    return false;
  }
  to.take(&vnic_match::protocol, &values.spec.hdr.next_header, &mask.next_header);
  return is_empty(values.mask);
}

bool tcp(const rte_flow_item& item, Taker& to) {
  Values<rte_flow_item_tcp> values(item);
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
  return is_empty(values.mask);
}

template <typename Item, std::uint8_t Protocol>
bool ports(const rte_flow_item& item, Taker& to) {
  Values<Item> values(item);
  to.require_protocol(Protocol);
  to.take(&vnic_match::source_port, &values.spec.hdr.src_port, &values.mask.hdr.src_port);
  to.take(&vnic_match::destination_port, &values.spec.hdr.dst_port, &values.mask.hdr.dst_port);
  return is_empty(values.mask);
}

bool icmp(const rte_flow_item& item, Taker& to) {
  Values<rte_flow_item_icmp> values(item);
  auto& mask = values.mask.hdr;
  to.require_protocol(IPPROTO_ICMP);
  to.key().source_port[1] = values.spec.hdr.icmp_type;
  to.mask().source_port[1] = mask.icmp_type;
  to.key().destination_port[1] = values.spec.hdr.icmp_code;
  to.mask().destination_port[1] = mask.icmp_code;
  mask.icmp_type = mask.icmp_code = 0;
  return is_empty(values.mask);
}

bool translate(const rte_flow_item& item, Taker& to) {
  const bool is_range = item.last != nullptr && item.type != RTE_FLOW_ITEM_TYPE_IPV4 &&
                        item.type != RTE_FLOW_ITEM_TYPE_IPV6_FRAG_EXT;
  const bool lacks_mask = item.spec != nullptr && item.mask == nullptr;
  if (is_range || lacks_mask) return false;
  switch (item.type) {
    case RTE_FLOW_ITEM_TYPE_VOID:
      return true;
    case RTE_FLOW_ITEM_TYPE_ETH:
      return eth(item, to);
    case RTE_FLOW_ITEM_TYPE_VLAN:
      return vlan(item, to);
    case RTE_FLOW_ITEM_TYPE_IPV4:
      return ipv4(item, to);
    case RTE_FLOW_ITEM_TYPE_IPV6:
      return ipv6(item, to);
    case RTE_FLOW_ITEM_TYPE_IPV6_FRAG_EXT:
      return ipv6_fragment(item, to);
    case RTE_FLOW_ITEM_TYPE_TCP:
      return tcp(item, to);
    case RTE_FLOW_ITEM_TYPE_UDP:
      return ports<rte_flow_item_udp, IPPROTO_UDP>(item, to);
    case RTE_FLOW_ITEM_TYPE_SCTP:
      return ports<rte_flow_item_sctp, IPPROTO_SCTP>(item, to);
    case RTE_FLOW_ITEM_TYPE_ICMP:
      return icmp(item, to);
    default:
      return false;
  }
}

}  // namespace

const rte_flow_item* translate_pattern(const rte_flow_item* items, vnic_rule& rule) {
  Taker to(rule);
  bool has_vlan = false;
  for (; items->type != RTE_FLOW_ITEM_TYPE_END; ++items) {
    const bool is_vlan = items->type == RTE_FLOW_ITEM_TYPE_VLAN;
    if ((is_vlan && has_vlan) || !translate(*items, to)) return items;
    has_vlan |= is_vlan;
  }
  return nullptr;
}

}  // namespace verbatim::offload::driver
