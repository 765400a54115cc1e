#include "ulp/rds/driver/info.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include <arpa/inet.h>

namespace verbatim::ulp::rds {
namespace {

// linux/rds.h, whose C is no C++ everywhere.
enum Option : std::int32_t {
  kCounters = 10'000,
  kConnections = 10'001,
  kSendMessages = 10'003,
  kRepeatedMessages = 10'004,
  kReceivedMessages = 10'005,
  kSockets = 10'006,
  kTcpSockets = 10'007,
  kInfinibandConnections = 10'008,
};

struct __attribute__((packed)) CounterElement {
  char name[32];
  std::uint64_t value;
};
struct __attribute__((packed)) ConnectionElement {
  std::uint64_t next_sent, next_received;
  std::uint8_t own[4], peer[4];
  char transport[16];
  std::uint8_t flags, tos;
};
enum ConnectionFlag : std::uint8_t { kSending = 1, kConnecting = 2, kConnected = 4 };
struct __attribute__((packed)) MessageElement {
  std::uint64_t sequence;
  std::uint32_t bytes;
  std::uint8_t own[4], peer[4];
  std::uint16_t own_port, peer_port;
  std::uint8_t flags, tos;
};
struct __attribute__((packed)) SocketElement {
  std::uint32_t send_buffer;
  std::uint8_t own[4], peer[4];
  std::uint16_t own_port, peer_port;
  std::uint32_t receive_buffer;
  std::uint64_t inode;
};
struct LinkElement {
  std::uint8_t own[4], peer[4];
  std::uint8_t own_gid[16], peer_gid[16];
  std::uint32_t sends, receives, slices, regions, region_pages;
  std::uint8_t tos, sl;
  std::uint32_t cache;
};

void put_address(std::uint8_t (&to)[4], const SocketAddress& address) {
  const auto bytes = address.ipv4_bytes();
  std::memcpy(to, bytes.data(), bytes.size());
}

template <typename Element>
class List {
 public:
  void add(const Element& element) {
    const auto bytes = std::as_bytes(std::span(&element, 1));
    info_.bytes.insert(info_.bytes.end(), bytes.begin(), bytes.end());
  }
  Info take() { return std::move(info_); }

 private:
  Info info_{.each = sizeof(Element)};
};

Info counters(const Broker& broker) {
  List<CounterElement> list;
  const auto add = [&](std::string_view name, std::uint64_t value) {
    CounterElement element{};
    name.copy(element.name, sizeof element.name - 1);
    element.value = value;
    list.add(element);
  };
  std::uint64_t sent = 0, received = 0, connects = 0;
  for (const auto& [pair, peer] : broker.peers()) {
    sent += peer->sent;
    received += peer->received;
    connects += peer->connects;
  }
  add("send_queued", sent);
  add("recv_queued", received);
  add("recv_ping", broker.counters().pings);
  add("recv_drop_no_sock", broker.counters().no_socket);
  add("conn_connects", connects);
  add("conn_refused", broker.counters().refused);
  add("conn_faults", broker.counters().faults);
  return list.take();
}

Info connections(const Broker& broker) {
  List<ConnectionElement> list;
  for (const auto& [pair, peer] : broker.peers()) {
    ConnectionElement element{};
    element.next_sent = peer->connection.next_sequence();
    element.next_received = peer->connection.received() + 1;
    put_address(element.own, pair.own);
    put_address(element.peer, pair.peer);
    std::memcpy(element.transport, "infiniband", 10);
    if (peer->state == Peer::State::up) element.flags = kConnected;
    if (peer->state == Peer::State::connecting || peer->state == Peer::State::accepting)
      element.flags = kConnecting;
    element.tos = pair.tos;
    list.add(element);
  }
  return list.take();
}

Info messages(const Broker& broker, bool sent) {
  List<MessageElement> list;
  for (const auto& [pair, peer] : broker.peers()) {
    for (std::size_t i = 0; i < peer->connection.queue().size(); ++i) {
      if (peer->connection.was_sent(i) != sent) continue;
      const Outgoing& message = peer->connection.queue()[i];
      MessageElement element{};
      element.sequence = message.sequence;
      element.bytes = message.bytes;
      put_address(element.own, pair.own);
      put_address(element.peer, pair.peer);
      element.own_port = htons(message.source_port);
      element.peer_port = htons(message.destination_port);
      element.tos = pair.tos;
      list.add(element);
    }
  }
  return list.take();
}

Info received(const Broker& broker) {
  List<MessageElement> list;
  for (const auto& [id, socket] : broker.sockets()) {
    for (const auto& held : socket.held) {
      MessageElement element{};
      element.bytes = static_cast<std::uint32_t>(held.bytes.size());
      put_address(element.own, held.from);
      put_address(element.peer, socket.own);
      element.own_port = htons(held.from.port());
      element.peer_port = htons(socket.own.port());
      list.add(element);
    }
  }
  return list.take();
}

Info sockets(const Broker& broker) {
  List<SocketElement> list;
  for (const auto& [id, socket] : broker.sockets()) {
    if (socket.own.empty()) continue;  // Also those that only keep the broker.
    SocketElement element{};
    element.send_buffer = socket.send_limit;
    element.receive_buffer = socket.receive_limit;
    put_address(element.own, socket.own);
    put_address(element.peer, socket.peer);
    if (!socket.own.empty()) element.own_port = htons(socket.own.port());
    if (!socket.peer.empty()) element.peer_port = htons(socket.peer.port());
    element.inode = raw(id);
    list.add(element);
  }
  return list.take();
}

Info links(const Broker& broker) {
  List<LinkElement> list;
  for (const auto& [pair, peer] : broker.peers()) {
    LinkElement element{};
    put_address(element.own, pair.own);
    put_address(element.peer, pair.peer);
    const Gid own = gid_of(pair.own), there = gid_of(pair.peer);
    std::memcpy(element.own_gid, own.bytes.data(), sizeof element.own_gid);
    std::memcpy(element.peer_gid, there.bytes.data(), sizeof element.peer_gid);
    element.sends = 256;
    element.receives = 1024;
    element.slices = 2;
    element.tos = pair.tos;
    list.add(element);
  }
  return list.take();
}

}  // namespace

Result<Info> info_of(std::int32_t option, const Broker& broker) {
  switch (option) {
    case kCounters:
      return counters(broker);
    case kConnections:
      return connections(broker);
    case kSendMessages:
      return messages(broker, false);
    case kRepeatedMessages:
      return messages(broker, true);
    case kReceivedMessages:
      return received(broker);
    case kSockets:
      return sockets(broker);
    case kTcpSockets:
      return Info{.each = 1};
    case kInfinibandConnections:
      return links(broker);
    default:
      return refuse(ENOPROTOOPT, "no such list");
  }
}

}  // namespace verbatim::ulp::rds
