#include <cstdlib>
#include <vector>

#include "dropin/rdmacm/addresses.h"
#include "dropin/rdmacm/calls.h"

/// Creating and destroying ids, and their addresses.
namespace verbatim::rdmacm {
namespace {

std::atomic<std::uint64_t> last_binding{0};

ibv_qp_type default_type(rdma_port_space space) {
  return space == RDMA_PS_IPOIB || space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
}

/// Drops events that the program has not taken. Ids of requests among them are new, so the program
/// does not know them.
void drop_events(Id& id) {
  std::vector<rdma_cm_id*> requests;
  from(id.verbs.channel).events.remove_if([&](Event* event) {
    if (event->subject != &id) return false;
    if (event->verbs.event == RDMA_CM_EVENT_CONNECT_REQUEST) requests.push_back(event->verbs.id);
    delete event;
    return true;
  });
  for (rdma_cm_id* request : requests) rdma_destroy_id(request);
}

/// Checks the kernel's rules for calls in each state of an id, with a text.
Result<void> require(const Id& id, std::initializer_list<IdState> states, const char* words) {
  for (const IdState state : states) {
    if (id.state == state) return {};
  }
  return refuse(EINVAL, words);
}

/// What the id binds at `name`: a port of its port space unless an AF_IB name says otherwise.
Result<NamedService> service_at(const Id& id, const Name& name) {
  if (name.is_af_ib) return service_to_bind(name, id.verbs.ps);
  return NamedService{.port_space = static_cast<connect::PortSpace>(id.verbs.ps),
                      .port = name.address.port(),
                      .services = {}};
}

Result<void> take_port(Id& id, const Name& name) {
  Manager& cm = manager();
  const auto wanted = service_at(id, name);
  if (!wanted) return std::unexpected(wanted.error());
  const SocketAddress address = name.address.with_port(wanted->port);
  // AF_IB's wildcard is that of both families.
  const bool only = !name.is_af_ib && id.options.own_family_only.value_or(name.address.is_ipv4());
  VerbatimPortBinding binding{.handle = ++last_binding,
                              .port_space = raw(wanted->port_space),
                              .service = wanted->services.id,
                              .service_mask = wanted->services.mask,
                              .reuses_address = id.options.reuses_address,
                              .own_family_only = only,
                              .address = {}};
  std::memcpy(&binding.address, address.data(), address.size());
  std::uint16_t port = 0;
  if (const int error = cm.services().bind_port(&binding, &port)) {
    return refused_below(error);
  }
  const std::lock_guard guard(cm.lock);
  id.binding = binding.handle;
  id.local = name.address.with_port(port);
  id.is_af_ib = name.is_af_ib;
  id.pkey = name.pkey;
  id.own_services =
      wanted->services.empty()
          ? connect::ServiceRange::of(connect::service_id_of(wanted->port_space, port))
          : wanted->services;
  id.state = IdState::bound;
  return {};
}

/// One of the node's addresses, with its GID.
struct Source {
  connect::OwnAddress own;
  /// As the program sees it: the node's, or that of an interface of IP over InfiniBand, which is in
  /// a partition.
  SocketAddress ip;
  PKey pkey{};
};

/// Binds the id to one of the node's addresses, and so to the device.
Result<void> use_source(Id& id, const Source& source) {
  Manager& cm = manager();
  if (auto attached = cm.attach_device(id); !attached) return attached;
  const std::lock_guard guard(cm.lock);
  connect::Path& path = id.connection.plan.path;
  path.local = source.own.address;
  path.local_gid = source.own.gid;
  id.connection.plan.port = source.own.port;
  path.mtu = cm.active_mtu();
  id.local = source.ip.with_port(id.local.port());
  if (source.pkey != PKey{}) id.pkey = source.pkey;
  show_addresses(id);
  return {};
}

/// InfiniBand's GIDs are no addresses.
bool is_infiniband_gid(const Name& name) { return name.is_af_ib && manager().is_infiniband(); }

/// May be that of an interface of IP over InfiniBand: the fabric's hosts have loopback addresses.
bool is_of_interface(const Name& name) {
  const SocketAddress& ip = name.address;
  return manager().is_infiniband() && !name.is_af_ib && !ip.is_loopback() && !ip.is_multicast() &&
         !connect::is_wildcard(ip);
}

SocketAddress address_in(const sockaddr_storage& storage) {
  return SocketAddress::from(reinterpret_cast<const sockaddr*>(&storage), sizeof storage)
      .value_or(SocketAddress());
}

Result<Source> source_of(const VerbatimInterface& found) {
  const auto own = manager().addresses().own(to_gid(found.own));
  if (!own) return std::unexpected(own.error());
  return Source{*own, address_in(found.source), PKey{found.pkey}};
}

Result<Source> own_source(const Name& name) {
  if (is_of_interface(name)) {
    const auto found = manager().find_interface(name.address.with_port(0), {});
    if (!found) return std::unexpected(found.error());
    return source_of(*found);
  }
  const connect::Addresses& addresses = manager().addresses();
  const auto own = is_infiniband_gid(name) ? addresses.own(name.gid) : addresses.own(name.address);
  if (!own) return std::unexpected(own.error());
  return Source{*own, own->address};
}

Result<void> bind(Id& id, Name name) {
  if (connect::is_wildcard(name.address)) {
    if (auto taken = take_port(id, name); !taken) return taken;
    const std::lock_guard guard(manager().lock);
    show_addresses(id);
    return {};
  }
  const auto source = own_source(name);
  if (!source) return std::unexpected(source.error());
  name.address = source->ip.with_port(name.address.port());
  if (auto taken = take_port(id, name); !taken) return taken;
  return use_source(id, *source);
}

/// The source that a program has not named: any, and AF_IB's is in the destination's partition.
Result<Name> source_for(const Name& destination, int family) {
  sockaddr_storage any{};
  any.ss_family = static_cast<sa_family_t>(family);
  auto name = name_from(reinterpret_cast<const sockaddr*>(&any));
  if (name) name->pkey = destination.pkey;
  return name;
}

/// As in Linux, a source that has chosen a port is not asked whether that has the partition.
Result<void> check_partition(const Id& id, const Name& destination) {
  if (!is_infiniband_gid(destination) || id.has_device) return {};
  const auto index = manager().pkey_index(destination.pkey);
  if (!index) return std::unexpected(Error{ENODEV, index.error().text});
  return {};
}

}  // namespace

Result<void> bind_to(Id& id, const sockaddr* address) {
  if (auto idle = require(id, {IdState::idle}, "the id is bound already"); !idle) return idle;
  const auto name = name_from(address);
  if (!name) return std::unexpected(name.error());
  return bind(id, *name);
}

namespace {

/// Finds the source address for a destination; a loopback address leads to the node itself.
Result<connect::OwnAddress> find_source(const Id& id, Name& destination) {
  const connect::Addresses& addresses = manager().addresses();
  SocketAddress& address = destination.address;
  if (addresses.is_own_loopback(address)) {
    auto own = addresses.own(address);
    if (!own) return own;
    address = own->address.with_port(address.port());
    return own;
  }
  // The addresses of a fabric's hosts are IPv4.
  const auto seen = is_infiniband_gid(destination) ? SocketAddress::ipv4({}) : address;
  const connect::Path& path = id.connection.plan.path;
  const bool is_infiniband = manager().is_infiniband();
  auto own = !id.has_device  ? addresses.source_for(seen)
             : is_infiniband ? addresses.own(path.local_gid)
                             : addresses.own(path.local);
  const bool same_family = own && own->address.family() == address.family();
  if (!own || same_family || is_infiniband_gid(destination)) return own;
  return refuse(ENODEV, "the source has another family than the destination");
}

/// From where to which GID.
struct Way {
  Source source;
  Gid peer;
};

/// Requires that `lock` is not held.
Result<Way> find_way(const Id& id, Name& destination) {
  const bool is_bound = !connect::is_wildcard(id.local);
  if (is_of_interface(destination)) {
    const auto found = manager().find_interface(is_bound ? id.local.with_port(0) : SocketAddress(),
                                                destination.address.with_port(0));
    if (!found) return std::unexpected(found.error());
    auto source = source_of(*found);
    if (!source) return std::unexpected(source.error());
    return Way{*source, to_gid(found->peer)};
  }
  const auto own = find_source(id, destination);
  if (!own) return refuse(ENODEV, own.error().text);
  const auto gid = is_infiniband_gid(destination) ? Result<Gid>(destination.gid)
                                                  : manager().find_gid(destination.address);
  if (!gid) return std::unexpected(gid.error());
  return Way{{*own, is_bound ? id.local : own->address}, *gid};
}

Result<void> resolve_address(Id& id, const sockaddr* source, const sockaddr* destination) {
  auto fitting = require(id, {IdState::idle, IdState::bound}, "the id's address is resolved");
  if (!fitting) return fitting;
  auto name = name_from(destination);
  if (!name) return std::unexpected(name.error());
  if (id.state == IdState::idle) {
    const bool is_named = source != nullptr && source->sa_family != AF_UNSPEC;
    const auto from = is_named ? name_from(source) : source_for(*name, destination->sa_family);
    if (!from) return std::unexpected(from.error());
    if (auto bound = bind(id, *from); !bound) return bound;
  }
  if (auto checked = check_partition(id, *name); !checked) return checked;
  Manager& cm = manager();
  const auto way = find_way(id, *name);
  if (!way) {
    const std::lock_guard guard(cm.lock);
    cm.push(id, make_event(id, RDMA_CM_EVENT_ADDR_ERROR, -way.error().code));
    return {};
  }
  {
    const std::lock_guard guard(cm.lock);
    connect::Path& path = id.connection.plan.path;
    id.remote = name->address;
    id.service = name->service;
    if (id.remote.is_link_local() && id.remote.scope_id() == 0) {
      id.remote =
          SocketAddress::ipv6(id.remote.ipv6_bytes(), id.remote.port(), cm.interface_index());
    }
    path.remote = roce_path(id.remote);
    path.remote_gid = way->peer;
    path.traffic_class = id.options.traffic_class;
    if (id.options.ack_timeout) path.ack_timeout = *id.options.ack_timeout;
  }
  if (auto used = use_source(id, way->source); !used) return used;
  const std::lock_guard guard(cm.lock);
  id.state = IdState::address_resolved;
  cm.push(id, make_event(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0));
  return {};
}

Result<void> resolve_route(Id& id, int timeout_ms) {
  Manager& cm = manager();
  const std::lock_guard guard(cm.lock);
  auto fitting = require(id, {IdState::address_resolved},
                         "the id's address is not resolved, or its route is already");
  if (!fitting) return fitting;
  if (cm.is_infiniband()) return cm.find_path(id, timeout_ms);
  if (auto shown = show_path(id); !shown) return shown;
  id.state = IdState::route_resolved;
  cm.push(id, make_event(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0));
  return {};
}

Result<rdma_cm_id*> create(rdma_event_channel* channel, void* context, rdma_port_space space) {
  const auto manager = Manager::get();
  if (!manager) return std::unexpected(manager.error());
  const bool is_sdp = space == kSdpSpace && !(*manager)->connections().uses_streams();
  if (space != RDMA_PS_TCP && space != RDMA_PS_UDP && space != RDMA_PS_IPOIB &&
      space != RDMA_PS_IB && !is_sdp) {
    return refuse(EPROTONOSUPPORT, fmt::format("port space {:#x} is unknown", int{space}));
  }
  auto id = std::make_unique<Id>(*manager);
  id->verbs.context = context;
  id->verbs.ps = space;
  id->verbs.qp_type = default_type(space);
  id->verbs.channel = channel;
  if (channel == nullptr) {
    auto own = make_channel();
    if (!own) return std::unexpected(own.error());
    id->verbs.channel = &own->release()->verbs;
    id->is_synchronous = true;
  }
  return &id.release()->verbs;
}

}  // namespace

void forget(Id& id) {
  if (&manager() == id.owner) manager().detach_device(id);
  std::free(id.verbs.route.path_rec);
  if (id.is_synchronous) rdma_destroy_event_channel(id.verbs.channel);
  if (id.resolved_addresses != nullptr) rdma_freeaddrinfo(id.resolved_addresses);
  delete &id;
}

}  // namespace verbatim::rdmacm

using namespace verbatim;
using namespace verbatim::rdmacm;

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context,
                   rdma_port_space ps) {
  const auto created = create(channel, context, ps);
  if (!created) return dropin::refused_minus_one("rdma_create_id", created.error());
  *id = *created;
  return 0;
}

int rdma_destroy_id(rdma_cm_id* id) {
  Id& own = from(id);
  Manager& cm = manager();
  if (&cm == own.owner) {
    const std::lock_guard guard(cm.lock);
    cm.remove_listener(own);
    cm.forget_changes(own);
    cm.forget_path(own);
    cm.leave_groups(own);
    if (own.connection.is_open) {
      const auto connection = own.connection.number;
      cm.close(own);
      cm.connections().release(connection);
    }
  }
  if (own.binding != 0) cm.services().release_port(own.binding);
  drop_events(own);
  if (rdma_cm_event* const last = std::exchange(id->event, nullptr)) rdma_ack_cm_event(last);
  own.events.wait_for_acknowledgements();
  forget(own);
  return 0;
}

int rdma_bind_addr(rdma_cm_id* id, sockaddr* addr) {
  return answer("rdma_bind_addr", bind_to(from(id), addr));
}

int rdma_resolve_addr(rdma_cm_id* id, sockaddr* src_addr, sockaddr* dst_addr, int) {
  if (auto begun = resolve_address(from(id), src_addr, dst_addr); !begun) {
    return answer("rdma_resolve_addr", begun);
  }
  return complete(from(id));
}

int rdma_resolve_route(rdma_cm_id* id, int timeout_ms) {
  if (auto begun = resolve_route(from(id), timeout_ms); !begun)
    return answer("rdma_resolve_route", begun);
  return complete(from(id));
}

static __be16 port_of(const sockaddr_storage& address) {
  const auto* const any = reinterpret_cast<const sockaddr*>(&address);
  const auto name = name_from(any);
  return name ? htobe16(name->address.port()) : __be16{0};
}

__be16 rdma_get_src_port(rdma_cm_id* id) { return port_of(id->route.addr.src_storage); }

__be16 rdma_get_dst_port(rdma_cm_id* id) { return port_of(id->route.addr.dst_storage); }
