#include "dropin/rdmacm/manager.h"

#include <cerrno>
#include <cstdlib>

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/random.h>

#include "base/log.h"

namespace verbatim::rdmacm {
namespace {

/// The process's one manager. Never destroyed: the background thread and the program's threads may
/// call while the process exits.
struct Process {
  std::mutex lock;
  std::atomic<Manager*> manager{nullptr};
};

Process& process() {
  static Process* const one = new Process;
  return *one;
}

void before_fork() { process().lock.lock(); }
void in_parent() { process().lock.unlock(); }
/// The child's ids are the parent's: it gets a manager of its own when it makes new ones.
void in_child() {
  process().manager.store(nullptr);
  process().lock.unlock();
}

SocketAddress load(const sockaddr_storage& from) {
  return SocketAddress::from(reinterpret_cast<const sockaddr*>(&from), sizeof from)
      .value_or(SocketAddress());
}

std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  [[maybe_unused]] const auto got = getrandom(&seed, sizeof seed, 0);
  return seed;
}

}  // namespace

Psn random_psn() { return Psn(static_cast<std::uint32_t>(random_seed())); }

Result<Manager*> Manager::get() {
  Process& own = process();
  if (Manager* const manager = own.manager.load(std::memory_order_acquire)) return manager;
  const VerbatimServices* const services = verbatim_services(dropin::kServicesVersion);
  if (services == nullptr) {
    return refuse(ENOSYS, "libibverbs.so.1 and librdmacm.so.1 come from different builds");
  }
  // Before the handlers are registered: libibverbs' own must come first, so that a fork takes the
  // two locks in the order in which we do.
  VerbatimNode node;
  if (const int error = services->join(&node)) return refuse(error, "no node to be part of");
  static const int registered = pthread_atfork(before_fork, in_parent, in_child);
  if (registered != 0) return refuse(registered, "pthread_atfork found no memory");
  const std::lock_guard guard(own.lock);
  if (Manager* const manager = own.manager.load(std::memory_order_relaxed)) return manager;
  std::unique_ptr<Manager> manager(new Manager(services, node, random_seed()));
  if (auto started = manager->start(); !started) return std::unexpected(started.error());
  own.manager.store(manager.get(), std::memory_order_release);
  static constexpr VerbatimEvents kEvents{.on_mad = on_mad, .on_port_changed = on_port_changed};
  services->set_events(&kEvents);
  return manager.release();
}

Manager::Manager(const VerbatimServices* services, const VerbatimNode& node, std::uint64_t seed)
    : services_(services),
      node_(node),
      addresses_(std::string_view(node.interface) == "lo"),
      engine_(
          {.slot = static_cast<std::uint16_t>(node.slot), .node_guid = node.guid, .seed = seed}) {
  take_addresses(node);
}

void Manager::take_addresses(const VerbatimNode& node) {
  for (std::size_t i = addresses_.size(); i < node.gid_count; ++i) {
    addresses_.add({.address = load(node.gids[i].address),
                    .gid = to_gid(node.gids[i].gid),
                    .gid_index = static_cast<std::uint8_t>(node.is_iwarp ? 0 : i)});
  }
}

Result<void> Manager::start() {
  auto timer_fd = TimerFd::create();
  if (!timer_fd) return std::unexpected(timer_fd.error());
  timer_fd_ = std::move(*timer_fd);
  if (const int error = services_->watch(timer_fd_.fd(), EPOLLIN, on_timer_fd, 0)) {
    return refuse(error, "the background thread takes no descriptor");
  }
  if (!node_.is_iwarp) return {};
  const char* const wanted = std::getenv("VERBATIM_MPA");
  const auto wishes = cm::parse_mpa_options(wanted != nullptr ? wanted : "");
  if (!wishes) return refuse(EINVAL, "VERBATIM_MPA: " + wishes.error().text);
  streams_ = std::make_unique<Streams>(*this, random_seed(), *wishes);
  return streams_->start();
}

/// The program has done with a connection, in whatever state.
void Manager::release(cm::ConnectionId connection) {
  if (streams_ != nullptr) return streams_->release(connection);
  step([&](cm::ConnectionManager& engine, TimeNs now, cm::Effects& out) {
    engine.release(connection, now, out);
    return 0;
  });
}

void Manager::open(Id& id, cm::ConnectionId connection) {
  id.connection.number = connection;
  id.connection.is_open = true;
  connections_.emplace(connection, &id);
}

void Manager::close(Id& id) {
  if (!id.connection.is_open) return;
  connections_.erase(id.connection.number);
  id.connection.is_open = false;
  if (id.connection.entry) {
    services_->set_connection(*id.connection.entry, nullptr);
    free_entries_.push_back(*id.connection.entry);
    id.connection.entry.reset();
  }
}

void Manager::remove_listener(Id& id) {
  if (!id.listener) return;
  streams_ != nullptr ? streams_->unlisten(*id.listener) : engine_.unlisten(*id.listener);
  listeners_.erase(*id.listener);
  id.listener.reset();
}

void Manager::note_progress(Id& id, bool is_established) {
  Connection& connection = id.connection;
  if (!connection.is_open || streams_ != nullptr) return;  // The kernel ends a program's streams.
  if (!connection.entry && !free_entries_.empty()) {
    connection.entry = free_entries_.back();
    free_entries_.pop_back();
  } else if (!connection.entry && entries_ < services_->connections_max) {
    connection.entry = entries_++;
  }
  if (!connection.entry) return;  // More than the table holds: their peers wait for a time-out.
  VerbatimConnection told{.is_established = is_established,
                          .has_sent_reply = connection.is_passive,
                          .local_id = raw(connection.number),
                          .remote_id = engine_.peer_id(connection.number),
                          .remote_qpn = connection.plan.peer.qpn.value(),
                          .local = {},
                          .remote = {}};
  std::memcpy(&told.local, connection.plan.path.local.data(), connection.plan.path.local.size());
  std::memcpy(&told.remote, connection.plan.path.remote.data(), connection.plan.path.remote.size());
  services_->set_connection(*connection.entry, &told);
}

Id* Manager::find(cm::ConnectionId connection) const {
  const auto found = connections_.find(connection);
  return found == connections_.end() ? nullptr : found->second;
}

// The background thread.

void Manager::on_mad(const sockaddr* source, const sockaddr* destination, const void* mad) {
  Manager* const manager = process().manager.load(std::memory_order_acquire);
  if (manager == nullptr) return;
  const auto from = SocketAddress::from(source, sizeof(sockaddr_storage));
  const auto to = SocketAddress::from(destination, sizeof(sockaddr_storage));
  if (!from || !to) return;
  const ByteSpan bytes(static_cast<const std::byte*>(mad), wire::kMadBytes);
  const std::lock_guard guard(manager->lock);
  manager->step([&](cm::ConnectionManager& engine, TimeNs now, cm::Effects& out) {
    engine.on_mad(bytes, *from, *to, now, out);
    return 0;
  });
}

void Manager::on_timer_fd(std::uint64_t) {
  Manager* const manager = process().manager.load(std::memory_order_acquire);
  if (manager == nullptr) return;
  const std::lock_guard guard(manager->lock);
  manager->timer_fd_.clear();
  manager->step([](cm::ConnectionManager& engine, TimeNs now, cm::Effects& out) {
    engine.on_timeout(now, out);
    return 0;
  });
}

/// As the kernel: an id of the device hears that the device is gone, or that its interface's
/// hardware address is another. A synchronous id waits for other events and hears the first as
/// their failure.
void Manager::on_port_changed(const VerbatimPortChange* change) {
  Manager* const manager = process().manager.load(std::memory_order_acquire);
  if (manager == nullptr) return;
  const std::lock_guard guard(manager->lock);
  manager->node_.active_mtu = change->node->active_mtu;  // All else stays.
  manager->take_addresses(*change->node);
  manager->addresses_.set_valid(change->gids);
  if (manager->streams_ != nullptr) manager->streams_->follow_addresses();
  for (Id* const id : manager->ids_of_device_) {
    if (change->is_removed) {
      const int status = id->is_synchronous ? -ENODEV : 0;
      manager->push(*id, make_event(*id, RDMA_CM_EVENT_DEVICE_REMOVAL, status));
    } else if (change->has_new_hardware_address && !id->is_synchronous) {
      manager->push(*id, make_event(*id, RDMA_CM_EVENT_ADDR_CHANGE, 0));
    }
  }
}

void Manager::arm_timer_fd() {
  const TimeNs at = engine_.deadline();
  // An alarm that comes too early finds nothing to do; most answers come long before theirs.
  if (at < timer_fd_.at()) timer_fd_.set(at);
}

}  // namespace verbatim::rdmacm
