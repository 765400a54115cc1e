#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "adapter/queues/event_queue.h"
#include "base/error.h"
#include "base/net/address.h"
#include "connect/connection_service.h"
#include "connect/queue_pair_plan.h"
#include "dropin/rdmacm/rdmacm.h"

/// The objects behind the structures that programs see; each begins with the public structure.
/// Protected by Manager::lock unless stated otherwise.
namespace verbatim::rdmacm {

struct Id;
class Manager;

/// Counts the events of an object that were delivered, and acknowledged.
class EventCount {
 public:
  void deliver() { delivered_.fetch_add(1, std::memory_order_relaxed); }
  void acknowledge() {
    const std::lock_guard guard(lock_);
    ++acknowledged_;
    changed_.notify_all();
  }
  /// Requires that no further event is delivered.
  void wait_for_acknowledgements() {
    std::unique_lock guard(lock_);
    changed_.wait(guard, [this] { return acknowledged_ == delivered_.load(); });
  }

 private:
  // Incremented by the thread that takes an event from its queue.
  std::atomic<std::uint32_t> delivered_{0};
  std::mutex lock_;
  std::condition_variable changed_;
  std::uint32_t acknowledged_ = 0;
};

struct Multicast {
  Id* id = nullptr;
  void* context = nullptr;
  sockaddr_storage address{};
  ibv_gid group{};
  std::uint16_t lid = 0;         // Of a fabric's group; else 0.
  std::uint32_t membership = 0;  // In a fabric's group; else 0.
  bool is_member = false;        // The subnet administrator has confirmed the join.
  std::uint8_t join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER;
  EventCount events;
};

struct Event {
  rdma_cm_event verbs{};
  // The id that the event belongs to: the listener, if `verbs.id` is a new one.
  Id* subject = nullptr;
  Multicast* multicast = nullptr;
  connect::PrivateData private_data;
};

struct Channel {
  rdma_event_channel verbs;
  adapter::EventQueue<Event*> events;
};

/// Returns the first PSN of a queue pair. An id has it from the start: programs that move their
/// queue pairs themselves ask for it before they accept.
Psn random_psn();

enum class IdState : std::uint8_t {
  idle,
  bound,
  address_resolved,
  resolving_route,  // InfiniBand: waits for the subnet administrator's answer.
  route_resolved,
  listening,
  requested,  // This side must answer a request.
  connecting,
  connected,
  ended,
};

/// Options set by `rdma_set_option`.
struct IdOptions {
  std::uint8_t traffic_class = 0;
  bool reuses_address = false;
  std::optional<bool> own_family_only;
  std::optional<std::uint8_t> ack_timeout;
};

/// The id's connection.
struct Connection {
  connect::ConnectionId number{};
  bool is_open = false;  // `number` is valid.
  bool is_passive = false;
  connect::IpEndpoints ends;
  connect::QueuePairPlan plan;
};

struct Id {
  explicit Id(const Manager* owning) : owner(owning) { connection.plan.own_psn = random_psn(); }
  rdma_cm_id verbs{};
  const Manager* const owner;  // In a forked child: the parent's.
  bool is_synchronous = false;
  IdState state = IdState::idle;
  IdOptions options;
  EventCount events;

  std::uint64_t binding = 0;  // 0: none.
  SocketAddress local;        // With port.
  SocketAddress remote;
  connect::ServiceRange own_services;  // AF_IB: what the id has bound.
  connect::ServiceId service{};        // AF_IB: the peer's, as the program named it.
  PKey pkey{};                         // 0: the port's first.
  bool is_af_ib = false;
  std::optional<connect::ListenerId> listener;

  // PacketLifeTime of its path, 4.096 us * 2^this; over RoCE what Linux takes.
  std::uint8_t packet_life_time = 16;
  std::uint64_t path_query = 0;  // Its number in state `resolving_route`.
  Connection connection;
  bool connect_failed = false;  // The program was told already.
  bool has_device = false;
  std::list<Multicast> multicasts;
  std::unique_ptr<ibv_qp_init_attr> queue_pair_attributes;  // Listener: from rdma_create_ep.
  std::string connect_data;                                 // ai_connect of rdma_addrinfo.
  rdma_addrinfo* resolved_addresses = nullptr;
  bool is_resolving_addresses = false;

  /// Returns the type of the id's queue pair, also before it is created.
  ibv_qp_type type() const { return verbs.qp != nullptr ? verbs.qp->qp_type : verbs.qp_type; }
  bool is_datagram() const { return verbs.qp_type == IBV_QPT_UD; }
};

inline Id& from(rdma_cm_id* id) { return *reinterpret_cast<Id*>(id); }
inline Channel& from(rdma_event_channel* channel) { return *reinterpret_cast<Channel*>(channel); }
inline Event& from(rdma_cm_event* event) { return *reinterpret_cast<Event*>(event); }

inline Gid to_gid(const ibv_gid& gid) {
  Gid own;
  std::copy(std::begin(gid.raw), std::end(gid.raw), own.bytes.begin());
  return own;
}
inline ibv_gid to_verbs(const Gid& gid) {
  ibv_gid theirs;
  std::copy(gid.bytes.begin(), gid.bytes.end(), theirs.raw);
  return theirs;
}

}  // namespace verbatim::rdmacm
