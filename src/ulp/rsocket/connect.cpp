// Connecting stream rsockets: handles the connection manager's events.
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <fcntl.h>

#include "ulp/rsocket/endpoint.h"
#include "ulp/rsocket/sdp/end.h"
#include "ulp/rsocket/stream.h"

namespace verbatim::rsocket {
namespace {

constexpr int kResolveMs = 2000;

Outcome<rdma_event_channel*> make_channel() {
  rdma_event_channel* channel = rdma_create_event_channel();
  if (channel == nullptr) return fail(errno);
  fcntl(channel->fd, F_SETFL, O_NONBLOCK);
  return channel;
}

/// Returns the errno value of connect(2) for the event.
int error_of(rdma_cm_event_type event, int status) {
  switch (event) {
    case RDMA_CM_EVENT_REJECTED:
      return ECONNREFUSED;
    case RDMA_CM_EVENT_UNREACHABLE:
      return ETIMEDOUT;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return status < 0 ? -status : EHOSTUNREACH;
    default:
      return ECONNRESET;
  }
}

/// SDP's port space. Its service ids are 0x10000 and the port, and its private data begins with a
/// Hello, which has the addresses. Linux's rdma_cm had it, too, and refuses it today.
constexpr auto kSdpSpace = static_cast<rdma_port_space>(0x0001);

Outcome<std::unique_ptr<StreamEnd>> make_end(Protocol protocol, rdma_cm_id* id,
                                             const Sizes& sizes) {
  if (protocol == Protocol::sdp) return SdpEnd::make(id, sizes);
  return Endpoint::make(id, sizes);
}

std::span<const std::byte> private_data_of(const rdma_conn_param& parameters) {
  return {static_cast<const std::byte*>(parameters.private_data), parameters.private_data_len};
}

}  // namespace

Outcome<std::shared_ptr<Stream>> Stream::make(Protocol protocol) {
  auto handle = Handle::make();
  if (!handle) return fail(handle.error());
  std::shared_ptr<Stream> stream(new Stream(std::move(*handle), protocol));
  auto channel = make_channel();
  if (!channel) return fail(channel.error());
  stream->channel_ = *channel;
  const auto space = protocol == Protocol::sdp ? kSdpSpace : RDMA_PS_TCP;
  if (rdma_create_id(*channel, &stream->id_, nullptr, space) != 0) return fail(errno);
  if (auto ok = stream->handle_.add((*channel)->fd); !ok) return fail(ok.error());
  return stream;
}

Stream::~Stream() {
  pending_accepts_.clear();
  accepted_.clear();
  endpoint_.reset();
  if (id_ != nullptr) rdma_destroy_id(id_);
  if (channel_ != nullptr) rdma_destroy_event_channel(channel_);
}

Outcome<void> Stream::bind(const sockaddr* address, socklen_t) {
  std::unique_lock lock(mutex_);
  // rdma_bind_addr takes a non-const address, but only reads it.
  if (rdma_bind_addr(id_, const_cast<sockaddr*>(address)) != 0) return fail(errno);
  return {};
}

Outcome<void> Stream::listen(int backlog) {
  std::unique_lock lock(mutex_);
  if (phase_ == Phase::listening) return {};
  if (phase_ != Phase::fresh) return fail(EINVAL);
  if (rdma_listen(id_, backlog) != 0) return fail(errno);
  phase_ = Phase::listening;
  return {};
}

Outcome<Socket::Accepted> Stream::accept() {
  std::unique_lock lock(mutex_);
  if (phase_ != Phase::listening) return fail(EINVAL);
  if (accepted_.empty()) {
    auto ok = wait_until(lock, waits(0), [this] { return !accepted_.empty(); });
    if (!ok) return fail(ok.error());
  }
  Accepted accepted = std::move(accepted_.front());
  accepted_.pop_front();
  return accepted;
}

Outcome<void> Stream::connect(const sockaddr* address, socklen_t) {
  std::unique_lock lock(mutex_);
  if (phase_ == Phase::open) return fail(EISCONN);
  if (phase_ == Phase::opening) {
    auto ok = finish_opening(lock, false);
    return ok || ok.error() != EAGAIN ? ok : fail(EALREADY);
  }
  if (phase_ != Phase::fresh) return fail(EINVAL);
  active_ = true;
  phase_ = Phase::opening;
  if (rdma_resolve_addr(id_, nullptr, const_cast<sockaddr*>(address), kResolveMs) != 0) {
    const int error = errno;
    phase_ = Phase::fresh;
    return fail(error);
  }
  auto ok = finish_opening(lock, waits(0));
  return ok || ok.error() != EAGAIN ? ok : fail(EINPROGRESS);
}

Outcome<void> Stream::finish_opening(std::unique_lock<std::mutex>& lock, bool may_wait) {
  if (auto ok = wait_until(lock, may_wait, [this] { return phase_ != Phase::opening; }); !ok) {
    return ok;
  }
  if (phase_ == Phase::open) return {};
  return fail(error_ == 0 ? ENOTCONN : std::exchange(error_, 0));
}

void Stream::take_events() {
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(channel_, &event) == 0) {
    // Copied, so that the event can be acknowledged before its id is used or destroyed.
    const rdma_cm_event_type kind = event->event;
    const int status = event->status;
    rdma_cm_id* const id = event->id;
    rdma_conn_param parameters = event->param.conn;
    std::vector<std::byte> data(parameters.private_data_len);
    if (!data.empty()) std::memcpy(data.data(), parameters.private_data, data.size());
    parameters.private_data = data.data();
    rdma_ack_cm_event(event);
    note_edge();
    if (kind == RDMA_CM_EVENT_CONNECT_REQUEST) {
      on_request(id, parameters);
    } else {
      on_event(kind, status, parameters);
    }
  }
}

void Stream::on_event(rdma_cm_event_type event, int status, const rdma_conn_param& parameters) {
  switch (event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (rdma_resolve_route(id_, kResolveMs) != 0) fail_with(errno);
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      if (auto ok = request_connection(); !ok) fail_with(ok.error());
      return;
    case RDMA_CM_EVENT_ESTABLISHED:
      return on_established(parameters);
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return fail_with(error_of(event, status));
    case RDMA_CM_EVENT_DISCONNECTED:
      if (endpoint_) endpoint_->process(false);
      disconnected_ = true;
      if (phase_ == Phase::opening) fail_with(ECONNRESET);
      return;
    default:
      return;
  }
}

Outcome<void> Stream::make_endpoint() {
  auto endpoint = make_end(protocol_, id_, sizes_);
  if (!endpoint) return fail(endpoint.error());
  endpoint_ = std::move(*endpoint);
  endpoint_->set_urgent_inline(options_.is_on(SOL_SOCKET, SO_OOBINLINE));
  return handle_.add(endpoint_->channel());
}

Outcome<void> Stream::request_connection() {
  if (auto ok = make_endpoint(); !ok) return ok;
  endpoint_->set_port(port_);
  const auto offer = endpoint_->offer();
  rdma_conn_param parameters{};
  parameters.private_data = offer.data();
  parameters.private_data_len = static_cast<std::uint8_t>(offer.size());
  parameters.responder_resources = parameters.initiator_depth = endpoint_->reads();
  parameters.flow_control = 1;
  parameters.retry_count = 7;
  parameters.rnr_retry_count = 7;
  if (rdma_connect(id_, &parameters) != 0) return fail(errno);
  return {};
}

void Stream::on_established(const rdma_conn_param& parameters) {
  if (phase_ != Phase::opening) return;
  if (active_) {
    if (auto ok = endpoint_->start(private_data_of(parameters)); !ok) return fail_with(ok.error());
  }
  phase_ = Phase::open;
}

void Stream::on_request(rdma_cm_id* id, const rdma_conn_param& parameters) {
  auto handle = Handle::make();
  if (handle) {
    std::shared_ptr<Stream> stream(new Stream(std::move(*handle), protocol_));
    stream->sizes_ = sizes_;
    if (stream->take_request(id, parameters)) {
      const int number = stream->number();
      static_cast<void>(handle_.add(number));
      pending_accepts_.emplace(number, std::move(stream));
      return;
    }
    if (stream->id_ != nullptr) {
      rdma_reject(stream->id_, nullptr, 0);
      return;  // The stream destroys the id.
    }
  }
  rdma_reject(id, nullptr, 0);
  rdma_destroy_id(id);
}

Outcome<void> Stream::accompany(UniqueFd listener) {
  std::unique_lock lock(mutex_);
  if (phase_ != Phase::listening) return fail(EINVAL);
  fcntl(listener.get(), F_SETFL, fcntl(listener.get(), F_GETFL) | O_NONBLOCK);
  companion_ = std::move(listener);
  return handle_.add(companion_.get());
}

/// One at a time: the others keep the companion, and so the handle, readable.
void Stream::poll_companion() {
  if (!companion_ || !accepted_.empty()) return;
  UniqueFd plain(::accept4(companion_.get(), nullptr, nullptr, 0));
  if (!plain) return;
  note_edge();
  accepted_.push_back({.socket = nullptr, .plain = std::move(plain)});
}

/// Like accept(2), raccept returns only established connections. Looks at those whose handles have
/// events, and at one more: data may be faster than the RTU, and makes no event.
void Stream::poll_pending_accepts() {
  std::vector<int> candidates = handle_.ready();
  auto next = pending_accepts_.upper_bound(last_pending_);
  if (next == pending_accepts_.end()) next = pending_accepts_.begin();
  last_pending_ = next->first;
  candidates.push_back(last_pending_);
  for (const int number : candidates) {
    const auto found = pending_accepts_.find(number);
    if (found == pending_accepts_.end()) continue;
    const std::shared_ptr<Stream> stream = found->second;
    std::unique_lock lock(stream->mutex_);
    stream->wake_locked(true);
    if (stream->phase_ == Phase::opening) continue;
    pending_accepts_.erase(found);
    handle_.remove(number);
    if (stream->phase_ == Phase::open) accepted_.push_back({.socket = stream, .plain = {}});
    note_edge();
  }
}

Outcome<void> Stream::take_request(rdma_cm_id* id, const rdma_conn_param& parameters) {
  auto channel = make_channel();
  if (!channel) return fail(channel.error());
  channel_ = *channel;
  if (rdma_migrate_id(id, channel_) != 0) return fail(errno);
  id_ = id;
  if (auto ok = handle_.add(channel_->fd); !ok) return ok;
  if (auto ok = make_endpoint(); !ok) return ok;
  if (auto ok = endpoint_->start(private_data_of(parameters)); !ok) return ok;
  const auto offer = endpoint_->offer();
  rdma_conn_param answer = parameters;
  answer.private_data = offer.data();
  answer.private_data_len = static_cast<std::uint8_t>(offer.size());
  phase_ = Phase::opening;
  if (rdma_accept(id_, &answer) != 0) return fail(errno);
  return {};
}

void Stream::fail_with(int error) {
  error_ = error;
  phase_ = Phase::failed;
}

Outcome<std::shared_ptr<Socket>> make_stream(Protocol protocol) {
  auto stream = Stream::make(protocol);
  if (!stream) return fail(stream.error());
  return std::shared_ptr<Socket>(std::move(*stream));
}

}  // namespace verbatim::rsocket
