#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/overloaded.h"
#include "fabric/daemon/hosts/host_counters.h"
#include "fabric/daemon/hosts/host_facts.h"
#include "fabric/daemon/server.h"
#include "wire/mad/management_packet.h"

/// Datagrams between the net and programs.
namespace verbatim::fabric {
namespace {

/// Of an open port whose program does not read. Beyond it datagrams are lost.
constexpr std::size_t kQueueMax = 16'384;
constexpr std::size_t kQueuedBytesMax = 64 * 1024 * 1024;
/// A sweep of a subnet manager changes a port many times: that is told once.
constexpr TimeNs kChangeDelay = 20 * kMillisecond;
/// How old the counters of a host's view may be while it has an agent, as it has while programs
/// run.
constexpr TimeNs kCountersAge = kSecond;

Result<void> send(int fd, const Delivery& delivery) {
  protocol::ReceivedMad message;
  message.record = delivery.record;
  message.record.length = static_cast<std::uint32_t>(delivery.bytes.size());
  return protocol::send_mad(fd, message, delivery.bytes, MSG_DONTWAIT);
}
Result<void> send(int fd, const protocol::MulticastMember& member) {
  return protocol::send(fd, member, -1, MSG_DONTWAIT);
}

constexpr Overloaded kBytesOf{
    [](const Delivery& delivery) { return delivery.bytes.size(); },
    [](const protocol::MulticastMember& member) { return sizeof member; }};

}  // namespace

PortAgents& Server::agents_of(PortPlace port) {
  touched_.insert(port);
  return agents_[port];
}

PortGroups& Server::groups_of(PortPlace port) {
  PortAgents& agents = agents_of(port);
  return groups_.try_emplace(port, agents).first->second;
}

void Server::on_datagram(PortPlace port, const ManagementDatagram& datagram, TimeNs now) {
  if (datagram.destination_qp.value() > wire::kManagementQpn.value()) {
    return keeper_->hand_over(port, datagram);
  }
  agents_of(port).on_datagram(datagram, identifiers(net_, port), now);
}

void Server::take_from_programs(TimeNs now) {
  const auto arrived = keeper_->take_datagrams();
  for (const auto& [port, datagram] : arrived) net_.arrive_by_data(port, datagram, now);
  if (!arrived.empty()) carry_out(now);
}

void Server::carry_out(TimeNs now) {
  while (!touched_.empty()) {
    const PortPlace port = *touched_.begin();
    PortAgents& agents = agents_[port];
    const auto groups = groups_.find(port);
    // srp_daemon asks the ports that have it for their targets (IBA 16.3).
    net_.set_capability(port, wire::port_capability::kDeviceManagement,
                        agents.serves(wire::MadClass::device_management), now);
    while (auto output = agents.take_output()) {
      std::visit(
          Overloaded{[&](const Transmit& transmit) { net_.send(port, transmit.datagram, now); },
                     [&](Delivery& delivery) {
                       if (delivery.file == kOwnFile) {
                         groups->second.on_delivery(delivery, identifiers(net_, port), now);
                       } else {
                         const FileId file = delivery.file;
                         deliver(file, std::move(delivery));
                       }
                     }},
          *output);
    }
    TimeNs due = agents.deadline();
    if (groups != groups_.end()) {
      while (const auto told = groups->second.take_told()) deliver(told->file, told->message);
      due = std::min(due, groups->second.deadline());
    }
    touched_.erase(port);
    deadlines_.erase(port);
    if (due != kNever) deadlines_[port] = due;
  }
}

/// False: the socket has no room now. Whoever cannot be sent to for another reason has gone.
bool Server::send_now(int fd, const PortMessage& message) {
  const auto sent = std::visit([fd](const auto& one) { return send(fd, one); }, message);
  return sent || sent.error().code != EAGAIN;
}

void Server::deliver(FileId file, PortMessage message) {
  const auto found = connections_.find(static_cast<int>(raw(file)));
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  if (connection.queue.empty() && send_now(connection.fd.get(), message)) return;
  const std::size_t bytes = std::visit(kBytesOf, message);
  if (connection.queue.size() >= kQueueMax || connection.queued_bytes + bytes > kQueuedBytesMax) {
    log(LogLevel::warn, "a program does not read: a datagram is lost");
    return;
  }
  connection.queued_bytes += bytes;
  connection.queue.push_back(std::move(message));
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
    connection.queued_bytes -= std::visit(kBytesOf, connection.queue.front());
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

std::vector<HostFile> Server::counters_of(std::uint32_t host) const {
  std::vector<HostFile> files;
  for (unsigned port = 1; port <= net_.topology().nodes[host].ports; ++port) {
    const PortPlace place{.node = host, .port = static_cast<std::uint8_t>(port)};
    std::ranges::move(counter_files(port, net_.counters(place)), std::back_inserter(files));
  }
  return files;
}

Result<void> Server::show(std::uint32_t host) {
  const protocol::HostDescription facts = facts_of(host);
  auto view = views_.find(host);
  if (view == views_.end()) {
    view = views_.try_emplace(host, folder_.view(facts.guid), make_issm_files(host)).first;
  }
  auto shown = view->second.show(facts, counters_of(host));
  description_files_->watch(host, view->second.description_file());
  return shown;
}

/// A port whose file cannot be made has none.
std::vector<std::string> Server::make_issm_files(std::uint32_t host) {
  std::vector<std::string> files;
  for (unsigned port = 1; port <= net_.topology().nodes[host].ports; ++port) {
    const PortPlace place{host, static_cast<std::uint8_t>(port)};
    files.push_back(folder_.issm(net_.node_info(place).node_guid, port));
    (void)issm_files_->add(place, files.back());
  }
  return files;
}

/// A view that cannot be written keeps its older values.
void Server::show_counters(TimeNs now) {
  counters_due_ = kNever;
  for (const auto& [host, view] : views_) {
    if (!watchers_.contains(host)) continue;
    counters_due_ = now + kCountersAge;
    (void)show(host);
  }
}

void Server::on_port_changed(PortPlace port) {
  if (!views_.contains(port.node) && !watchers_.contains(port.node) && !groups_.contains(port)) {
    return;
  }
  changed_hosts_.insert(port.node);
  if (changes_due_ == kNever) changes_due_ = monotonic_now() + kChangeDelay;
}

void Server::tell_changed_hosts() {
  changes_due_ = kNever;
  for (const std::uint32_t host : std::exchange(changed_hosts_, {})) {
    const protocol::HostDescription facts = facts_of(host);
    for (auto& [port, groups] : groups_) {
      if (port.node != host) continue;
      groups_of(port).on_port_changed(identifiers(net_, port), monotonic_now());
    }
    if (views_.contains(host)) {
      const auto shown = show(host);
      if (!shown) log(LogLevel::warn, "{}", shown.error().text);
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
