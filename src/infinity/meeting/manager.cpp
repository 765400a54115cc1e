#include "infinity/meeting/manager.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <poll.h>

#include "infinity/failure.h"

namespace infinity::detail {
namespace {

using Clock = std::chrono::steady_clock;
using Event = Owned<rdma_cm_event, rdma_ack_cm_event>;

constexpr int kResolveTime_ms = 5'000;
constexpr std::chrono::seconds kConnectTime(60);
constexpr std::chrono::seconds kDisconnectTime(2);

/// Returns the channel's next event; empty if the time is over or the TCP connection (-1: none) has
/// ended.
Event next_event(rdma_event_channel* channel, Clock::time_point end, int socket = -1) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    pollfd watched[] = {{.fd = channel->fd, .events = POLLIN, .revents = 0},
                        {.fd = socket, .events = POLLRDHUP, .revents = 0}};
    const int ready = poll(watched, 2, static_cast<int>(std::max<long long>(left.count(), 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (watched[0].revents != 0) {
      rdma_cm_event* event = nullptr;
      if (rdma_get_cm_event(channel, &event) != 0) fail(errno, "rdma_cm tells of no event");
      return Event(event);
    }
    return nullptr;
  }
}

void expect(const Event& event, rdma_cm_event_type type) {
  if (!event) refuse("the other side does not answer rdma_cm");
  if (event->event == type) return;
  refuse("rdma_cm does not connect: ", rdma_event_str(event->event), ", status ", event->status);
}

rdma_conn_param parameters(const Device& device, std::uint32_t queue_pair,
                           const std::uint64_t* ticket) {
  constexpr int kReads = 16;
  rdma_conn_param result{};
  result.qp_num = queue_pair;
  result.responder_resources =
      static_cast<std::uint8_t>(std::clamp(device.limits.max_qp_rd_atom, 1, kReads));
  result.initiator_depth =
      static_cast<std::uint8_t>(std::clamp(device.limits.max_qp_init_rd_atom, 1, kReads));
  if (ticket != nullptr) {
    result.private_data = ticket;
    result.private_data_len = sizeof *ticket;
  }
  return result;
}

bool shows(const rdma_cm_event& event, std::uint64_t ticket) {
  return event.param.conn.private_data != nullptr &&
         event.param.conn.private_data_len >= sizeof ticket &&
         std::memcmp(event.param.conn.private_data, &ticket, sizeof ticket) == 0;
}

}  // namespace

Manager::Manager() : channel_(rdma_create_event_channel()) {
  if (!channel_) fail(errno, "there is no event channel of rdma_cm");
}

std::unique_ptr<Manager> Manager::listen(sa_family_t family) {
  std::unique_ptr<Manager> manager(new Manager);
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(manager->channel_.get(), &id, nullptr, RDMA_PS_TCP) != 0)
    fail(errno, "there is no id of rdma_cm");
  manager->listener_.reset(id);
  sockaddr_storage any{};
  any.ss_family = family;
  if (rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&any)) != 0 || rdma_listen(id, 16) != 0)
    fail(errno, "rdma_cm cannot listen");
  return manager;
}

std::uint16_t Manager::port() const { return ntohs(rdma_get_src_port(listener_.get())); }

void Manager::accept(const Device& device, std::uint32_t queue_pair, std::uint64_t ticket,
                     int socket) {
  const auto end = Clock::now() + kConnectTime;
  while (!id_) {
    const Event event = next_event(channel_.get(), end, socket);
    if (!event) refuse("the other side does not connect by rdma_cm");
    if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) continue;
    Owned<rdma_cm_id, rdma_destroy_id> asking(event->id);
    if (event->id->verbs == device.context && shows(*event, ticket)) {
      id_ = std::move(asking);
    } else {
      rdma_reject(event->id, nullptr, 0);
    }
  }
  rdma_conn_param answer = parameters(device, queue_pair, nullptr);
  if (rdma_accept(id_.get(), &answer) != 0) fail(errno, "rdma_cm does not accept");
  for (;;) {
    const Event event = next_event(channel_.get(), end, socket);
    if (event && event->id != id_.get()) continue;
    expect(event, RDMA_CM_EVENT_ESTABLISHED);
    break;
  }
  is_connected_ = true;
  listener_.reset();
}

void Manager::resolve(const Device& device, sockaddr_storage address) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel_.get(), &id, nullptr, RDMA_PS_TCP) != 0)
    fail(errno, "there is no id of rdma_cm");
  id_.reset(id);
  const auto end = Clock::now() + std::chrono::milliseconds(2 * kResolveTime_ms);
  if (rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&address), kResolveTime_ms) != 0)
    fail(errno, "rdma_cm cannot resolve the other side's address");
  expect(next_event(channel_.get(), end), RDMA_CM_EVENT_ADDR_RESOLVED);
  if (id->verbs != device.context)
    refuse("the other side's address is reached by another device than the context's");
  if (rdma_resolve_route(id, kResolveTime_ms) != 0) fail(errno, "rdma_cm has no route");
  expect(next_event(channel_.get(), end), RDMA_CM_EVENT_ROUTE_RESOLVED);
}

std::unique_ptr<Manager> Manager::connect(const Device& device, const sockaddr_storage& address,
                                          std::uint32_t queue_pair, std::uint64_t ticket) {
  std::unique_ptr<Manager> manager(new Manager);
  manager->resolve(device, address);
  rdma_conn_param wanted = parameters(device, queue_pair, &ticket);
  if (rdma_connect(manager->id_.get(), &wanted) != 0) fail(errno, "rdma_cm does not connect");
  const Event event = next_event(manager->channel_.get(), Clock::now() + kConnectTime);
  // Over iWARP, Linux establishes the connection by itself; otherwise the owner of the queue pair
  // does.
  if (event && event->event == RDMA_CM_EVENT_CONNECT_RESPONSE) {
    if (rdma_establish(manager->id_.get()) != 0) fail(errno, "rdma_cm does not establish");
  } else {
    expect(event, RDMA_CM_EVENT_ESTABLISHED);
  }
  manager->is_connected_ = true;
  return manager;
}

std::optional<sockaddr_storage> Manager::address_of(const Device& device) {
  std::vector<sockaddr_in> candidates;
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) == 0) {
    for (const ifaddrs* one = found; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET)
        candidates.push_back(*reinterpret_cast<const sockaddr_in*>(one->ifa_addr));
    }
    freeifaddrs(found);
  }
  // No interface lists the addresses of 127.0.0.0/8 that Verbatim's nodes may have.
  const char* const of_node = std::getenv("VERBATIM_ADDRESS");
  std::istringstream list(of_node == nullptr ? "" : of_node);
  for (std::string text; std::getline(list, text, ',');) {
    sockaddr_in address{.sin_family = AF_INET};
    if (inet_pton(AF_INET, text.c_str(), &address.sin_addr) == 1) candidates.push_back(address);
  }
  const Manager manager;
  for (sockaddr_in& address : candidates) {
    address.sin_port = 0;
    rdma_cm_id* id = nullptr;
    if (rdma_create_id(manager.channel_.get(), &id, nullptr, RDMA_PS_TCP) != 0) break;
    const Owned<rdma_cm_id, rdma_destroy_id> owned(id);
    if (rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)) != 0 ||
        id->verbs != device.context)
      continue;
    sockaddr_storage result{};
    std::memcpy(&result, &address, sizeof address);
    return result;
  }
  return std::nullopt;
}

Manager::~Manager() {
  if (!is_connected_ || rdma_disconnect(id_.get()) != 0) return;
  const auto end = Clock::now() + kDisconnectTime;
  for (;;) {
    const Event event = next_event(channel_.get(), end);
    if (!event || event->event == RDMA_CM_EVENT_DISCONNECTED) return;
  }
}

}  // namespace infinity::detail
