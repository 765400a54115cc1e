#include <cerrno>

#include "base/log.h"
#include "dropin/rdmacm/addresses.h"
#include "dropin/rdmacm/calls.h"
#include "dropin/rdmacm/manager.h"

/// Converts the connection service's events to events of ids.
namespace verbatim::rdmacm {
namespace {

rdma_conn_param parameters_of(const connect::QueuePairOffer& peer, std::uint8_t retry_count) {
  return {.private_data = nullptr,
          .private_data_len = 0,
          .responder_resources = peer.responder_resources,
          .initiator_depth = peer.initiator_depth,
          .flow_control = peer.flow_control,
          .retry_count = retry_count,
          .rnr_retry_count = peer.rnr_retry_count,
          .srq = peer.srq,
          .qp_num = peer.qpn.value()};
}

/// Copies private data into the event, and sets the pointer that the program reads.
void attach_private_data(Event& event, bool is_datagram, const connect::PrivateData& data) {
  event.private_data = data;
  const auto length = static_cast<std::uint8_t>(event.private_data.size());
  const void* const bytes = length == 0 ? nullptr : &*event.private_data.begin();
  if (is_datagram) {
    event.verbs.param.ud.private_data = bytes;
    event.verbs.param.ud.private_data_len = length;
  } else {
    event.verbs.param.conn.private_data = bytes;
    event.verbs.param.conn.private_data_len = length;
  }
}

/// Returns the peer's address as its path has it: over InfiniBand, the GID.
SocketAddress peer_of(const connect::Path& path) {
  if (!std::holds_alternative<InfinibandPath>(path.remote)) {
    return address_of(path.remote).with_port(0);
  }
  return SocketAddress::ipv6(path.remote_gid.bytes, 0, 0);
}

}  // namespace

std::unique_ptr<Event> make_event(Id& id, rdma_cm_event_type type, int status) {
  auto event = std::make_unique<Event>();
  event->verbs.id = &id.verbs;
  event->verbs.event = type;
  event->verbs.status = status;
  return event;
}

std::unique_ptr<Event> make_multicast_event(Multicast& multicast, rdma_cm_event_type type,
                                            int status) {
  auto event = make_event(*multicast.id, type, status);
  event->multicast = &multicast;
  event->verbs.param.ud.private_data = multicast.context;
  return event;
}

void Manager::push(Id& subject, std::unique_ptr<Event> event) {
  event->subject = &subject;
  from(subject.verbs.channel).events.push(event.release());
}

void Manager::on(const connect::Event& event) {
  std::visit([this](const auto& one) { on(one); }, event);
}

void Manager::complete(connect::Path& path) const {
  if (const auto own = addresses_.own(path.local); own && path.local_gid.is_zero()) {
    path.local_gid = own->gid;
  }
  const bool has_gid_of_address = !node_.is_infiniband && !node_.is_iwarp;
  if (has_gid_of_address && path.remote_gid.is_zero()) {
    path.remote_gid = gid_of(address_of(path.remote));
  }
  if (service_->uses_streams()) path.mtu = active_mtu();
}

/// Returns the id of a request; nothing if there is no room, then the peer is refused.
Id* Manager::request_for(connect::ListenerId listener_id, connect::ConnectionId connection,
                         connect::ServiceId service, const connect::Path& path,
                         const connect::IpEndpoints& ends) {
  const auto found = listeners_.find(listener_id);
  Id* const listener = found == listeners_.end() ? nullptr : found->second;
  if (listener == nullptr) {
    service_->release(connection);
    return nullptr;
  }
  Id* const id = new Id(this);
  id->verbs.channel = listener->verbs.channel;
  id->verbs.context = listener->verbs.context;
  id->verbs.ps = listener->verbs.ps;
  id->verbs.qp_type = listener->verbs.qp_type;
  id->is_af_ib = listener->is_af_ib;
  id->own_services = connect::ServiceRange::of(service);
  if (node_.is_infiniband) id->pkey = path.pkey;
  id->options = listener->options;
  id->state = IdState::requested;
  id->connection.is_passive = true;
  id->connection.plan.path = path;
  if (const auto* const lids = std::get_if<InfinibandPath>(&path.remote))
    id->connection.plan.port = lids->port;
  id->connection.ends = ends;
  id->local = ends.empty() ? path.local.with_port(listener->local.port()) : ends.destination;
  id->remote = ends.empty() ? peer_of(path) : ends.source;
  complete(id->connection.plan.path);
  open(*id, connection);
  return id;
}

void Manager::on(const connect::ConnectRequest& request) {
  Id* const id = request_for(request.listener, request.connection, request.service, request.path,
                             request.ends);
  if (id == nullptr) return;
  Connection& connection = id->connection;
  connection.plan.peer = request.peer;
  if (request.path.ack_timeout > 0) id->packet_life_time = request.path.ack_timeout - 1;
  connection.plan.responder_resources = request.peer.responder_resources;
  connection.plan.initiator_depth = request.peer.initiator_depth;
  connection.plan.retry_count = request.retry_count;
  connection.plan.rnr_retry_count = request.peer.rnr_retry_count;
  Id& listener = *listeners_.at(request.listener);
  if (request.transport == connect::CmTransport::xrc) id->verbs.qp_type = IBV_QPT_XRC_RECV;
  if (request.transport == connect::CmTransport::uc) id->verbs.qp_type = IBV_QPT_UC;
  auto event = make_event(*id, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
  event->verbs.listen_id = &listener.verbs;
  event->verbs.param.conn = parameters_of(request.peer, request.retry_count);
  attach_private_data(*event, false, request.private_data);
  push(listener, std::move(event));
}

void Manager::on(const connect::SidrRequest& request) {
  Id* const id = request_for(request.listener, request.resolution, request.service, request.path,
                             request.ends);
  if (id == nullptr) return;
  Id& listener = *listeners_.at(request.listener);
  auto event = make_event(*id, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
  event->verbs.listen_id = &listener.verbs;
  attach_private_data(*event, true, request.private_data);
  push(listener, std::move(event));
}

void Manager::on(const connect::ConnectResponse& response) {
  Id* const id = find(response.connection);
  if (id == nullptr) return;
  Connection& connection = id->connection;
  connection.plan.peer = response.peer;
  connection.plan.responder_resources = response.peer.responder_resources;
  connection.plan.initiator_depth = response.peer.initiator_depth;
  connection.plan.rnr_retry_count = response.peer.rnr_retry_count;
  connection.plan.path.ack_timeout = id->options.ack_timeout.value_or(
      connect::ack_timeout_of(response.target_ack_delay, id->packet_life_time));
  auto event = make_event(*id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
  event->verbs.param.conn = parameters_of(response.peer, connection.plan.retry_count);
  attach_private_data(*event, false, response.private_data);
  push(*id, std::move(event));
}

void Manager::on(const connect::Established& established) {
  Id* const id = find(established.connection);
  if (id == nullptr) return;
  id->state = IdState::connected;
  auto event = make_event(*id, RDMA_CM_EVENT_ESTABLISHED, 0);
  attach_private_data(*event, false, established.private_data);
  push(*id, std::move(event));
}

bool Manager::withdraw(Id& id) {
  if (id.state != IdState::requested) return false;
  const std::size_t withdrawn = from(id.verbs.channel).events.remove_if([&id](Event* event) {
    const bool is_request = event->verbs.event == RDMA_CM_EVENT_CONNECT_REQUEST;
    if (!is_request || event->verbs.id != &id.verbs) return false;
    delete event;
    return true;
  });
  if (withdrawn > 0) forget(id);
  return withdrawn > 0;
}

void Manager::on(const connect::Rejected& rejected) {
  Id* const id = find(rejected.connection);
  if (id == nullptr) return;
  close(*id);
  if (withdraw(*id)) return;
  id->state = IdState::ended;
  if (rejected.reason == connect::RejectReason::primary_gid) {
    log(LogLevel::warn,
        "{} refuses this node's GID: its connections may be over another RoCE version "
        "(VERBATIM_ROCE)",
        path_text(id->connection.plan.path.remote));
  }
  auto event = make_event(*id, RDMA_CM_EVENT_REJECTED, raw(rejected.reason));
  attach_private_data(*event, false, rejected.private_data);
  push(*id, std::move(event));
}

void Manager::on(const connect::Unreachable& unreachable) {
  Id* const id = find(unreachable.connection);
  if (id == nullptr) return;
  close(*id);
  id->state = IdState::ended;
  if (uses_frames()) {
    log(LogLevel::warn,
        "nobody answers at {} over RoCE v1: its node may be one of v2 (VERBATIM_ROCE)",
        path_text(id->connection.plan.path.remote));
  }
  push(*id, make_event(*id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT));
}

/// As the kernel's cma reports the end of an iWARP connection that was not established.
void Manager::on(const connect::StreamFailed& failed) {
  Id* const id = find(failed.connection);
  if (id == nullptr) return;
  close(*id);
  id->state = IdState::ended;
  const bool is_refused = failed.error == ECONNREFUSED || failed.error == ECONNRESET;
  const bool is_unanswered = failed.error == ETIMEDOUT || failed.error == EHOSTUNREACH;
  const rdma_cm_event_type type = is_refused      ? RDMA_CM_EVENT_REJECTED
                                  : is_unanswered ? RDMA_CM_EVENT_UNREACHABLE
                                                  : RDMA_CM_EVENT_CONNECT_ERROR;
  auto event = make_event(*id, type, -failed.error);
  attach_private_data(*event, false, failed.private_data);
  push(*id, std::move(event));
}

void Manager::on(const connect::Disconnected& disconnected) {
  Id* const id = find(disconnected.connection);
  if (id == nullptr) return;
  id->state = IdState::ended;
  auto event = make_event(*id, RDMA_CM_EVENT_DISCONNECTED, 0);
  attach_private_data(*event, false, disconnected.private_data);
  push(*id, std::move(event));
}

void Manager::on(const connect::StreamEnded& ended) {
  Id* const id = find(ended.connection);
  on(connect::Disconnected{.connection = ended.connection});
  if (id != nullptr) close(*id);
}

void Manager::on(const connect::TimeWaitExit& end) {
  Id* const id = find(end.connection);
  if (id == nullptr) return;
  close(*id);
  push(*id, make_event(*id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0));
}

void Manager::on(const connect::SidrResponse& response) {
  Id* const id = find(response.resolution);
  if (id == nullptr) return;
  close(*id);
  const bool found = response.status == connect::SidrStatus::found;
  id->state = found ? IdState::connected : IdState::ended;
  auto event = make_event(*id, found ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_UNREACHABLE,
                          found ? 0 : raw(response.status));
  rdma_ud_param& parameters = event->verbs.param.ud;
  const connect::Path& path = id->connection.plan.path;
  const auto own = addresses_.own(path.local);
  parameters.ah_attr = connect::address_vector(path, own ? own->gid_index : std::uint8_t{0});
  parameters.qp_num = response.qpn.value();
  parameters.qkey = raw(response.qkey);
  attach_private_data(*event, true, response.private_data);
  push(*id, std::move(event));
}

}  // namespace verbatim::rdmacm
