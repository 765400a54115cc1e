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
#include "connect/addresses.h"
#include "connect/connection_service.h"
#include "dropin/ibverbs/services.h"
#include "dropin/rdmacm/objects.h"

namespace verbatim::rdmacm {

/// Everything that ids share: the service that makes connections, what it is given and where its
/// events go, and the device. One for each process.
class Manager final : private connect::Host, private connect::Events {
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

  /// With `lock` held.
  connect::ConnectionService& connections() { return *service_; }

  /// The opened device, with a protection domain for all ids. Not under `lock`.
  Result<void> attach_device(Id& id);
  void detach_device(Id& id);
  /// From now on the id hears of no changes of the device. Under `lock`.
  void forget_changes(Id& id) { ids_of_device_.erase(&id); }
  Result<ibv_context*> device();
  Result<ibv_xrcd*> domain_of_xrc();

  /// Also under `lock`.
  void open(Id& id, connect::ConnectionId connection);
  void close(Id& id);
  void add_listener(Id& id, connect::ListenerId listener) { listeners_.emplace(listener, &id); }
  void remove_listener(Id& id);
  /// The program has taken the id's request: it is none of its listener's backlog any more.
  void note_taken(const Id& id) {
    if (id.connection.is_open) service_->note_taken(id.connection.number);
  }
  void push(Id& subject, std::unique_ptr<Event> event);
  Id* find(connect::ConnectionId connection) const;

 private:
  Manager(const VerbatimServices* services, const VerbatimNode& node);
  Result<void> start();

  // host.cpp: what the service is given.
  void send_mad(const SocketAddress& source, const SocketAddress& destination,
                std::span<const std::byte, connect::kMadBytes> mad) override;
  Result<void> watch(int fd, std::uint32_t events, std::uint64_t tag) override;
  void unwatch(int fd) override;
  Result<void> start_stream(Qpn qpn, UniqueFd socket, const connect::StreamAgreement& agreed,
                            bool is_initiator) override;
  void note(std::uint32_t entry, const connect::ConnectionNote* note) override;
  std::uint32_t notes_max() const override { return services_->connections_max; }

  // effects.cpp: what the service says.
  void on(const connect::Event& event) override;
  void on(const connect::ConnectRequest& request);
  void on(const connect::ConnectResponse& response);
  void on(const connect::Established& established);
  void on(const connect::Rejected& rejected);
  void on(const connect::Unreachable& unreachable);
  void on(const connect::Disconnected& disconnected);
  void on(const connect::TimeWaitExit& end);
  void on(const connect::SidrRequest& request);
  void on(const connect::SidrResponse& response);
  void on(const connect::StreamFailed& failed);
  void on(const connect::StreamEnded& ended);
  /// Drops a request that has ended before the program took it. Returns false if it did.
  bool withdraw(Id& id);
  Id* request_for(connect::ListenerId listener, connect::ConnectionId connection,
                  const connect::Path& path, const connect::IpEndpoints& ends);
  /// What no message tells of the path to a peer.
  void complete(connect::Path& path) const;
  static void on_mad(const sockaddr* source, const sockaddr* destination, const void* mad);
  static void on_ready(std::uint64_t tag);
  static void on_port_changed(const VerbatimPortChange* change);
  /// Those that are new.
  void take_addresses(const VerbatimNode& node);
  /// Connections are over RoCE v1.
  bool uses_frames() const { return node_.version == IBV_GID_TYPE_ROCE_V1; }

  const VerbatimServices* services_;
  VerbatimNode node_;
  connect::Addresses addresses_;
  std::unordered_set<Id*> ids_of_device_;
  std::unique_ptr<connect::ConnectionService> service_;
  std::unordered_map<connect::ConnectionId, Id*> connections_;
  std::unordered_map<connect::ListenerId, Id*> listeners_;

  std::mutex device_lock_;  // Guards what follows.
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_xrcd* xrcd_ = nullptr;
  std::uint32_t device_users_ = 0;
};

/// Events that tell nothing but what and how.
std::unique_ptr<Event> make_event(Id& id, rdma_cm_event_type type, int status);

}  // namespace verbatim::rdmacm
