#include "offload/ring/rule_text.h"

#include <algorithm>
#include <span>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

namespace verbatim::offload {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::uint8_t kTagPresent = 0x10;

std::string number(Bytes bytes) {
  unsigned long value = 0;
  for (const std::uint8_t byte : bytes) value = value << 8 | byte;
  return fmt::format("{:#x}", value);
}
std::string mac(Bytes bytes) { return fmt::format("{:02x}", fmt::join(bytes, ":")); }
std::string address(Bytes bytes) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(bytes.size() == 4 ? AF_INET : AF_INET6, bytes.data(), text.data(), text.size());
  return text.data();
}

/// The part of a rule that is about a frame: its own, or the one in the tunnel.
struct Layers {
  const vnic_match& key;
  const vnic_match& mask;
  const vnic_rule& rule;
  bool is_inner;

  const vnic_range* range_at(const __u8* field) const {
    if (rule.has_more == 0) return nullptr;
    const auto at = field - reinterpret_cast<const __u8*>(&key);
    for (const vnic_range& range : std::span(rule.more.ranges).first(rule.more.range_count)) {
      if (range.at == at && (range.is_inner != 0) == is_inner) return &range;
    }
    return nullptr;
  }
};

/// " NAME is VALUE", or " NAME spec VALUE NAME mask MASK", or with a range its end, too; nothing if
/// the mask is zero.
template <typename Write>
std::string field(const Layers& of, const char* name, Bytes value, Bytes mask, Write write) {
  if (const vnic_range* const range = of.range_at(value.data())) {
    const auto part = [&](const __u8* bytes) { return write(Bytes(bytes, value.size())); };
    return fmt::format(" {0} spec {1} {0} last {2} {0} mask {3}", name, part(range->low),
                       part(range->high), part(range->mask));
  }
  const auto is = [&](std::uint8_t byte) {
    return std::ranges::all_of(mask, [&](std::uint8_t each) { return each == byte; });
  };
  if (is(0)) return {};
  if (is(0xff)) return fmt::format(" {} is {}", name, write(value));
  return fmt::format(" {0} spec {1} {0} mask {2}", name, write(value), write(mask));
}
Bytes one(const std::uint8_t& byte) { return {&byte, 1}; }

std::string layer_two(const Layers& of) {
  const auto& [key, mask, rule, is_inner] = of;
  const bool is_tagged = (key.vlan_tag[0] & kTagPresent) != 0;
  std::string text = "eth" + field(of, "dst", key.destination_mac, mask.destination_mac, mac) +
                     field(of, "src", key.source_mac, mask.source_mac, mac);
  if ((mask.vlan_tag[0] & kTagPresent) != 0) text += fmt::format(" has_vlan is {:d}", is_tagged);
  if (!is_tagged) return text + field(of, "type", key.ether_type, mask.ether_type, number);
  const auto tag_of = [](const __u8(&tag)[2]) {
    return std::array<std::uint8_t, 2>{static_cast<std::uint8_t>(tag[0] & ~kTagPresent), tag[1]};
  };
  text += field(of, "type", key.vlan_protocol, mask.vlan_protocol, number) + " / vlan";
  return text + field(of, "tci", tag_of(key.vlan_tag), tag_of(mask.vlan_tag), number) +
         field(of, "inner_type", key.ether_type, mask.ether_type, number);
}

std::string layer_three(const Layers& of) {
  const auto& [key, mask, rule, is_inner] = of;
  const bool is_ipv4 = key.ether_type[0] == 0x08 && key.ether_type[1] == 0x00;
  const bool is_ipv6 = key.ether_type[0] == 0x86 && key.ether_type[1] == 0xdd;
  if (!is_ipv4 && !is_ipv6) return {};
  const std::size_t size = is_ipv4 ? 4 : 16;
  const auto part = [&](const __u8(&all)[16]) { return Bytes(all).first(size); };
  std::string text = is_ipv4 ? " / ipv4" : " / ipv6";
  text +=
      field(of, "src", part(key.source_ip), part(mask.source_ip), address) +
      field(of, "dst", part(key.destination_ip), part(mask.destination_ip), address) +
      field(of, "proto", one(key.protocol), one(mask.protocol), number) +
      field(of, is_ipv4 ? "tos" : "tc", one(key.traffic_class), one(mask.traffic_class), number) +
      field(of, is_ipv4 ? "ttl" : "hop", one(key.hop_limit), one(mask.hop_limit), number);
  if (mask.fragment != 0) text += fmt::format(" fragment {}/{}", key.fragment, mask.fragment);
  return text;
}

std::string layer_four(const Layers& of) {
  const auto& [key, mask, rule, is_inner] = of;
  const char* const name = key.protocol == IPPROTO_TCP    ? "tcp"
                           : key.protocol == IPPROTO_UDP  ? "udp"
                           : key.protocol == IPPROTO_SCTP ? "sctp"
                           : key.protocol == IPPROTO_ICMP ? "icmp"
                                                          : nullptr;
  if (name == nullptr || mask.protocol != 0xff) return {};
  const bool is_icmp = key.protocol == IPPROTO_ICMP;
  const auto skip = [&](const __u8(&all)[2]) { return Bytes(all).subspan(is_icmp ? 1 : 0); };
  return fmt::format(" / {}", name) +
         field(of, is_icmp ? "type" : "src", skip(key.source_port), skip(mask.source_port),
               number) +
         field(of, is_icmp ? "code" : "dst", skip(key.destination_port),
               skip(mask.destination_port), number) +
         field(of, "flags", key.tcp_flags, mask.tcp_flags, number);
}

std::string layers(const Layers& of) { return layer_two(of) + layer_three(of) + layer_four(of); }

std::string option(const vnic_option& of) {
  const Bytes value(of.value);
  const Bytes mask(of.mask);
  const auto part = [&](const char* name, std::size_t at, std::size_t size) {
    const auto all = [&](std::uint8_t byte) {
      return std::ranges::all_of(mask.subspan(at, size), [&](auto each) { return each == byte; });
    };
    const auto text = [&](Bytes of_what) {
      return fmt::format("0x{:02x}", fmt::join(of_what.subspan(at, size), ""));
    };
    if (size == 0 || all(0)) return std::string();
    if (all(0xff)) return fmt::format(" {} is {}", name, text(value));
    return fmt::format(" {0} spec {1} {0} mask {2}", name, text(value), text(mask));
  };
  std::string text = " / geneve-opt" + part("class", 0, 2) + part("type", 2, 1);
  if (of.mask[3] != 0) text += fmt::format(" length is {}", of.value[3]);
  return text + part("data", 4, of.size - 4u);
}

std::string tunnel(const vnic_rule& rule) {
  if (rule.has_more == 0 || rule.more.tunnel_mask.kind == 0) return {};
  const vnic_tunnel& key = rule.more.tunnel;
  const vnic_tunnel& mask = rule.more.tunnel_mask;
  const Layers inner{key.inner, mask.inner, rule, true};
  const bool is_gre = key.kind == VNIC_TUNNEL_GRE;
  const char* const name = is_gre                          ? " / gre / gre_key"
                           : key.kind == VNIC_TUNNEL_VXLAN ? " / vxlan"
                                                           : " / geneve";
  const auto id = field(inner, is_gre ? "value" : "vni", Bytes(key.id).subspan(is_gre ? 0 : 1),
                        Bytes(mask.id).subspan(is_gre ? 0 : 1), number);
  std::string text = name + id;
  for (const vnic_option& each : std::span(rule.more.options).first(rule.more.option_count)) {
    text += option(each);
  }
  return text + " / " + layers(inner);
}

/// The words of testpmd for an action, and how its argument is written.
struct ActionWords {
  const char* name;
  enum { kNothing, kPort, kValue, kHexadecimal, kMac, kIpv4, kIpv6, kHeader } argument;
};
constexpr ActionWords kWords[] = {
    {"port_id id", ActionWords::kPort},
    {"drop", ActionWords::kNothing},
    {"mark id", ActionWords::kValue},
    {"jump group", ActionWords::kValue},
    {"set_mac_dst mac_addr", ActionWords::kMac},
    {"set_mac_src mac_addr", ActionWords::kMac},
    {"set_ipv4_src ipv4_addr", ActionWords::kIpv4},
    {"set_ipv4_dst ipv4_addr", ActionWords::kIpv4},
    {"set_ipv6_src ipv6_addr", ActionWords::kIpv6},
    {"set_ipv6_dst ipv6_addr", ActionWords::kIpv6},
    {"set_ttl ttl_value", ActionWords::kValue},
    {"set_tp_src port", ActionWords::kValue},
    {"set_tp_dst port", ActionWords::kValue},
    {"of_push_vlan ethertype", ActionWords::kHexadecimal},
    {"of_pop_vlan", ActionWords::kNothing},
    {"of_set_vlan_vid vlan_vid", ActionWords::kValue},
    {"of_set_vlan_pcp vlan_pcp", ActionWords::kValue},
    {"raw_encap size", ActionWords::kValue},
    {"", ActionWords::kHeader},
    {"raw_decap size", ActionWords::kValue},
    {"meter mtr_id", ActionWords::kValue},
};
static_assert(std::size(kWords) == VNIC_ACTION_METER);

std::string text_of(const vnic_action& action) {
  const ActionWords& words = kWords[action.kind - 1];
  const Bytes bytes(action.bytes);
  switch (words.argument) {
    case ActionWords::kNothing:
    case ActionWords::kHeader:
      return words.name;
    case ActionWords::kPort:
      return fmt::format("{} {}", words.name, std::uint16_t{action.port});
    case ActionWords::kValue:
      return fmt::format("{} {}", words.name, std::uint32_t{action.value});
    case ActionWords::kHexadecimal:
      return fmt::format("{} {:#x}", words.name, std::uint32_t{action.value});
    case ActionWords::kMac:
      return fmt::format("{} {}", words.name, mac(bytes.first(6)));
    case ActionWords::kIpv4:
      return fmt::format("{} {}", words.name, address(bytes.first(4)));
    case ActionWords::kIpv6:
      return fmt::format("{} {}", words.name, address(bytes));
  }
  return "?";
}

}  // namespace

std::string text_of(const vnic_rule& rule) {
  const Layers own{rule.key, rule.mask, rule, false};
  std::string text = fmt::format(
      "flow create {} group {} priority {} {} pattern {}{} / end actions count",
      std::uint16_t{rule.port}, std::uint16_t{rule.group}, std::uint32_t{rule.priority},
      rule.domain == VNIC_DOMAIN_INGRESS ? "ingress" : "transfer", layers(own), tunnel(rule));
  for (const vnic_action& action : std::span(rule.actions).first(rule.action_count)) {
    if (action.kind == VNIC_ACTION_DECAPSULATE && action.value == 0) {
      text += " / vxlan_decap";
    } else if (action.kind != VNIC_ACTION_HEADER) {
      text += " / " + text_of(action);
    }
  }
  return text + " / end";
}

}  // namespace verbatim::offload
