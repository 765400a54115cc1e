#include "offload/card/rule_text.h"

#include <algorithm>
#include <span>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include "base/types.h"
#include "offload/switch/switch.h"

namespace verbatim::offload {
namespace {

using Bytes = std::span<const std::uint8_t>;

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

/// " NAME is VALUE", or " NAME spec VALUE NAME mask MASK"; nothing if the mask is zero.
template <typename Write>
std::string field(const char* name, Bytes value, Bytes mask, Write write) {
  const auto is = [&](std::uint8_t byte) {
    return std::ranges::all_of(mask, [&](std::uint8_t each) { return each == byte; });
  };
  if (is(0)) return {};
  if (is(0xff)) return fmt::format(" {} is {}", name, write(value));
  return fmt::format(" {0} spec {1} {0} mask {2}", name, write(value), write(mask));
}
Bytes one(const std::uint8_t& byte) { return {&byte, 1}; }

std::string layer_two(const Key& key, const Key& mask) {
  const bool is_tagged = (key.vlan_tag[0] & kTagPresent) != 0;
  std::string text = "eth" + field("dst", key.destination_mac, mask.destination_mac, mac) +
                     field("src", key.source_mac, mask.source_mac, mac);
  if ((mask.vlan_tag[0] & kTagPresent) != 0) text += fmt::format(" has_vlan is {:d}", is_tagged);
  if (!is_tagged) return text + field("type", key.ether_type, mask.ether_type, number);
  std::array<std::uint8_t, 2> tag = key.vlan_tag;
  std::array<std::uint8_t, 2> tag_mask = mask.vlan_tag;
  tag[0] &= static_cast<std::uint8_t>(~kTagPresent);
  tag_mask[0] &= static_cast<std::uint8_t>(~kTagPresent);
  return text + field("type", key.vlan_protocol, mask.vlan_protocol, number) + " / vlan" +
         field("tci", tag, tag_mask, number) +
         field("inner_type", key.ether_type, mask.ether_type, number);
}

std::string layer_three(const Key& key, const Key& mask) {
  const bool is_ipv4 = key.ether_type == std::array<std::uint8_t, 2>{0x08, 0x00};
  const bool is_ipv6 = key.ether_type == std::array<std::uint8_t, 2>{0x86, 0xdd};
  if (!is_ipv4 && !is_ipv6) return {};
  const std::size_t size = is_ipv4 ? 4 : 16;
  const auto part = [&](const std::array<std::uint8_t, 16>& all) { return Bytes(all).first(size); };
  std::string text = is_ipv4 ? " / ipv4" : " / ipv6";
  text += field("src", part(key.source_ip), part(mask.source_ip), address) +
          field("dst", part(key.destination_ip), part(mask.destination_ip), address) +
          field("proto", one(key.protocol), one(mask.protocol), number) +
          field(is_ipv4 ? "tos" : "tc", one(key.traffic_class), one(mask.traffic_class), number) +
          field(is_ipv4 ? "ttl" : "hop", one(key.hop_limit), one(mask.hop_limit), number);
  if (mask.fragment != 0) text += fmt::format(" fragment {}/{}", key.fragment, mask.fragment);
  return text;
}

std::string layer_four(const Key& key, const Key& mask) {
  const char* const name = key.protocol == IPPROTO_TCP    ? "tcp"
                           : key.protocol == IPPROTO_UDP  ? "udp"
                           : key.protocol == IPPROTO_SCTP ? "sctp"
                           : key.protocol == IPPROTO_ICMP ? "icmp"
                                                          : nullptr;
  if (name == nullptr || mask.protocol != 0xff) return {};
  const bool is_icmp = key.protocol == IPPROTO_ICMP;
  const auto skip = [&](const std::array<std::uint8_t, 2>& all) {
    return Bytes(all).subspan(is_icmp ? 1 : 0);
  };
  return fmt::format(" / {}", name) +
         field(is_icmp ? "type" : "src", skip(key.source_port), skip(mask.source_port), number) +
         field(is_icmp ? "code" : "dst", skip(key.destination_port), skip(mask.destination_port),
               number) +
         field("flags", key.tcp_flags, mask.tcp_flags, number);
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
};
static_assert(std::size(kWords) == raw(kLastAction) + 1);

std::string text_of(const Action& action) {
  const ActionWords& words = kWords[raw(action.kind)];
  const Bytes bytes(action.bytes);
  switch (words.argument) {
    case ActionWords::kNothing:
    case ActionWords::kHeader:
      return words.name;
    case ActionWords::kPort:
      return fmt::format("{} {}", words.name, action.port);
    case ActionWords::kValue:
      return fmt::format("{} {}", words.name, action.value);
    case ActionWords::kHexadecimal:
      return fmt::format("{} {:#x}", words.name, action.value);
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

std::string text_of(const StoredRule& rule) {
  const Key& mask = rule.tuple->mask();
  const bool is_ingress = rule.key.group >= Switch::kIngressGroup;
  std::string text = fmt::format(
      "flow create {} group {} priority {} {} pattern {}{}{} / end actions count", rule.key.port,
      rule.key.group % Switch::kIngressGroup, rule.priority, is_ingress ? "ingress" : "transfer",
      layer_two(rule.key, mask), layer_three(rule.key, mask), layer_four(rule.key, mask));
  for (const Action& action : rule.actions) {
    if (action.kind != ActionKind::kHeader) text += " / " + text_of(action);
  }
  return text + " / end";
}

}  // namespace verbatim::offload
