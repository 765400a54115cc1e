#include <cerrno>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/overloaded.h"
#include "fabric/daemon/hosts/host_facts.h"
#include "fabric/daemon/hosts/host_view.h"
#include "fabric/daemon/server.h"

/// Datagrams between the net and programs.
namespace verbatim::fabric {
namespace {

/// Of an open port whose program does not read. Beyond it datagrams are lost.
constexpr std::size_t kQueueMax = 16'384;
/// A sweep of a subnet manager changes a port many times: that is told once.
constexpr TimeNs kChangeDelay = 20 * kMillisecond;

bool send_now(int fd, const Delivery& delivery) {
  protocol::ReceivedMad message;
  message.record = delivery.record;
  message.record.length = static_cast<std::uint32_t>(delivery.bytes.size());
  const auto sent = protocol::send_mad(fd, message, delivery.bytes, MSG_DONTWAIT);
  // Whoever cannot be sent to for another reason has gone.
  return sent || sent.error().code != EAGAIN;
}

}  // namespace

PortAgents& Server::agents_of(PortPlace port) {
  touched_.insert(port);
  return agents_[port];
}

void Server::on_datagram(PortPlace port, const ManagementDatagram& datagram, TimeNs now) {
  agents_of(port).on_datagram(datagram, identifiers(net_, port), now);
}

void Server::carry_out(TimeNs now) {
  while (!touched_.empty()) {
    const PortPlace port = *touched_.begin();
    PortAgents& agents = agents_[port];
    while (auto output = agents.take_output()) {
      std::visit(
          Overloaded{[&](const Transmit& transmit) { net_.send(port, transmit.datagram, now); },
                     [&](Delivery& delivery) { deliver(std::move(delivery)); }},
          *output);
    }
    touched_.erase(port);
    deadlines_.erase(port);
    if (agents.deadline() != kNever) deadlines_[port] = agents.deadline();
  }
}

void Server::deliver(Delivery delivery) {
  const auto found = connections_.find(static_cast<int>(raw(delivery.file)));
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  if (connection.queue.empty() && send_now(connection.fd.get(), delivery)) return;
  if (connection.queue.size() >= kQueueMax) {
    log(LogLevel::warn, "a program does not read: a datagram is lost");
    return;
  }
  connection.queue.push_back(std::move(delivery));
  wait_for_room(connection, true);
}

void Server::wait_for_room(const Connection& connection, bool wanted) const {
  const std::uint32_t events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN;
  epoll_event event{.events = events, .data = {.fd = connection.fd.get()}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.fd.get(), &event);
}

void Server::flush(Connection& connection) {
  if (connection.queue.empty() && !connection.is_behind) return;
  while (!connection.queue.empty()) {
    if (!send_now(connection.fd.get(), connection.queue.front())) return;
    connection.queue.pop_front();
  }
  wait_for_room(connection, false);
  if (std::exchange(connection.is_behind, false)) {
    tell(connection, facts_of(*connection.watched_host));
  }
}

protocol::HostDescription Server::facts_of(std::uint32_t host) const {
  protocol::HostDescription facts = describe(net_, host);
  facts.fabric_id = id_;
  facts.address = addresses_.address_of(host).ipv4_bytes();
  return facts;
}

void Server::on_port_changed(PortPlace port) {
  if (!hosts_with_view_.contains(port.node) && !watchers_.contains(port.node)) return;
  changed_hosts_.insert(port.node);
  if (changes_due_ == kNever) changes_due_ = monotonic_now() + kChangeDelay;
}

void Server::tell_changed_hosts() {
  changes_due_ = kNever;
  for (const std::uint32_t host : std::exchange(changed_hosts_, {})) {
    const protocol::HostDescription facts = facts_of(host);
    if (hosts_with_view_.contains(host)) {
      const auto written = write_view(folder_.view(facts.guid), facts);
      if (!written) log(LogLevel::warn, "{}", written.error().text);
    }
    const auto [first, last] = watchers_.equal_range(host);
    for (auto watcher = first; watcher != last; ++watcher) {
      tell(connections_.at(watcher->second), facts);
    }
  }
}

void Server::tell(Connection& watcher, const protocol::HostDescription& facts) {
  const auto sent = protocol::send(watcher.fd.get(), facts, -1, MSG_DONTWAIT);
  watcher.is_behind = !sent && sent.error().code == EAGAIN;
  if (watcher.is_behind) wait_for_room(watcher, true);
}

}  // namespace verbatim::fabric
