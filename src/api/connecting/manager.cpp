#include <algorithm>
#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>

#include "api/connecting/sockets.h"
#include "api/connection.h"
#include "verbatim/connection.h"

namespace verbatim::inline v1 {
namespace {

using detail::Addresses;
using detail::Deadline;
using detail::look_up;

struct AckEvent {
  void operator()(rdma_cm_event* event) const { rdma_ack_cm_event(event); }
};
using Event = std::unique_ptr<rdma_cm_event, AckEvent>;

Failure timed_out(Call call) {
  return {
      .call = call, .status = Status::timed_out, .detail = "the other side did not answer in time"};
}

/// Returns the channel's next event.
Result<Event> next_event(rdma_event_channel* channel, Call call, const Deadline& deadline) {
  for (;;) {
    pollfd ready{.fd = channel->fd, .events = POLLIN, .revents = 0};
    const int count = poll(&ready, 1, deadline.left_ms());
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) return timed_out(call);
    rdma_cm_event* event = nullptr;
    if (count < 0 || (rdma_get_cm_event(channel, &event) != 0 && errno != EAGAIN)) {
      return detail::refused(call, errno, "no event can be had of rdma_cm");
    }
    if (event != nullptr) return Event(event);
  }
}

Failure unexpected(Call call, const rdma_cm_event& event) {
  Failure failure{.call = call, .status = Status::disconnected, .code = event.status};
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
      failure.status = Status::refused;
      failure.code = event.status < 0 ? -event.status : EHOSTUNREACH;
      failure.detail = "no RDMA device has a route to that address";
      break;
    case RDMA_CM_EVENT_REJECTED:
      failure.detail =
          "the other side rejects the connection: nobody listens at that port, or its program does "
          "not want it";
      break;
    case RDMA_CM_EVENT_UNREACHABLE:
      failure.detail =
          "the other side does not answer: wrong address, no RDMA there, or UDP port 4791 is "
          "blocked";
      break;
    default:
      failure.detail = "rdma_cm tells of an error instead of a connection";
  }
  return failure;
}

/// Waits for one event; any other event is a failure.
Result<Event> expect(rdma_event_channel* channel, rdma_cm_event_type type, Call call,
                     const Deadline& deadline) {
  auto event = next_event(channel, call, deadline);
  if (event && (*event)->event != type) return unexpected(call, **event);
  return event;
}

Result<detail::Channel> make_channel(Call call) {
  detail::Channel channel(rdma_create_event_channel());
  if (!channel) return detail::refused(call, errno, "no event channel of rdma_cm");
  fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  return channel;
}

bool same_device(const ProtectionDomain& domain, const rdma_cm_id& id) {
  return id.verbs != nullptr && ibv_get_device_guid(id.verbs->device) ==
                                    ibv_get_device_guid(domain.native()->context->device);
}

/// Creates the queue pair of an id that has its device.
Result<void> make_queue_pair(detail::Connection& connection, const QueuePairOptions& options,
                             Call call) {
  detail::Party& party = connection.party;
  if (!same_device(party.domain, *connection.id)) {
    return Failure{
        .call = call,
        .status = Status::refused,
        .code = EXDEV,
        .detail =
            "the route to the peer leads through another device than the protection domain's"};
  }
  if (auto made = party.make_queues(options); !made) return made;
  ibv_qp_init_attr wanted = party.attributes(options, IBV_QPT_RC);
  if (rdma_create_qp(connection.id.get(), party.domain.native(), &wanted) != 0) {
    return detail::refused(Call::make_queue_pair, errno,
                           "larger than the device allows, or too many (ibv_devinfo -v)");
  }
  if (auto adopted = party.adopt(connection.id->qp, wanted.cap); !adopted) {
    rdma_destroy_qp(connection.id.get());
    return adopted;
  }
  return {};
}

rdma_conn_param parameters_of(const ConnectOptions& options) {
  const QueuePairOptions& wanted = options.queue_pair;
  rdma_conn_param parameters{};
  parameters.private_data = options.data.data();
  parameters.private_data_len = static_cast<std::uint8_t>(options.data.size());
  parameters.responder_resources = wanted.reads_in_flight;
  parameters.initiator_depth = wanted.reads_in_flight;
  parameters.retry_count = wanted.retry_count;
  parameters.rnr_retry_count = wanted.receiver_not_ready_retries;
  return parameters;
}

Result<void> check_data(Call call, std::size_t size, std::size_t most, const char* detail) {
  if (size <= most) return {};
  return Failure{.call = call, .status = Status::out_of_range, .detail = detail};
}

std::vector<std::byte> private_data_of(const rdma_cm_event& event) {
  const auto* const data = static_cast<const std::byte*>(event.param.conn.private_data);
  return data == nullptr ? std::vector<std::byte>()
                         : std::vector(data, data + event.param.conn.private_data_len);
}

constexpr std::size_t kMaxConnectData = 56;
constexpr std::size_t kMaxAcceptData = 196;
constexpr std::size_t kMaxRejectData = 148;

}  // namespace

Result<QueuePair> connect(const ProtectionDomain& domain, const std::string& host,
                          std::uint16_t port, const ConnectOptions& options) {
  constexpr Call kCall = Call::connect;
  const Deadline deadline(options.timeout);
  if (auto fits = check_data(kCall, options.data.size(), kMaxConnectData,
                             "rdma_cm carries at most 56 bytes of data with a connect");
      !fits) {
    return fits.error();
  }
  auto destination = look_up(kCall, host, port, false);
  if (!destination) return destination.error();
  Addresses source;
  if (!options.source.empty()) {
    auto found = look_up(kCall, options.source, 0, false);
    if (!found) return found.error();
    source = std::move(*found);
  }

  auto connection = std::make_unique<detail::Connection>(domain, options.queue_pair);
  auto channel = make_channel(kCall);
  if (!channel) return channel.error();
  connection->channel = std::move(*channel);
  rdma_event_channel* const events = connection->channel.get();
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(events, &id, nullptr, RDMA_PS_TCP) != 0)
    return detail::refused(kCall, errno, "no id of rdma_cm");
  connection->id.reset(id);

  if (rdma_resolve_addr(id, source ? source->ai_addr : nullptr, (*destination)->ai_addr,
                        std::max(deadline.left_ms(), 1)) != 0) {
    return detail::refused(kCall, errno, "the address cannot be resolved");
  }
  if (auto event = expect(events, RDMA_CM_EVENT_ADDR_RESOLVED, kCall, deadline); !event)
    return event.error();
  if (rdma_resolve_route(id, std::max(deadline.left_ms(), 1)) != 0)
    return detail::refused(kCall, errno, "no route");
  if (auto event = expect(events, RDMA_CM_EVENT_ROUTE_RESOLVED, kCall, deadline); !event)
    return event.error();
  if (auto made = make_queue_pair(*connection, options.queue_pair, kCall); !made)
    return made.error();

  rdma_conn_param parameters = parameters_of(options);
  if (rdma_connect(id, &parameters) != 0)
    return detail::refused(kCall, errno, "the connect request cannot be sent");
  auto event = expect(events, RDMA_CM_EVENT_ESTABLISHED, kCall, deadline);
  if (!event) return event.error();
  connection->peer_data = private_data_of(**event);
  connection->peer_number = (*event)->param.conn.qp_num;
  connection->begin();
  return ConnectionMaker::make(std::move(connection));
}

// Listener
// ----------------------------------------------------------------------------------------------

struct Listener::State {
  explicit State(const ProtectionDomain& of) : domain(of) {}
  ProtectionDomain domain;
  detail::Channel channel;
  detail::Id id;
};

struct ConnectionRequest::State {
  explicit State(const ProtectionDomain& of) : domain(of) {}
  ProtectionDomain domain;
  detail::Channel channel;  // Separate, so that it has no other id's events.
  detail::Id id;
  std::vector<std::byte> data;
  std::uint32_t peer_number = 0;
};

Listener::Listener(std::unique_ptr<State> state) : state_(std::move(state)) {}
Listener::Listener(Listener&&) noexcept = default;
Listener& Listener::operator=(Listener&&) noexcept = default;
Listener::~Listener() = default;

Result<Listener> Listener::open(const ProtectionDomain& domain, const ListenOptions& options) {
  constexpr Call kCall = Call::listen;
  auto state = std::make_unique<State>(domain);
  auto channel = make_channel(kCall);
  if (!channel) return channel.error();
  state->channel = std::move(*channel);
  auto address = look_up(kCall, options.address, options.port, true);
  if (!address) return address.error();
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(state->channel.get(), &id, nullptr, RDMA_PS_TCP) != 0) {
    return detail::refused(kCall, errno, "no id of rdma_cm");
  }
  state->id.reset(id);
  if (rdma_bind_addr(id, (*address)->ai_addr) != 0) {
    return detail::refused(kCall, errno,
                           "the address is not this node's, or another program has the port");
  }
  if (rdma_listen(id, options.backlog) != 0)
    return detail::refused(kCall, errno, "the port cannot be listened at");
  return Listener(std::move(state));
}

std::uint16_t Listener::port() const noexcept { return ntohs(rdma_get_src_port(state_->id.get())); }
int Listener::event_descriptor() const noexcept { return state_->channel->fd; }

Result<ConnectionRequest> Listener::next(std::chrono::milliseconds timeout) {
  constexpr Call kCall = Call::accept;
  const Deadline deadline(timeout);
  for (;;) {
    auto event = next_event(state_->channel.get(), kCall, deadline);
    if (!event) return event.error();
    // The request was given up by its peer; the id's own channel reports it.
    if ((*event)->event != RDMA_CM_EVENT_CONNECT_REQUEST) continue;
    auto request = std::make_unique<ConnectionRequest::State>(state_->domain);
    request->id.reset((*event)->id);
    request->data = private_data_of(**event);
    request->peer_number = (*event)->param.conn.qp_num;
    event->reset();
    auto channel = make_channel(kCall);
    if (!channel) return channel.error();
    request->channel = std::move(*channel);
    if (rdma_migrate_id(request->id.get(), request->channel.get()) != 0) {
      return detail::refused(kCall, errno, "the request cannot be taken over");
    }
    return ConnectionRequest(std::move(request));
  }
}

Result<QueuePair> Listener::accept(const ConnectOptions& options,
                                   std::chrono::milliseconds timeout) {
  auto request = next(timeout);
  if (!request) return request.error();
  return std::move(*request).accept(options);
}

// ConnectionRequest
// -------------------------------------------------------------------------------------

ConnectionRequest::ConnectionRequest(std::unique_ptr<State> state) : state_(std::move(state)) {}
ConnectionRequest::ConnectionRequest(ConnectionRequest&&) noexcept = default;
ConnectionRequest& ConnectionRequest::operator=(ConnectionRequest&&) noexcept = default;
ConnectionRequest::~ConnectionRequest() {
  if (state_ && state_->id) std::move(*this).reject();
}

std::span<const std::byte> ConnectionRequest::peer_data() const noexcept { return state_->data; }

std::string ConnectionRequest::peer_address() const {
  char text[NI_MAXHOST] = "";
  const sockaddr* const address = rdma_get_peer_addr(state_->id.get());
  const socklen_t size = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

void ConnectionRequest::reject(std::span<const std::byte> data) && {
  rdma_reject(state_->id.get(), data.data(),
              static_cast<std::uint8_t>(std::min(data.size(), kMaxRejectData)));
  state_->id.reset();
}

Result<QueuePair> ConnectionRequest::accept(const ConnectOptions& options) && {
  constexpr Call kCall = Call::accept;
  if (auto fits = check_data(kCall, options.data.size(), kMaxAcceptData,
                             "rdma_cm carries at most 196 bytes of data with an accept");
      !fits) {
    return fits.error();
  }
  const Deadline deadline(options.timeout);
  auto connection = std::make_unique<detail::Connection>(state_->domain, options.queue_pair);
  connection->channel = std::move(state_->channel);
  connection->id = std::move(state_->id);
  connection->peer_data = std::move(state_->data);
  connection->peer_number = state_->peer_number;
  if (auto made = make_queue_pair(*connection, options.queue_pair, kCall); !made) {
    rdma_reject(connection->id.get(), nullptr, 0);
    return made.error();
  }
  rdma_conn_param parameters = parameters_of(options);
  if (rdma_accept(connection->id.get(), &parameters) != 0)
    return detail::refused(kCall, errno, "the peer cannot be accepted");
  auto event = expect(connection->channel.get(), RDMA_CM_EVENT_ESTABLISHED, kCall, deadline);
  if (!event) return event.error();
  connection->begin();
  return ConnectionMaker::make(std::move(connection));
}

}  // namespace verbatim::inline v1
