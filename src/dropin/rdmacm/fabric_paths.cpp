#include <algorithm>

#include "dropin/rdmacm/addresses.h"
#include "dropin/rdmacm/calls.h"

/// Asks a fabric for the GID of an id's peer and for the path to it.
namespace verbatim::rdmacm {

Result<Gid> Manager::find_gid(const SocketAddress& address) const {
  if (node_.is_iwarp) return Gid{};
  if (!node_.is_infiniband) return gid_of(address);
  if (address.is_multicast()) return Gid{};  // A group has one after it is joined.
  ibv_gid gid{};
  if (const int error = services_->find_gid(address.data(), &gid)) return refused_below(error);
  return to_gid(gid);
}

Result<VerbatimInterface> Manager::find_interface(const SocketAddress& source,
                                                  const SocketAddress& destination) const {
  const auto data_of = [](const SocketAddress& address) {
    return address.empty() ? nullptr : address.data();
  };
  VerbatimInterface found{};
  const int error = services_->find_interface(data_of(source), data_of(destination), &found);
  if (error != 0) return refused_below(error);
  return found;
}

Result<void> Manager::find_path(Id& id, int timeout_ms) {
  const connect::Path& path = id.connection.plan.path;
  const VerbatimPathQuery query{.source = to_verbs(path.local_gid),
                                .destination = to_verbs(path.remote_gid),
                                .service_id = raw(service_of(id, id.remote.port())),
                                .pkey = raw(id.pkey),
                                .traffic_class = id.options.traffic_class,
                                .is_ipv4 = !id.is_af_ib && id.remote.family() == AF_INET,
                                .timeout_ms = static_cast<std::uint32_t>(std::max(timeout_ms, 0))};
  const std::uint64_t number = ++last_query_;
  if (const int error = services_->find_path(&query, on_path, number)) {
    return refused_below(error);
  }
  queries_.emplace(number, &id);  // The answer comes in another thread, which needs the lock.
  id.path_query = number;
  id.state = IdState::resolving_route;
  return {};
}

void Manager::finish_query(std::uint64_t number, int error, const ibv_sa_path_rec* record) {
  const auto query = queries_.extract(number);
  if (query.empty()) return;  // The id is destroyed.
  Id& id = *query.mapped();
  Result<void> shown;
  if (error == 0) {
    take_path(id, *record);
    shown = show_path(id);
  }
  const int failure = shown ? error : shown.error().code;
  if (failure != 0) {
    id.state = IdState::address_resolved;
    push(id, make_event(id, RDMA_CM_EVENT_ROUTE_ERROR, -failure));
    return;
  }
  id.state = IdState::route_resolved;
  push(id, make_event(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0));
}

}  // namespace verbatim::rdmacm
