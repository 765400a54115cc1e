#include "dropin/rdmacm/manager.h"

#include <cerrno>
#include <cstdlib>

#include <pthread.h>
#include <sys/random.h>

#include "base/log.h"

namespace verbatim::rdmacm {
namespace {

/// The process's only manager. Never destroyed: the background thread and the program's threads may
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
/// The ids in a child belong to the parent; the child gets its own manager when it creates new
/// ones.
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
  // Before the handlers are registered: libibverbs' handler must be registered first, so that a
  // fork takes the two locks in the usual order.
  VerbatimNode node;
  if (const int error = services->join(&node)) return refuse(error, "no node to be part of");
  static const int registered = pthread_atfork(before_fork, in_parent, in_child);
  if (registered != 0) return refuse(registered, "pthread_atfork found no memory");
  const std::lock_guard guard(own.lock);
  if (Manager* const manager = own.manager.load(std::memory_order_relaxed)) return manager;
  std::unique_ptr<Manager> manager(new Manager(services, node));
  if (auto started = manager->start(); !started) return std::unexpected(started.error());
  own.manager.store(manager.get(), std::memory_order_release);
  static constexpr VerbatimEvents kEvents{.on_mad = on_mad, .on_port_changed = on_port_changed};
  services->set_events(&kEvents);
  return manager.release();
}

Manager* Manager::existing() { return process().manager.load(std::memory_order_acquire); }

Manager::Manager(const VerbatimServices* services, const VerbatimNode& node)
    : services_(services),
      node_(node),
      addresses_(node.is_infiniband                         ? connect::OwnLoopback::localhost
                 : std::string_view(node.interface) == "lo" ? connect::OwnLoopback::none
                                                            : connect::OwnLoopback::any) {
  take_addresses(node);
}

void Manager::take_addresses(const VerbatimNode& node) {
  static_assert(connect::Addresses::kMax >= std::size(VerbatimNode{}.gids));
  for (std::size_t i = addresses_.size(); i < node.gid_count; ++i) {
    addresses_.add(
        {.address = load(node.gids[i].address),
         .gid = to_gid(node.gids[i].gid),
         .gid_index = static_cast<std::uint8_t>(node.is_iwarp || node.gids[i].port != 1 ? 0 : i),
         .port = node.gids[i].port});
  }
}

Result<void> Manager::start() {
  const char* const wishes = std::getenv("VERBATIM_MPA");
  auto made = node_.is_iwarp
                  ? connect::make_mpa_service(*this, *this, addresses_, random_seed(),
                                              wishes != nullptr ? wishes : "")
                  : connect::make_ib_service(*this, *this,
                                             {.slot = static_cast<std::uint16_t>(node_.slot),
                                              .node_guid = node_.guid,
                                              .seed = random_seed()});
  if (!made) return std::unexpected(made.error());
  service_ = std::move(*made);
  return {};
}

void Manager::open(Id& id, connect::ConnectionId connection) {
  id.connection.number = connection;
  id.connection.is_open = true;
  connections_.emplace(connection, &id);
}

void Manager::close(Id& id) {
  if (!id.connection.is_open) return;
  connections_.erase(id.connection.number);
  id.connection.is_open = false;
}

void Manager::remove_listener(Id& id) {
  if (!id.listener) return;
  service_->unlisten(*id.listener);
  listeners_.erase(*id.listener);
  id.listener.reset();
}

Id* Manager::find(connect::ConnectionId connection) const {
  const auto found = connections_.find(connection);
  return found == connections_.end() ? nullptr : found->second;
}

// Called by the background thread.

void Manager::on_mad(const arena::FlatPath* source, const sockaddr* destination, const void* mad) {
  Manager* const manager = existing();
  if (manager == nullptr) return;
  const auto from = arena::path_of(*source);
  const auto to = SocketAddress::from(destination, sizeof(sockaddr_storage));
  if (!from || !to) return;
  const ByteSpan bytes(static_cast<const std::byte*>(mad), connect::kMadBytes);
  const std::lock_guard guard(manager->lock);
  manager->service_->on_mad(bytes, *from, *to);
}

void Manager::on_path(std::uint64_t number, int error, const ibv_sa_path_rec* record) {
  Manager* const manager = existing();
  if (manager == nullptr) return;
  const std::lock_guard guard(manager->lock);
  manager->finish_query(number, error, record);
}

void Manager::on_ready(std::uint64_t tag) {
  Manager* const manager = existing();
  if (manager == nullptr) return;
  Qpn qpn;
  {
    const std::lock_guard guard(manager->lock);
    qpn = manager->service_->queue_pair_of(tag);
  }
  if (qpn != Qpn{}) manager->services_->drain_stream(qpn.value());
  const std::lock_guard guard(manager->lock);
  manager->service_->on_ready(tag);
}

/// As in the kernel: ids of the device get an event if the device is removed, or if its interface's
/// hardware address changes. A synchronous id, which waits for another event, gets the former as a
/// failure.
void Manager::on_port_changed(const VerbatimPortChange* change) {
  Manager* const manager = existing();
  if (manager == nullptr) return;
  const std::lock_guard guard(manager->lock);
  manager->node_.active_mtu = change->node->active_mtu;
  manager->node_.pkey = change->node->pkey;  // The rest is unchanged.
  manager->take_addresses(*change->node);
  manager->addresses_.set_valid(change->gids);
  manager->service_->on_addresses_changed();
  for (Id* const id : manager->ids_of_device_) {
    if (change->is_removed) {
      const int status = id->is_synchronous ? -ENODEV : 0;
      manager->push(*id, make_event(*id, RDMA_CM_EVENT_DEVICE_REMOVAL, status));
    } else if (change->has_new_hardware_address && !id->is_synchronous) {
      manager->push(*id, make_event(*id, RDMA_CM_EVENT_ADDR_CHANGE, 0));
    }
  }
}

}  // namespace verbatim::rdmacm
