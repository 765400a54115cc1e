#include "dropin/rdmacm/addresses.h"
#include "dropin/rdmacm/calls.h"

/// Connecting, listening, accepting, disconnecting; and for datagrams, resolving a service to a
/// queue pair.
namespace verbatim::rdmacm {
namespace {

/// Limits of a queue pair's outstanding READs and atomics, as responder and as initiator.
struct ReadsMax {
  std::uint8_t inbound = 0;
  std::uint8_t outbound = 0;
};

/// Returns those of the id's device; zeros without a device.
ReadsMax reads_max(const Id& id) {
  ibv_device_attr has{};
  if (id.verbs.verbs == nullptr || ibv_query_device(id.verbs.verbs, &has) != 0) return {};
  return {static_cast<std::uint8_t>(has.max_qp_rd_atom),
          static_cast<std::uint8_t>(has.max_qp_init_rd_atom)};
}
ByteSpan private_data_of(const rdma_conn_param* parameters) {
  if (parameters == nullptr || parameters->private_data == nullptr) return {};
  return {static_cast<const std::byte*>(parameters->private_data), parameters->private_data_len};
}

/// Returns the ends that a connection's first message names; AF_IB has none, and SDP's users name
/// them in the Hello.
connect::IpEndpoints endpoints_of(const Id& id) {
  if (id.is_af_ib || id.verbs.ps == kSdpSpace) return {};
  return {.source = id.local, .destination = id.remote};
}

Result<void> check(const Id& id, const rdma_conn_param* parameters) {
  if (id.is_datagram()) return {};
  if (id.verbs.qp == nullptr && parameters == nullptr) {
    return refuse(EINVAL, "neither a queue pair on the id nor parameters that name one");
  }
  if (parameters == nullptr) return {};
  const ReadsMax most = reads_max(id);
  const auto fits = [](std::uint8_t value, std::uint8_t any, std::uint8_t limit) {
    return value == any || value <= limit;
  };
  if (!fits(parameters->responder_resources, RDMA_MAX_RESP_RES, most.inbound) ||
      !fits(parameters->initiator_depth, RDMA_MAX_INIT_DEPTH, most.outbound)) {
    return refuse(EINVAL, fmt::format("responder_resources {} and initiator_depth {}: at most {} "
                                      "and {}",
                                      parameters->responder_resources, parameters->initiator_depth,
                                      most.inbound, most.outbound));
  }
  return {};
}

connect::CmTransport transport_of(const Id& id) {
  if (id.type() == IBV_QPT_UC) return connect::CmTransport::uc;
  const bool xrc = id.type() == IBV_QPT_XRC_SEND || id.type() == IBV_QPT_XRC_RECV;
  return xrc ? connect::CmTransport::xrc : connect::CmTransport::rc;
}

connect::QueuePairOffer offer_of(const Id& id, const rdma_conn_param* parameters) {
  connect::QueuePairOffer offer{.starting_psn = id.connection.plan.own_psn,
                                .responder_resources = id.connection.plan.responder_resources,
                                .initiator_depth = id.connection.plan.initiator_depth,
                                .rnr_retry_count = 7};
  if (parameters != nullptr) {
    offer.qpn = Qpn(parameters->qp_num);
    offer.srq = parameters->srq != 0;
    offer.flow_control = parameters->flow_control != 0;
    offer.rnr_retry_count = static_cast<std::uint8_t>(parameters->rnr_retry_count & 7);
  }
  if (const ibv_qp* const qp = id.verbs.qp; qp != nullptr) {
    offer.qpn = Qpn(qp->qp_num);
    offer.srq = qp->srq != nullptr;
  }
  return offer;
}

Result<void> ask_for_connection(Id& id, const rdma_conn_param* parameters) {
  Manager& cm = manager();
  if (auto fitting = check(id, parameters); !fitting) return fitting;
  const std::lock_guard guard(cm.lock);
  Connection& connection = id.connection;
  const ReadsMax most = reads_max(id);
  connection.plan.responder_resources = most.inbound;
  connection.plan.initiator_depth = most.outbound;
  if (parameters != nullptr && parameters->responder_resources != RDMA_MAX_RESP_RES) {
    connection.plan.responder_resources = parameters->responder_resources;
  }
  if (parameters != nullptr && parameters->initiator_depth != RDMA_MAX_INIT_DEPTH) {
    connection.plan.initiator_depth = parameters->initiator_depth;
  }
  if (parameters != nullptr) connection.plan.retry_count = parameters->retry_count & 7;
  // The peer waits for this device; its own delay comes with its answer.
  connection.plan.path.ack_timeout =
      connect::ack_timeout_of(own_ack_delay(id), id.packet_life_time);
  std::string data = id.connect_data;
  const ByteSpan own = private_data_of(parameters);
  data.append(reinterpret_cast<const char*>(own.data()), own.size());
  const ByteSpan private_data = std::as_bytes(std::span(data));
  const connect::ConnectParameters request{.service = service_of(id, id.remote.port()),
                                           .path = connection.plan.path,
                                           .ends = endpoints_of(id),
                                           .transport = transport_of(id),
                                           .offer = offer_of(id, parameters),
                                           .retry_count = connection.plan.retry_count,
                                           .private_data = private_data};
  const auto number = cm.connections().connect(request);
  if (!number) return std::unexpected(number.error());
  cm.open(id, *number);
  id.state = IdState::connecting;
  return {};
}

Result<void> ask_for_queue_pair(Id& id, const rdma_conn_param* parameters) {
  Manager& cm = manager();
  const std::lock_guard guard(cm.lock);
  const auto number = cm.connections().resolve({.service = service_of(id, id.remote.port()),
                                                .path = id.connection.plan.path,
                                                .ends = endpoints_of(id),
                                                .private_data = private_data_of(parameters)});
  if (!number) return std::unexpected(number.error());
  cm.open(id, *number);
  id.state = IdState::connecting;
  return {};
}

Result<void> connect(Id& id, const rdma_conn_param* parameters) {
  if (id.state != IdState::route_resolved) {
    return refuse(EINVAL, "the id has no route yet, or is connected already");
  }
  return id.is_datagram() ? ask_for_queue_pair(id, parameters) : ask_for_connection(id, parameters);
}

/// The engine accepts the listener's requests from now on.
Result<void> open_listener(Manager& cm, Id& id, int backlog) {
  const std::lock_guard guard(cm.lock);
  const bool only = id.options.own_family_only.value_or(id.local.is_ipv4());
  const bool any = connect::is_wildcard(id.local);
  // An AF_IB service is identified by its id alone; over TCP there is only the address.
  const bool by_service = id.is_af_ib && !cm.connections().uses_streams();
  const auto listener = cm.connections().listen(
      {.service =
           id.is_af_ib ? connect::ServiceId{id.own_services.id} : service_of(id, id.local.port()),
       .service_mask = id.is_af_ib ? id.own_services.mask : ~std::uint64_t{0},
       .address = by_service ? SocketAddress() : id.local,
       .both_families = any && id.local.is_ipv6() && !only,
       .gid = by_service && !any ? id.connection.plan.path.local_gid : Gid{},
       .datagram = id.is_datagram()},
      backlog);
  if (!listener) return std::unexpected(listener.error());
  id.listener = *listener;
  cm.add_listener(id, *listener);
  id.state = IdState::listening;
  show_addresses(id);
  return {};
}

Result<void> listen(Id& id, int backlog) {
  Manager& cm = manager();
  if (id.state == IdState::idle) {
    sockaddr_in any{.sin_family = AF_INET};
    if (auto bound = bind_to(id, reinterpret_cast<const sockaddr*>(&any)); !bound) return bound;
  }
  if (id.state != IdState::bound) return refuse(EINVAL, "an id that is not bound cannot listen");
  if (auto opened = open_listener(cm, id, backlog); !opened) return opened;
  // Last, because requests arrive as soon as the agent knows the listener.
  if (const int error = cm.services().listen_port(id.binding)) {
    const std::lock_guard guard(cm.lock);
    cm.remove_listener(id);
    id.state = IdState::bound;
    return refused_below(error);
  }
  return {};
}

Result<void> accept_datagrams(Id& id, const rdma_conn_param* parameters) {
  if (id.verbs.qp == nullptr && parameters == nullptr) {
    return refuse(EINVAL, "neither a queue pair on the id nor parameters that name one");
  }
  Manager& cm = manager();
  const std::lock_guard guard(cm.lock);
  const Qpn qpn(id.verbs.qp != nullptr ? id.verbs.qp->qp_num : parameters->qp_num);
  auto answered =
      cm.connections().answer(id.connection.number, {.status = connect::SidrStatus::found,
                                                     .qpn = qpn,
                                                     .qkey = static_cast<QKey>(RDMA_UDP_QKEY),
                                                     .private_data = private_data_of(parameters)});
  if (answered) {
    cm.close(id);
    id.state = IdState::connected;
  }
  return answered;
}

Result<void> accept_connection(Id& id, const rdma_conn_param* parameters) {
  if (auto fitting = check(id, parameters); !fitting) return fitting;
  Manager& cm = manager();
  const std::lock_guard guard(cm.lock);
  Connection& connection = id.connection;
  if (id.state != IdState::requested) return refuse(EINVAL, "the id has no request to accept");
  const auto granted = [](std::uint8_t asked, const std::uint8_t* value, std::uint8_t any,
                          std::uint8_t limit) {
    return value == nullptr || *value == any ? std::min(asked, limit) : *value;
  };
  const ReadsMax most = reads_max(id);
  const bool given = parameters != nullptr;
  connection.plan.initiator_depth =
      granted(connection.plan.initiator_depth, given ? &parameters->initiator_depth : nullptr,
              RDMA_MAX_INIT_DEPTH, most.outbound);
  connection.plan.responder_resources =
      granted(connection.plan.responder_resources,
              given ? &parameters->responder_resources : nullptr, RDMA_MAX_RESP_RES, most.inbound);
  if (auto ready = make_ready(id); !ready) return ready;
  id.state = IdState::connecting;
  auto accepted =
      cm.connections().accept(connection.number, {.offer = offer_of(id, parameters),
                                                  .target_ack_delay = own_ack_delay(id),
                                                  .private_data = private_data_of(parameters)});
  if (accepted) return {};
  id.state = IdState::requested;
  // Over MPA it is still in INIT, as the program created it.
  if (!cm.connections().uses_streams()) static_cast<void>(stop_queue_pair(id));
  return accepted;
}

Result<void> reject(Id& id, ByteSpan private_data, connect::RejectReason reason) {
  Manager& cm = manager();
  const std::lock_guard guard(cm.lock);
  if (!id.connection.is_open) return refuse(EINVAL, "the id has no request to reject");
  const auto number = id.connection.number;
  const bool is_resolution = id.is_datagram() && !cm.connections().uses_streams();
  auto rejected = is_resolution
                      ? cm.connections().answer(number, {.status = connect::SidrStatus::rejected,
                                                         .private_data = private_data})
                      : cm.connections().reject(number, reason, private_data);
  if (!rejected) return rejected;
  cm.close(id);
  id.state = IdState::ended;
  return {};
}

Result<void> establish(Id& id) {
  if (id.verbs.qp != nullptr) {
    return refuse(EINVAL, "the id has a queue pair: rdma_get_cm_event establishes by itself");
  }
  Manager& cm = manager();
  const std::lock_guard guard(cm.lock);
  auto established = cm.connections().establish(id.connection.number);
  if (!established) return established;
  id.state = IdState::connected;
  return {};
}

Result<void> disconnect(Id& id) {
  if (id.verbs.verbs == nullptr) return refuse(EINVAL, "the id has no device");
  Manager& cm = manager();
  const std::lock_guard guard(cm.lock);
  if (auto stopped = stop_queue_pair(id); !stopped) return stopped;
  if (!id.connection.is_open) {
    if (id.state == IdState::ended) return {};  // The peer was faster.
    return refuse(EINVAL, "the id is not connected");
  }
  return cm.connections().disconnect(id.connection.number);
}

ByteSpan bytes_of(const void* data, std::uint8_t length) {
  return {static_cast<const std::byte*>(data), data == nullptr ? 0u : length};
}

}  // namespace

connect::ServiceId service_of(const Id& id, std::uint16_t port) {
  if (id.is_af_ib && raw(id.service) != 0) return id.service;
  return connect::service_id_of(static_cast<connect::PortSpace>(id.verbs.ps), port);
}

}  // namespace verbatim::rdmacm

using namespace verbatim;
using namespace verbatim::rdmacm;

int rdma_connect(rdma_cm_id* id, rdma_conn_param* conn_param) {
  if (auto begun = rdmacm::connect(from(id), conn_param); !begun)
    return answer("rdma_connect", begun);
  return complete(from(id));
}

int rdma_listen(rdma_cm_id* id, int backlog) {
  return answer("rdma_listen", listen(from(id), backlog));
}

int rdma_accept(rdma_cm_id* id, rdma_conn_param* conn_param) {
  Id& own = from(id);
  if (own.is_datagram()) {
    auto accepted = accept_datagrams(own, conn_param);
    if (accepted && own.is_synchronous) {
      if (rdma_cm_event* const last = std::exchange(id->event, nullptr)) rdma_ack_cm_event(last);
    }
    return answer("rdma_accept", accepted);
  }
  if (auto begun = accept_connection(own, conn_param); !begun) return answer("rdma_accept", begun);
  return complete(own);
}

int rdma_reject(rdma_cm_id* id, const void* private_data, std::uint8_t private_data_len) {
  return answer("rdma_reject", reject(from(id), bytes_of(private_data, private_data_len),
                                      connect::RejectReason::consumer));
}

int rdma_reject_ece(rdma_cm_id* id, const void* private_data, std::uint8_t private_data_len) {
  return answer("rdma_reject_ece", reject(from(id), bytes_of(private_data, private_data_len),
                                          connect::RejectReason::vendor_option_not_supported));
}

int rdma_establish(rdma_cm_id* id) { return answer("rdma_establish", establish(from(id))); }

int rdma_disconnect(rdma_cm_id* id) {
  Id& own = from(id);
  const bool ended = own.state == IdState::ended;
  if (auto begun = disconnect(own); !begun) return answer("rdma_disconnect", begun);
  return ended ? 0 : complete(own);
}

int rdma_notify(rdma_cm_id* id, ibv_event_type event) {
  if (event != IBV_EVENT_COMM_EST) {
    return answer("rdma_notify", refuse(EINVAL, "only IBV_EVENT_COMM_EST can be notified"));
  }
  Id& own = from(id);
  Manager& cm = manager();
  const std::lock_guard guard(cm.lock);
  return answer("rdma_notify", cm.connections().notify_established(own.connection.number));
}
