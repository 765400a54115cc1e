#include "port/port.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/bytes.h"
#include "port/encapsulation_infiniband.h"

namespace verbatim::port {

void Port::add_gid(const GidEntry& entry, std::unique_ptr<link::Link> link) {
  add_gid(
      entry,
      attached_.emplace_back(std::make_unique<Attached>(std::move(link), decapsulation_))->links);
}

void Port::add_gid(const GidEntry& entry, link::Stack& links) {
  links_[gids_.size()] = &links;  // Before any caller can use its index.
  set_gid_prefix(
      load_be<std::uint64_t>(reinterpret_cast<const std::byte*>(entry.gid.bytes.data())));
  gids_.push_back(entry);
}

Gid Port::gid(std::size_t index) const {
  Gid gid = gids_[index].gid;
  if (is_infiniband()) {
    store_be(reinterpret_cast<std::byte*>(gid.bytes.data()),
             gid_prefix_.load(std::memory_order_relaxed));
  }
  return gid;
}

link::Stack* Port::links_of(const SocketAddress& address) const {
  const auto gids = this->gids();
  const auto found = std::ranges::find(gids, address, &GidEntry::address);
  return found == gids.end() ? nullptr : links_[found - gids.begin()];
}

std::vector<int> Port::descriptors() const {
  std::vector<int> all;
  for (const auto& link : attached_) {
    std::ranges::copy(link->links.top().descriptors(), std::back_inserter(all));
  }
  return all;
}

Result<const GidEntry*> Port::source_of(const AddressVector& vector) const {
  const auto gids = this->gids();
  if (vector.source_gid_index >= gids.size()) {
    return refuse(EINVAL, fmt::format("sgid_index {} does not exist: the GID table has {} entries",
                                      vector.source_gid_index, gids.size()));
  }
  const GidEntry& source = gids[vector.source_gid_index];
  if (!state().has_gid(vector.source_gid_index)) {
    return refuse(EINVAL, fmt::format("sgid_index {} is empty: no interface has the address {} now",
                                      vector.source_gid_index, source.address.ip_text()));
  }
  return &source;
}

bool Port::begin_sleep() {
  bool may_sleep = true;
  for (const auto& link : attached_) may_sleep &= link->links.top().begin_sleep();
  return may_sleep;
}

bool Port::asks_kernel() const {
  return std::ranges::any_of(attached_,
                             [](const auto& link) { return link->properties.asks_kernel; });
}

Result<Path> Port::infiniband_path(const AddressVector& vector) const {
  if (vector.dlid == Lid{} || vector.dlid == kPermissiveLid) {
    return refuse(EINVAL, fmt::format("dlid {:#x} leads to no port", raw(vector.dlid)));
  }
  if (is_multicast(vector.dlid) && !vector.is_global) {
    return refuse(EINVAL, fmt::format("multicast LID {:#x} without a GRH: is_global must be 1",
                                      raw(vector.dlid)));
  }
  if (vector.service_level > kServiceLevelMax) {
    return refuse(EINVAL, fmt::format("sl {} is above {}", vector.service_level, kServiceLevelMax));
  }
  InfinibandPath path{.dlid = vector.dlid,
                      .slid = lids().with(vector.path_bits),
                      .service_level = vector.service_level,
                      .static_rate = vector.static_rate,
                      .port = number_};
  if (!vector.is_global) return path;
  const auto source = source_of(vector);
  if (!source) return std::unexpected(source.error());
  path.grh = {.source = gid(vector.source_gid_index),
              .destination = vector.dest_gid,
              .flow_label = vector.flow_label,
              .traffic_class = vector.traffic_class,
              .hop_limit = vector.hop_limit};
  return path;
}

namespace {

/// Over UDP a hop limit of 0 or 1 is the default one: programs write 1 where they mean their own
/// subnet (ibv_rc_pingpong), and with a card Linux puts the route's in its place, so that routed
/// peers are reached.
Path roce_path(const AddressVector& vector, const SocketAddress& destination) {
  constexpr std::uint32_t kFlowLabelMask = 0xfffff;
  GlobalRoute grh{.flow_label = vector.flow_label & kFlowLabelMask,
                  .traffic_class = vector.traffic_class,
                  .hop_limit = vector.hop_limit};
  if (roce_version(destination) == RoceVersion::v1) return RoceV1Path{destination, grh};
  if (!may_leave_subnet(grh.hop_limit)) grh.hop_limit = GlobalRoute{}.hop_limit;
  return RoceV2Path{destination, grh};
}

}  // namespace

Result<Path> Port::path_to(const AddressVector& vector) const {
  if (is_infiniband()) return infiniband_path(vector);
  if (!vector.is_global) return refuse(EINVAL, "RoCE needs a GRH: is_global must be 1");
  const auto source_entry = source_of(vector);
  if (!source_entry) return std::unexpected(source_entry.error());
  const SocketAddress& source = (*source_entry)->address;
  const auto address = resolve_gid(vector.dest_gid, interface_index_);
  if (!address) return std::unexpected(address.error());
  if (address->family() != source.family()) {
    return refuse(EINVAL, fmt::format("GID {} is {} and cannot be reached from "
                                      "sgid_index {}, which is {}",
                                      gid_text(vector.dest_gid), address->ip_text(),
                                      vector.source_gid_index, source.ip_text()));
  }
  return roce_path(vector, address->with_port(source.port()));
}

Result<Route> Port::route(std::size_t gid_index, const Path& path, Qpn destination,
                          std::optional<TimeNs> patience) const {
  const auto* const infiniband = std::get_if<InfinibandPath>(&path);
  if (infiniband != nullptr && infiniband->port != number_) {
    return refuse(EINVAL,
                  fmt::format("the path is port {}'s, not port {}'s", infiniband->port, number_));
  }
  link::Stack& from = links(gid_index);
  const auto hop = from.top().next_hop(path, destination, patience);
  if (!hop) return std::unexpected(hop.error());
  return Route(from, **hop, path);
}

Result<Route> Port::resolve(const AddressVector& vector, Qpn destination,
                            std::optional<TimeNs> patience) const {
  const auto path = path_to(vector);
  if (!path) return std::unexpected(path.error());
  return route(vector.source_gid_index, *path, destination, patience);
}

/// From the address of the group's family where there is one. Null if the port has no such version.
link::Stack* Port::links_for_group(RoceVersion version, sa_family_t family) const {
  link::Stack* any = nullptr;
  for (std::size_t i = 0; i < gids_.size(); ++i) {
    if (roce_version(gids_[i].address) != version) continue;
    if (gids_[i].address.family() == family) return links_[i];
    if (any == nullptr) any = links_[i];
  }
  return any;
}

Result<void> Port::join(const MulticastGroup& group) {
  if (is_infiniband()) return links(0).top().join(group);
  const auto address = resolve_gid(group.gid, interface_index_);
  if (!address) return std::unexpected(address.error());
  for (const RoceVersion version : {RoceVersion::v1, RoceVersion::v2}) {
    link::Stack* const links = links_for_group(version, address->family());
    if (links == nullptr) continue;
    if (auto joined = links->top().join(group); !joined) {
      leave(group);  // Over the version that did.
      return joined;
    }
  }
  return {};
}

void Port::leave(const MulticastGroup& group) {
  for (const auto& link : attached_) link->links.top().leave(group);
}

}  // namespace verbatim::port
