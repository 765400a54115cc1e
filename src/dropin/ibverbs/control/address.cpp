#include "base/net/address.h"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/bytes.h"
#include "dropin/ibverbs/control/link_local.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/refusal.h"

/// Address handles, and multicast groups.
namespace verbatim::dropin {

/// Without `is_global` the fields of `grh` have no meaning (ibv_create_ah(3)).
port::AddressVector to_address_vector(const ibv_ah_attr& attributes) {
  port::AddressVector vector{.dlid = Lid{attributes.dlid},
                             .service_level = attributes.sl,
                             .path_bits = attributes.src_path_bits,
                             .static_rate = attributes.static_rate,
                             .port = attributes.port_num,
                             .is_global = attributes.is_global != 0};
  if (!vector.is_global) return vector;
  vector.dest_gid = to_gid(attributes.grh.dgid);
  vector.source_gid_index = attributes.grh.sgid_index;
  vector.hop_limit = attributes.grh.hop_limit;
  vector.traffic_class = attributes.grh.traffic_class;
  vector.flow_label = attributes.grh.flow_label;
  return vector;
}

namespace {

/// "Next header" of a GRH before a BTH: RoCE v1 (IBA 8.3.6).
constexpr std::uint8_t kNextIba = 0x1b;

/// Addresses in the 40 bytes before a received datagram.
struct Received {
  Gid source;
  Gid destination;
  RoceVersion version = RoceVersion::v2;
  std::uint32_t flow_label = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
};

/// Parses a GRH, or twenty unused bytes and an IPv4 header (IBA A17.4.5.2).
Result<Received> parse(const ibv_grh& grh) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&grh);
  const auto at = [bytes](int i) { return std::to_integer<std::uint8_t>(bytes[i]); };
  Received out;
  if (at(0) >> 4 == 6) {
    const auto first = load_be<std::uint32_t>(bytes);
    out.traffic_class = static_cast<std::uint8_t>(first >> 20);
    out.flow_label = first & 0xfffff;
    if (grh.next_hdr == kNextIba) out.version = RoceVersion::v1;
    out.hop_limit = grh.hop_limit;
    out.source = to_gid(grh.sgid);
    out.destination = to_gid(grh.dgid);
    return out;
  }
  constexpr int kIpv4 = 20;
  if (at(kIpv4) >> 4 == 4) {
    const auto address = [&at](int from) {
      return gid_of(SocketAddress::ipv4({at(from), at(from + 1), at(from + 2), at(from + 3)}));
    };
    out.traffic_class = at(kIpv4 + 1);
    out.hop_limit = at(kIpv4 + 8);
    out.source = address(kIpv4 + 12);
    out.destination = address(kIpv4 + 16);
    return out;
  }
  return refuse(EINVAL, "the bytes are neither a GRH nor an IPv4 header");
}

/// Returns the GID index from which to answer. A datagram to a group does not name one.
std::optional<std::uint8_t> answering_index(const port::Port& port, const Received& received) {
  if (!received.destination.is_multicast()) {
    return gid_index_of(port, received.destination, received.version);
  }
  const auto gids = port.gids();
  for (std::size_t i = 0; i < gids.size(); ++i) {
    const Gid own = port.gid(i);
    const bool same_kind = roce_version(gids[i].address) == received.version &&
                           own.is_ipv4_mapped() == received.source.is_ipv4_mapped() &&
                           own.is_link_local() == received.source.is_link_local();
    if (same_kind) return static_cast<std::uint8_t>(i);
  }
  return std::nullopt;
}

Result<ibv_ah_attr> attributes_of(ibv_context* context, std::uint8_t port, const ibv_wc& completion,
                                  const ibv_grh* grh) {
  const port::Ports& ports = from(context).adapter().ports();
  if (auto exists = ports.check(port); !exists) return std::unexpected(exists.error());
  ibv_ah_attr attributes{};
  attributes.dlid = completion.slid;
  attributes.sl = completion.sl;
  attributes.src_path_bits = completion.dlid_path_bits;
  attributes.port_num = port;
  if ((completion.wc_flags & IBV_WC_GRH) == 0) return attributes;
  const auto received = parse(*grh);
  if (!received) return std::unexpected(received.error());
  const auto index = answering_index(ports.at(port), *received);
  if (!index) {
    return refuse(ENOENT,
                  fmt::format("{} is no GID of this node", gid_text(received->destination)));
  }
  attributes.is_global = 1;
  attributes.grh = {.dgid = to_verbs(received->source),
                    .flow_label = received->flow_label,
                    .sgid_index = *index,
                    .hop_limit = received->hop_limit,
                    .traffic_class = received->traffic_class};
  return attributes;
}

/// Returns the Ethernet address that can be computed from a GID: groups (RFC 1112, RFC 2464),
/// link-local ones (EUI-64).
std::optional<MacAddress> mac_of(const Gid& gid) {
  const auto& b = gid.bytes;
  if (gid.is_multicast() && gid.is_ipv4_mapped()) {
    return MacAddress{0x01, 0x00, 0x5e, static_cast<std::uint8_t>(b[13] & 0x7f), b[14], b[15]};
  }
  if (gid.is_multicast()) return MacAddress{0x33, 0x33, b[12], b[13], b[14], b[15]};
  if (gid.is_link_local() && b[11] == 0xff && b[12] == 0xfe) {
    return MacAddress{static_cast<std::uint8_t>(b[8] ^ 2), b[9], b[10], b[13], b[14], b[15]};
  }
  return std::nullopt;
}

}  // namespace
}  // namespace verbatim::dropin

using namespace verbatim;
using namespace verbatim::dropin;

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  const Context& context = from(pd->context);
  auto share = context.usage().take(Resource::address_handle);
  if (!share) return refused_null("create_ah", share.error());
  auto destination =
      context.adapter().resolve(by_common_family(context.adapter(), to_address_vector(*attr)));
  if (!destination) return refused_null("create_ah", destination.error());
  auto* handle = new AddressHandle{.verbs = {.context = pd->context, .pd = pd, .handle = 0},
                                   .destination = *destination,
                                   .domain = Use(&from(pd)),
                                   .share = std::move(*share)};
  return &handle->verbs;
}

int ibv_destroy_ah(ibv_ah* ah) {
  delete &from(ah);
  return 0;
}

int ibv_init_ah_from_wc(ibv_context* context, std::uint8_t port_num, ibv_wc* wc, ibv_grh* grh,
                        ibv_ah_attr* ah_attr) {
  const auto attributes = attributes_of(context, port_num, *wc, grh);
  if (!attributes) return refused_minus_one("init_ah_from_wc", attributes.error());
  *ah_attr = *attributes;
  return 0;
}

ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port_num) {
  ibv_ah_attr attributes;
  if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attributes) != 0) return nullptr;
  return ibv_create_ah(pd, &attributes);
}

int ibv_resolve_eth_l2_from_gid(ibv_context*, ibv_ah_attr* attr,
                                std::uint8_t eth_mac[ETHERNET_LL_SIZE], std::uint16_t* vid) {
  const Gid gid = to_gid(attr->grh.dgid);
  const auto mac = mac_of(gid);
  if (!mac) {
    return refused(
        "resolve_eth_l2_from_gid",
        {EOPNOTSUPP, fmt::format("the neighbour table is not asked for {}", gid_text(gid))});
  }
  std::copy(mac->begin(), mac->end(), eth_mac);
  constexpr std::uint16_t kNoVlan = 0xffff;
  *vid = kNoVlan;
  return 0;
}

int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  const auto done =
      from(qp->context)
          .adapter()
          .attach_multicast(*from(qp).queue_pair, {.gid = to_gid(*gid), .lid = Lid{lid}});
  return done ? 0 : refused("attach_mcast", done.error());
}

int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  const auto done =
      from(qp->context)
          .adapter()
          .detach_multicast(*from(qp).queue_pair, {.gid = to_gid(*gid), .lid = Lid{lid}});
  return done ? 0 : refused("detach_mcast", done.error());
}
