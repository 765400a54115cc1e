#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "dropin/ibverbs/calls.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/refusal.h"

/// Flow rules: converts `struct ibv_flow_attr` and the specifications after it.
namespace verbatim::dropin {
namespace {

using adapter::FlowMatch;
using adapter::FlowRule;
using adapter::FlowType;
using wire::FrameFields;
static_assert(int{raw(FlowType::all_default)} == IBV_FLOW_ATTR_ALL_DEFAULT);
static_assert(int{raw(FlowType::multicast_default)} == IBV_FLOW_ATTR_MC_DEFAULT);
static_assert(int{raw(FlowType::sniffer)} == IBV_FLOW_ATTR_SNIFFER);
static_assert(wire::kIpv4DontFragment == 2 && wire::kIpv4MoreFragments == 4);

/// A field of a filter structure, and its position in our fields.
struct Field {
  std::size_t from = 0;
  std::size_t to = 0;
  std::size_t bytes = 0;  // 0: end of the list.
};
constexpr std::size_t kFieldsMax = 7;

struct Specification {
  int type = 0;
  std::uint16_t size = 0;
  std::size_t value_at = 0;
  std::size_t mask_at = 0;
  std::uint16_t layers = 0;  // Layers that the field requires.
  const char* name = "";
  std::array<Field, kFieldsMax> fields{};
};

#define VERBATIM_FIELD(filter, theirs, ours) \
  Field { offsetof(filter, theirs), offsetof(FrameFields, ours), sizeof(filter::theirs) }
#define VERBATIM_SPECIFICATION(type, structure, layers, ...)                                      \
  Specification {                                                                                 \
    IBV_FLOW_SPEC_##type, sizeof(structure), offsetof(structure, val), offsetof(structure, mask), \
        layers, #type, {                                                                          \
      {                                                                                           \
        __VA_ARGS__                                                                               \
      }                                                                                           \
    }                                                                                             \
  }

constexpr auto kSpecifications = std::to_array<Specification>({
    VERBATIM_SPECIFICATION(ETH, ibv_flow_spec_eth, wire::kLayerEthernet,
                           VERBATIM_FIELD(ibv_flow_eth_filter, dst_mac, destination_mac),
                           VERBATIM_FIELD(ibv_flow_eth_filter, src_mac, source_mac),
                           VERBATIM_FIELD(ibv_flow_eth_filter, ether_type, ether_type),
                           VERBATIM_FIELD(ibv_flow_eth_filter, vlan_tag, vlan_tag)),
    VERBATIM_SPECIFICATION(IPV4, ibv_flow_spec_ipv4, wire::kLayerIpv4,
                           VERBATIM_FIELD(ibv_flow_ipv4_filter, src_ip, source_ip),
                           VERBATIM_FIELD(ibv_flow_ipv4_filter, dst_ip, destination_ip)),
    VERBATIM_SPECIFICATION(IPV4_EXT, ibv_flow_spec_ipv4_ext, wire::kLayerIpv4,
                           VERBATIM_FIELD(ibv_flow_ipv4_ext_filter, src_ip, source_ip),
                           VERBATIM_FIELD(ibv_flow_ipv4_ext_filter, dst_ip, destination_ip),
                           VERBATIM_FIELD(ibv_flow_ipv4_ext_filter, proto, protocol),
                           VERBATIM_FIELD(ibv_flow_ipv4_ext_filter, tos, traffic_class),
                           VERBATIM_FIELD(ibv_flow_ipv4_ext_filter, ttl, hop_limit),
                           VERBATIM_FIELD(ibv_flow_ipv4_ext_filter, flags, ip_flags)),
    VERBATIM_SPECIFICATION(IPV6, ibv_flow_spec_ipv6, wire::kLayerIpv6,
                           VERBATIM_FIELD(ibv_flow_ipv6_filter, src_ip, source_ip),
                           VERBATIM_FIELD(ibv_flow_ipv6_filter, dst_ip, destination_ip),
                           VERBATIM_FIELD(ibv_flow_ipv6_filter, flow_label, flow_label),
                           VERBATIM_FIELD(ibv_flow_ipv6_filter, next_hdr, protocol),
                           VERBATIM_FIELD(ibv_flow_ipv6_filter, traffic_class, traffic_class),
                           VERBATIM_FIELD(ibv_flow_ipv6_filter, hop_limit, hop_limit)),
    VERBATIM_SPECIFICATION(ESP, ibv_flow_spec_esp, wire::kLayerEsp,
                           VERBATIM_FIELD(ibv_flow_esp_filter, spi, spi),
                           VERBATIM_FIELD(ibv_flow_esp_filter, seq, sequence)),
    VERBATIM_SPECIFICATION(TCP, ibv_flow_spec_tcp_udp, wire::kLayerTcp,
                           VERBATIM_FIELD(ibv_flow_tcp_udp_filter, dst_port, destination_port),
                           VERBATIM_FIELD(ibv_flow_tcp_udp_filter, src_port, source_port)),
    VERBATIM_SPECIFICATION(UDP, ibv_flow_spec_tcp_udp, wire::kLayerUdp,
                           VERBATIM_FIELD(ibv_flow_tcp_udp_filter, dst_port, destination_port),
                           VERBATIM_FIELD(ibv_flow_tcp_udp_filter, src_port, source_port)),
    VERBATIM_SPECIFICATION(VXLAN_TUNNEL, ibv_flow_spec_tunnel, wire::kLayerVxlan,
                           VERBATIM_FIELD(ibv_flow_tunnel_filter, tunnel_id, tunnel_id)),
    VERBATIM_SPECIFICATION(GRE, ibv_flow_spec_gre, wire::kLayerGre,
                           VERBATIM_FIELD(ibv_flow_gre_filter, c_ks_res0_ver, gre_flags),
                           VERBATIM_FIELD(ibv_flow_gre_filter, protocol, gre_protocol),
                           VERBATIM_FIELD(ibv_flow_gre_filter, key, gre_key)),
    VERBATIM_SPECIFICATION(MPLS, ibv_flow_spec_mpls, wire::kLayerMpls,
                           VERBATIM_FIELD(ibv_flow_mpls_filter, label, mpls_label)),
});

#undef VERBATIM_SPECIFICATION
#undef VERBATIM_FIELD

/// A packet has at most one layer of each of these sets: a rule that requires two never matches.
constexpr std::uint16_t kExclusive[] = {
    wire::kLayerIpv4 | wire::kLayerIpv6,
    wire::kLayerTcp | wire::kLayerUdp | wire::kLayerEsp | wire::kLayerGre,
};

Result<void> add_match(const ibv_flow_spec& theirs, const Specification& known, FlowMatch& match) {
  if ((match.layers & known.layers) != 0) {
    return refuse(EINVAL, fmt::format("there are two specifications of layer {}", known.name));
  }
  match.layers |= known.layers;
  for (const std::uint16_t exclusive : kExclusive) {
    if (std::popcount(static_cast<unsigned>(match.layers & exclusive)) > 1) {
      return refuse(EINVAL,
                    fmt::format("no packet has {} beside a layer asked for before it", known.name));
    }
  }
  const auto copy = [&](std::size_t at, const Field& field, FrameFields& to) {
    std::memcpy(reinterpret_cast<std::byte*>(&to) + field.to,
                reinterpret_cast<const std::byte*>(&theirs) + at + field.from, field.bytes);
  };
  for (const Field& field : known.fields) {
    if (field.bytes == 0) break;
    copy(known.value_at, field, match.value);
    copy(known.mask_at, field, match.mask);
  }
  if (match.mask.vlan_tag != std::array<std::uint8_t, 2>{}) match.layers |= wire::kLayerVlan;
  return {};
}

Result<void> add_action(const ibv_flow_spec& theirs, FlowRule& rule) {
  switch (theirs.hdr.type) {
    case IBV_FLOW_SPEC_ACTION_TAG:
      if (theirs.hdr.size != sizeof theirs.flow_tag) break;
      rule.tag = theirs.flow_tag.tag_id;
      return {};
    case IBV_FLOW_SPEC_ACTION_DROP:
      if (theirs.hdr.size != sizeof theirs.drop) break;
      rule.drop = true;
      return {};
    case IBV_FLOW_SPEC_ACTION_COUNT: {
      const ibv_flow_spec_counter_action& action = theirs.flow_count;
      if (theirs.hdr.size != sizeof action) break;
      if (action.counters == nullptr) return refuse(EINVAL, "ACTION_COUNT names no counters");
      if (rule.counter != nullptr) return refuse(EINVAL, "there are two actions of type COUNT");
      rule.counter = from(action.counters).counter;
      return {};
    }
    case IBV_FLOW_SPEC_ACTION_HANDLE:
      return refuse(EOPNOTSUPP, "ACTION_HANDLE: the adapter has no IPsec, so no flow action");
    default:
      return refuse(EOPNOTSUPP, fmt::format("flow specification type {:#x} is not served",
                                            static_cast<unsigned>(theirs.hdr.type)));
  }
  return refuse(EINVAL, fmt::format("an action of type {:#x} does not have {} bytes",
                                    static_cast<unsigned>(theirs.hdr.type), theirs.hdr.size));
}

Result<void> add(const ibv_flow_spec& theirs, FlowRule& rule) {
  const int type = theirs.hdr.type & ~IBV_FLOW_SPEC_INNER;
  const auto* const known = std::ranges::find(kSpecifications, type, &Specification::type);
  if (known == kSpecifications.end()) return add_action(theirs, rule);
  if (theirs.hdr.size != known->size) {
    return refuse(EINVAL, fmt::format("a specification of {} has {} bytes, not {}", known->name,
                                      known->size, theirs.hdr.size));
  }
  const bool inner = (theirs.hdr.type & IBV_FLOW_SPEC_INNER) != 0;
  return add_match(theirs, *known, inner ? rule.inner : rule.outer);
}

Result<void> check(const port::Ports& ports, const ibv_flow_attr& theirs) {
  constexpr std::uint32_t kKnownFlags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP | IBV_FLOW_ATTR_FLAGS_EGRESS;
  if (theirs.comp_mask != 0) {
    return refuse(EINVAL, fmt::format("comp_mask {:#x} is unknown", theirs.comp_mask));
  }
  if (auto exists = ports.check(theirs.port); !exists) return exists;
  if (theirs.type > IBV_FLOW_ATTR_SNIFFER) {
    return refuse(EINVAL, fmt::format("type {} is unknown", static_cast<int>(theirs.type)));
  }
  if ((theirs.flags & ~kKnownFlags) != 0) {
    return refuse(EINVAL, fmt::format("flags {:#x} are unknown", theirs.flags & ~kKnownFlags));
  }
  if ((theirs.flags & IBV_FLOW_ATTR_FLAGS_EGRESS) != 0) {
    return refuse(EOPNOTSUPP, "rules for sent frames (EGRESS) are not served");
  }
  if (theirs.type == IBV_FLOW_ATTR_NORMAL) return {};
  if ((theirs.flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP) != 0) {
    return refuse(EINVAL, "only normal rules have DONT_TRAP");
  }
  if (theirs.num_of_specs != 0) {
    return refuse(EINVAL, "default and sniffer rules have no specifications");
  }
  return {};
}

Result<FlowRule> to_rule(const port::Ports& ports, const ibv_flow_attr& theirs) {
  if (auto valid = check(ports, theirs); !valid) return std::unexpected(valid.error());
  FlowRule rule{.type = static_cast<FlowType>(theirs.type),
                .priority = theirs.priority,
                .trap = (theirs.flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP) == 0};
  // As in the kernel's library: each specification contains its size.
  const auto* at = reinterpret_cast<const std::byte*>(&theirs + 1);
  for (int i = 0; i < theirs.num_of_specs; ++i) {
    // Copied, because programs place them one after the other, at any alignment.
    ibv_flow_spec specification{};
    std::memcpy(&specification.hdr, at, sizeof specification.hdr);
    std::memcpy(&specification, at,
                std::min<std::size_t>(specification.hdr.size, sizeof specification));
    if (auto added = add(specification, rule); !added) return std::unexpected(added.error());
    at += specification.hdr.size;
  }
  return rule;
}

}  // namespace

ibv_flow* create_flow(ibv_qp* qp, ibv_flow_attr* attributes) {
  auto rule = to_rule(from(qp->context).adapter().ports(), *attributes);
  if (!rule) return refused_null("create_flow", rule.error());
  QueuePair& target = from(qp);
  const auto id = from(qp->context).adapter().create_flow(*target.queue_pair, std::move(*rule));
  if (!id) return refused_null("create_flow", id.error());
  ++target.flows;
  auto* flow = new Flow{
      .verbs = {.comp_mask = 0, .context = qp->context, .handle = static_cast<std::uint32_t>(*id)},
      .target = &target,
      .rule = *id};
  return &flow->verbs;
}

int destroy_flow(ibv_flow* flow) {
  Flow& own = from(flow);
  from(flow->context).adapter().destroy_flow(own.rule);
  --own.target->flows;
  delete &own;
  return 0;
}

}  // namespace verbatim::dropin
