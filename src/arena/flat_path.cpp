#include "arena/flat_path.h"

#include <algorithm>
#include <cerrno>
#include <span>

#include "base/bytes.h"
#include "base/overloaded.h"

namespace verbatim::arena {
namespace {

// Of the name of an InfiniBand peer.
constexpr std::size_t kSourceAt = 10;
constexpr std::size_t kDestinationAt = 12;
constexpr std::size_t kPKeyAt = 14;
constexpr std::uint8_t kFullMember = 0x80;  // Of a P_Key's first byte (IBA 10.9.1.1).

void set_address(FlatPath& record, const SocketAddress& address) {
  record.destination = gid_of(address);
  record.scope_id = address.scope_id();
  record.port = address.port();
}

SocketAddress address_of(const FlatPath& record) {
  const auto& b = record.destination.bytes;
  if (!record.destination.is_ipv4_mapped()) {
    return SocketAddress::ipv6(b, record.port, record.scope_id);
  }
  return SocketAddress::ipv4({b[12], b[13], b[14], b[15]}, record.port);
}

void set_route(FlatPath& record, const GlobalRoute& grh) {
  record.flow_label = grh.flow_label;
  record.traffic_class = grh.traffic_class;
  record.hop_limit = grh.hop_limit;
}

GlobalRoute route_of(const FlatPath& record) {
  return {.destination = record.destination,
          .flow_label = record.flow_label,
          .traffic_class = record.traffic_class,
          .hop_limit = record.hop_limit};
}

InfinibandPath infiniband_path_of(const FlatPath& record) {
  InfinibandPath path{.dlid = Lid{record.dlid},
                      .slid = Lid{record.slid},
                      .service_level = record.service_level,
                      .static_rate = record.static_rate,
                      .port = static_cast<std::uint8_t>(record.port),
                      .grh = std::nullopt};
  if (record.has_grh != 0) path.grh = route_of(record);
  return path;
}

}  // namespace

PathKind kind_of(const Path& path) {
  return std::visit(Overloaded{[](const RoceV1Path&) { return PathKind::roce_v1; },
                               [](const RoceV2Path&) { return PathKind::roce_v2; },
                               [](const InfinibandPath&) { return PathKind::infiniband; },
                               [](const StreamPath&) { return PathKind::stream; }},
                    path);
}

PeerName infiniband_name(Lid source, Lid destination, PKey pkey) {
  PeerName name{.kind = PathKind::infiniband};
  auto* const bytes = reinterpret_cast<std::byte*>(name.name.bytes.data());
  store_be(bytes + kSourceAt, raw(source));
  store_be(bytes + kDestinationAt, raw(destination));
  store_be(bytes + kPKeyAt, raw(pkey));
  return name;
}

PeerName as_full_member(const PeerName& name) {
  PeerName full = name;
  full.name.bytes[kPKeyAt] |= kFullMember;
  return full;
}

bool have_same_lids(const PeerName& one, const PeerName& other) {
  const auto lids = [](const PeerName& name) {
    return std::span(name.name.bytes).subspan<kSourceAt, kPKeyAt - kSourceAt>();
  };
  return one.kind == PathKind::infiniband && other.kind == PathKind::infiniband &&
         std::ranges::equal(lids(one), lids(other));
}

FlatPath flat_path_of(const Path& path) {
  FlatPath record{.kind = kind_of(path)};
  std::visit(Overloaded{[&](const InfinibandPath& infiniband) {
                          record.dlid = static_cast<std::uint16_t>(infiniband.dlid);
                          record.slid = static_cast<std::uint16_t>(infiniband.slid);
                          record.service_level = infiniband.service_level;
                          record.static_rate = infiniband.static_rate;
                          record.port = infiniband.port;
                          if (!infiniband.grh) return;
                          record.has_grh = 1;
                          record.destination = infiniband.grh->destination;
                          set_route(record, *infiniband.grh);
                        },
                        [&](const StreamPath& stream) { set_address(record, stream.destination); },
                        [&](const auto& roce) {
                          set_address(record, roce.destination);
                          set_route(record, roce.grh);
                          record.has_grh = 1;
                        }},
             path);
  return record;
}

Result<Path> path_of(const FlatPath& record) {
  if (record.kind == PathKind::infiniband) return infiniband_path_of(record);
  if (record.destination.is_zero()) return refuse(EINVAL, "the record holds no destination");
  const SocketAddress address = address_of(record);
  switch (record.kind) {
    case PathKind::roce_v1:
      return RoceV1Path{address, route_of(record)};
    case PathKind::roce_v2:
      return RoceV2Path{address, route_of(record)};
    case PathKind::stream:
      return StreamPath{address};
    default:
      return refuse(EINVAL, "the record holds no path");
  }
}

}  // namespace verbatim::arena
