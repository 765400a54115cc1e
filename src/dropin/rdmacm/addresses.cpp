#include "dropin/rdmacm/addresses.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <infiniband/ib.h>

#include "connect/addresses.h"
#include "dropin/rdmacm/calls.h"

namespace verbatim::rdmacm {

socklen_t length_of(const sockaddr* address) {
  if (address == nullptr) return 0;
  switch (address->sa_family) {
    case AF_INET:
      return sizeof(sockaddr_in);
    case AF_INET6:
      return sizeof(sockaddr_in6);
    case AF_IB:
      return sizeof(sockaddr_ib);
    default:
      return 0;
  }
}

Result<Name> name_from(const sockaddr* address) {
  const socklen_t length = length_of(address);
  if (length == 0) return refuse(EINVAL, "an address that is neither AF_INET, AF_INET6 nor AF_IB");
  if (address->sa_family != AF_IB) {
    auto ip = SocketAddress::from(address, length);
    if (!ip) return std::unexpected(ip.error());
    return Name{.address = *ip};
  }
  sockaddr_ib ib;
  std::memcpy(&ib, address, sizeof ib);
  Gid gid;
  std::copy_n(ib.sib_addr.sib_raw, gid.bytes.size(), gid.bytes.begin());
  const std::uint64_t service = be64toh(ib.sib_sid);
  const auto port = static_cast<std::uint16_t>(service & RDMA_IB_IP_PORT_MASK);
  Name name{.is_af_ib = true,
            .gid = gid,
            .service = static_cast<connect::ServiceId>(service),
            .service_mask = be64toh(ib.sib_sid_mask),
            .pkey = PKey{be16toh(ib.sib_pkey)}};
  if (gid.is_ipv4_mapped()) {
    const auto& b = gid.bytes;
    name.address = SocketAddress::ipv4({b[12], b[13], b[14], b[15]}, port);
  } else {
    name.address =
        SocketAddress::ipv6(gid.bytes, port, static_cast<std::uint32_t>(ib.sib_scope_id));
  }
  return name;
}

/// As Linux's cma_select_ib_ps(), which has no other services than ports.
Result<NamedService> service_to_bind(const Name& name, rdma_port_space space) {
  const std::uint64_t service = raw(name.service);
  const std::uint64_t mask = name.service_mask;
  for (const auto own : {RDMA_PS_IB, RDMA_PS_TCP, RDMA_PS_UDP}) {
    if (space != own && space != RDMA_PS_IB) continue;
    const std::uint64_t differs = service ^ static_cast<std::uint64_t>(own) << 16;
    if ((differs & mask & RDMA_IB_IP_PS_MASK) != 0) continue;
    return NamedService{.port_space = static_cast<connect::PortSpace>(own),
                        .port = static_cast<std::uint16_t>(service & mask & RDMA_IB_IP_PORT_MASK),
                        .services = {}};
  }
  if (space != RDMA_PS_IB || manager().connections().uses_streams()) {
    return refuse(EPROTONOSUPPORT,
                  fmt::format("service {:#x} is no port of the id's port space: RDMA_PS_IB takes "
                              "any service, except over iWARP",
                              service));
  }
  return NamedService{.port_space = connect::PortSpace::ib,
                      .port = 0,
                      .services = connect::ServiceRange::of(name.service, mask)};
}

namespace {

/// The partition of the id: that of its port's first P_Key unless the program or the path says
/// another.
std::uint16_t pkey_of(const Id& id) {
  return raw(id.pkey != PKey{} ? id.pkey : manager().first_pkey());
}

/// Writes `address` in the id's address family. AF_IB has `services`, and over InfiniBand `gid`
/// instead of the address.
void store(const SocketAddress& address, const Gid& gid, const connect::ServiceRange& services,
           const Id& id, sockaddr_storage& to) {
  to = {};
  if (address.empty()) return;
  if (!id.is_af_ib) {
    std::memcpy(&to, address.data(), address.size());
    return;
  }
  sockaddr_ib ib{};
  ib.sib_family = AF_IB;
  ib.sib_pkey = htobe16(pkey_of(id));
  if (!connect::is_wildcard(address)) {
    const Gid& named = manager().is_infiniband() ? gid : gid_of(address);
    std::ranges::copy(named.bytes, ib.sib_addr.sib_raw);
  }
  ib.sib_sid = htobe64(services.id);
  ib.sib_sid_mask = htobe64(services.mask);
  std::memcpy(&to, &ib, sizeof ib);
}

/// A path through a router needs a GRH.
std::optional<GlobalRoute> grh_of(const ibv_sa_path_rec& record) {
  if (!may_leave_subnet(record.hop_limit)) return std::nullopt;
  return GlobalRoute{.source = to_gid(record.sgid),
                     .destination = to_gid(record.dgid),
                     .flow_label = be32toh(record.flow_label),
                     .traffic_class = record.traffic_class,
                     .hop_limit = record.hop_limit};
}

}  // namespace

void show_addresses(Id& id) {
  rdma_addr& address = id.verbs.route.addr;
  const connect::Path& path = id.connection.plan.path;
  store(id.local, path.local_gid, id.own_services, id, address.src_storage);
  store(id.remote, path.remote_gid, connect::ServiceRange::of(id.service), id, address.dst_storage);
  if (!id.verbs.verbs) return;
  id.verbs.port_num = id.connection.plan.port;
  address.addr.ibaddr.sgid = to_verbs(path.local_gid);
  address.addr.ibaddr.dgid = to_verbs(path.remote_gid);
  address.addr.ibaddr.pkey = htobe16(pkey_of(id));
}

void take_path(Id& id, const ibv_sa_path_rec& record) {
  id.packet_life_time = record.packet_life_time;
  connect::Path& path = id.connection.plan.path;
  path.remote = InfinibandPath{.dlid = Lid{be16toh(record.dlid)},
                               .slid = Lid{be16toh(record.slid)},
                               .service_level = record.sl,
                               .static_rate = record.rate,
                               .port = id.connection.plan.port,
                               .grh = grh_of(record)};
  path.pkey = id.pkey = PKey{be16toh(record.pkey)};
  path.mtu = static_cast<Mtu>(record.mtu);
  path.packet_rate = record.rate;
  path.service_level = record.sl;
  path.traffic_class = record.traffic_class;
  path.flow_label = be32toh(record.flow_label);
  path.hop_limit = record.hop_limit;
}

std::uint8_t own_ack_delay(const Id& id) {
  ibv_device_attr has{};
  if (id.verbs.verbs == nullptr || ibv_query_device(id.verbs.verbs, &has) != 0) return 0;
  return has.local_ca_ack_delay;
}

Result<void> show_path(Id& id) {
  auto* const record = static_cast<ibv_sa_path_rec*>(std::calloc(1, sizeof(ibv_sa_path_rec)));
  if (record == nullptr) return refuse(ENOMEM, "no memory for a path record");
  const connect::Path& path = id.connection.plan.path;
  constexpr std::uint8_t kExactly = 2;
  record->sgid = to_verbs(path.local_gid);
  record->dgid = to_verbs(path.remote_gid);
  if (const auto* const lids = std::get_if<InfinibandPath>(&path.remote)) {
    record->dlid = htobe16(raw(lids->dlid));
    record->slid = htobe16(raw(lids->slid));
  }
  record->flow_label = htobe32(path.flow_label);
  record->hop_limit = path.hop_limit;
  record->traffic_class = path.traffic_class;
  record->reversible = 1;
  record->numb_path = 1;
  record->pkey = htobe16(raw(path.pkey));
  record->sl = path.service_level;
  record->mtu_selector = kExactly;
  record->mtu = raw(path.mtu);
  record->rate_selector = kExactly;
  record->rate = path.packet_rate;
  record->packet_life_time_selector = kExactly;
  record->packet_life_time = id.packet_life_time;
  std::free(id.verbs.route.path_rec);
  id.verbs.route.path_rec = record;
  id.verbs.route.num_paths = 1;
  return {};
}

}  // namespace verbatim::rdmacm
