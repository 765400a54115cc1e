#include "ulp/ipoib/driver/connected_port.h"

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "ulp/ipoib/connections.h"

namespace verbatim::ulp::ipoib {
namespace {

constexpr int kRefusedByPeer = 28;  // IBA 12.6.7.2: the peer's protocol says no.
constexpr int kBacklog = 64;

/// Neither side READs. A side that takes no part in sending has no work but that which ends it.
constexpr QueueSizes kSending{.sends = Connections::kInFlight,
                              .receives = 0,
                              .send_slices = 1,
                              .inline_bytes = 0,
                              .reads_in_flight = 0};
constexpr QueueSizes kReceiving{
    .sends = 1, .receives = 0, .send_slices = 1, .inline_bytes = 0, .reads_in_flight = 0};

}  // namespace

Result<std::unique_ptr<ConnectedPort>> ConnectedPort::create(rdma::Driver& driver,
                                                             DatagramQueue& queue,
                                                             const HardwareAddress& own, PKey pkey,
                                                             Events events) {
  std::unique_ptr<ConnectedPort> port(
      new ConnectedPort(driver, queue, own, pkey, std::move(events)));
  if (auto listens = port->listen(); !listens) return std::unexpected(listens.error());
  return port;
}

Result<void> ConnectedPort::listen() {
  for (const std::uint64_t form : {kServiceOfLinux, kServiceOfIetf}) {
    const auto listener = driver_.listen(
        rdma::InfinibandService{.service = service_of(own_.qpn, form), .pkey = pkey_}, kBacklog);
    if (listener) continue;
    return refuse(EPROTONOSUPPORT,
                  fmt::format("connected mode: {}. Linux's rdma_cm has no service ids but those of "
                              "ports, so with a card there is datagram mode alone",
                              listener.error().text));
  }
  return {};
}

PrivateData ConnectedPort::offer() const {
  return to_private_data(encode({.datagrams = own_.qpn, .receive_bytes = kReceiveBytes}));
}

void ConnectedPort::connect(const Connect& wanted) {
  const auto connection = driver_.connect(
      rdma::InfinibandService{
          .service = service_of(wanted.to.qpn), .gid = wanted.to.gid, .pkey = pkey_},
      {.source = SocketAddress::ipv6(own_.gid.bytes),
       .reads = {.initiator = 0, .responder = 0},
       .sizes = kSending,
       .private_data = offer()});
  if (!connection) {
    log(LogLevel::info, "{}: {}", wanted.to.text(), connection.error().text);
    return events_.on_ended(wanted.peer, connection.error().code == EPROTONOSUPPORT);
  }
  connections_[wanted.peer] = *connection;
  peers_[*connection] = wanted.peer;
}

bool ConnectedPort::send(const SendByConnection& wanted, TimeNs now) {
  const auto found = connections_.find(wanted.peer);
  const bool is_there = found != connections_.end() && driver_.connection(found->second) != nullptr;
  const Slice* const lent = is_there ? queue_.lend(wanted.type, wanted.packet) : nullptr;
  if (lent == nullptr) return events_.on_sent(wanted.peer), false;
  const Work send = Send{.payload = {lent, 1}, .done = Tag{queue_.number_of(*lent) + 1}};
  driver_.carry_out(found->second, {&send, 1}, now);
  return true;
}

void ConnectedPort::end(PeerId peer, TimeNs now) {
  const auto found = connections_.find(peer);
  if (found == connections_.end()) return;
  const rdma::ConnectionId connection = found->second;
  connections_.erase(found);
  driver_.disconnect(connection, "", now);
}

void ConnectedPort::on_requested(const rdma::Requested& requested, TimeNs now) {
  const auto answer = arrivals_.on_requested(raw(requested.connection), requested.meeting.peer_gid,
                                             requested.meeting.private_data, now);
  for (const Arrivals::Id id : answer.replaced) driver_.disconnect(rdma::ConnectionId{id}, "", now);
  if (answer.refusal != nullptr) {
    log(LogLevel::info, "connection of {}: {}", gid_text(requested.meeting.peer_gid),
        answer.refusal);
    return driver_.reject(requested.connection);
  }
  if (auto accepted = driver_.accept(requested.connection, kReceiving, offer()); !accepted)
    log(LogLevel::info, "{}", accepted.error().text);
}

void ConnectedPort::on_established(const rdma::Established& established) {
  const auto found = peers_.find(established.connection);
  if (found == peers_.end()) return;
  events_.on_connected(found->second, established.private_data);
}

void ConnectedPort::on_message(rdma::ConnectionId connection, TimeNs now) {
  arrivals_.on_message(raw(connection), now);
}

void ConnectedPort::on_done(rdma::ConnectionId connection, Tag tag) {
  queue_.give_back(raw(tag) - 1);
  if (const auto found = peers_.find(connection); found != peers_.end())
    events_.on_sent(found->second);
}

void ConnectedPort::on_end(rdma::ConnectionId connection, const rdma::End& end) {
  arrivals_.on_ended(raw(connection));
  const auto found = peers_.find(connection);
  if (found == peers_.end()) return;
  const PeerId peer = found->second;
  if (!end.words.empty()) log(LogLevel::info, "connection {}: {}", raw(peer), end.words);
  peers_.erase(found);
  connections_.erase(peer);
  events_.on_ended(peer, end.rejected && end.rejected->reason == kRefusedByPeer);
}

void ConnectedPort::on_time(TimeNs now) {
  for (const Arrivals::Id id : arrivals_.idle(now))
    driver_.disconnect(rdma::ConnectionId{id}, "", now);
}

}  // namespace verbatim::ulp::ipoib
