#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "base/os/timer_fd.h"
#include "cm/ib/connection_manager.h"
#include "connect/addresses.h"
#include "dropin/ibverbs/services.h"
#include "dropin/rdmacm/objects.h"
#include "dropin/rdmacm/streams.h"

namespace verbatim::rdmacm {

/// Everything that ids share: the connection manager's engine, the device, and the way from what
/// the engine says to events. One for each process.
class Manager {
 public:
  /// This process's; a child of fork gets another. Refuses where the process cannot join its node.
  static Result<Manager*> get();

  std::mutex lock;

  const VerbatimServices& services() const { return *services_; }
  std::uint64_t node_guid() const { return node_.guid; }
  Mtu active_mtu() const { return static_cast<Mtu>(node_.active_mtu); }
  std::uint32_t interface_index() const { return node_.interface_index; }
  const connect::Addresses& addresses() const { return addresses_; }
  /// Zeros over iWARP, where a peer has none that anybody else knows.
  Gid peer_gid(const SocketAddress& address) const {
    return node_.is_iwarp ? Gid{} : gid_of(address);
  }

  /// Null: connections are those of the InfiniBand connection manager.
  Streams* streams() { return streams_.get(); }
  /// With `lock` held: `call(engine, now, effects)`, then what the engine says is done.
  template <typename Call>
  auto step(Call call) -> decltype(call(std::declval<cm::ConnectionManager&>(), TimeNs{},
                                        std::declval<cm::Effects&>())) {
    cm::Effects effects;
    auto result = call(engine_, monotonic_now(), effects);
    carry_out(effects);
    return result;
  }

  /// The opened device, with a protection domain for all ids. Not under `lock`.
  Result<void> attach_device(Id& id);
  void detach_device(Id& id);
  /// From now on the id hears of no changes of the device. Under `lock`.
  void forget_changes(Id& id) { ids_of_device_.erase(&id); }
  Result<ibv_context*> device();
  Result<ibv_xrcd*> domain_of_xrc();

  /// Also under `lock`.
  void open(Id& id, cm::ConnectionId connection);
  void close(Id& id);
  void add_listener(Id& id, cm::ListenerId listener) { listeners_.emplace(listener, &id); }
  void remove_listener(Id& id);
  /// Tells the agent how far the id's connection is: what to say when this program dies.
  void note_progress(Id& id, bool is_established);
  /// The program has taken the id's request: it is none of its listener's backlog any more.
  void note_taken(const Id& id) {
    if (id.connection.is_open) engine_.note_taken(id.connection.number);
  }
  void push(Id& subject, std::unique_ptr<Event> event);
  Id* find(cm::ConnectionId connection) const;
  void release(cm::ConnectionId connection);

  // What engines say.
  void on(const cm::ConnectRequest& request);
  void on(const cm::ConnectResponse& response);
  void on(const cm::Established& established);
  void on(const cm::Disconnected& disconnected);
  void on(const cm::StreamFailed& failed);

 private:
  Manager(const VerbatimServices* services, const VerbatimNode& node, std::uint64_t seed);
  Result<void> start();
  void carry_out(const cm::Effects& effects);
  void on(const cm::SendMad& mad);
  void on(const cm::Rejected& rejected);
  void on(const cm::Unreachable& unreachable);
  void on(const cm::TimeWaitExit& end);
  void on(const cm::SidrRequest& request);
  void on(const cm::SidrResponse& response);
  /// Drops a request that has ended before the program took it. Returns false if it did.
  bool withdraw(Id& id);
  Id* request_for(cm::ListenerId listener, cm::ConnectionId connection, const cm::Path& path,
                  const cm::IpEndpoints& ends);
  void arm_timer_fd();
  static void on_mad(const sockaddr* source, const sockaddr* destination, const void* mad);
  static void on_timer_fd(std::uint64_t tag);
  static void on_port_changed(const VerbatimPortChange* change);
  /// Those that are new.
  void take_addresses(const VerbatimNode& node);
  /// Connections are over RoCE v1.
  bool uses_frames() const { return node_.version == IBV_GID_TYPE_ROCE_V1; }

  const VerbatimServices* services_;
  VerbatimNode node_;
  connect::Addresses addresses_;
  std::unordered_set<Id*> ids_of_device_;
  cm::ConnectionManager engine_;
  std::unique_ptr<Streams> streams_;
  TimerFd timer_fd_;
  std::unordered_map<cm::ConnectionId, Id*> connections_;
  std::unordered_map<cm::ListenerId, Id*> listeners_;
  std::vector<std::uint32_t> free_entries_;
  std::uint32_t entries_ = 0;

  std::mutex device_lock_;  // Guards what follows.
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_xrcd* xrcd_ = nullptr;
  std::uint32_t device_users_ = 0;
};

/// Events that tell nothing but what and how.
std::unique_ptr<Event> make_event(Id& id, rdma_cm_event_type type, int status);

}  // namespace verbatim::rdmacm
