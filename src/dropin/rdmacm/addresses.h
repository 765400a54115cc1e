#pragma once

#include "dropin/rdmacm/objects.h"

/// Conversion between programs' socket addresses (AF_INET, AF_INET6, AF_IB) and ours.
namespace verbatim::rdmacm {

/// Returns the length of an address by its family; 0 for an unknown one, or null.
socklen_t length_of(const sockaddr* address);

/// What a program's address names. AF_IB names a GID and a service; `address` is then the GID as an
/// IP address, which RoCE's GIDs are made from.
struct Name {
  SocketAddress address;
  bool is_af_ib = false;
  Gid gid{};
  connect::ServiceId service{};
  std::uint64_t service_mask = ~std::uint64_t{0};
  PKey pkey{};  // 0: the port's first.
};
/// EINVAL for another family.
Result<Name> name_from(const sockaddr* address);

/// What an AF_IB id of `space` binds: a port of a port space, or other services (RDMA_PS_IB alone).
/// EPROTONOSUPPORT: `space` has no such service.
struct NamedService {
  connect::PortSpace port_space{};
  std::uint16_t port = 0;
  connect::ServiceRange services;  // Empty: the port.
};
Result<NamedService> service_to_bind(const Name& name, rdma_port_space space);

/// Fills in the public fields for the id's addresses and route.
void show_addresses(Id& id);
/// InfiniBand: sets the path of the id's connection from the subnet administrator's record.
void take_path(Id& id, const ibv_sa_path_rec& record);
/// Of the id's device; 0 without one.
std::uint8_t own_ack_delay(const Id& id);
/// Sets the route's path record, replacing an older one.
Result<void> show_path(Id& id);

}  // namespace verbatim::rdmacm
