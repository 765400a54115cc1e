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

/// What all ids share: the connection service, its host and its events, and the device. One for
/// each process.
class Manager final : private connect::Host, private connect::Events {
 public:
  /// Returns this process's manager; a forked child gets another. Fails if the process cannot join
  /// its node.
  static Result<Manager*> get();
  /// For the background thread: returns this process's manager, or null if it has none yet.
  static Manager* existing();

  std::mutex lock;

  const VerbatimServices& services() const { return *services_; }
  std::uint64_t node_guid() const { return node_.guid; }
  Mtu active_mtu() const { return static_cast<Mtu>(node_.active_mtu); }
  std::uint32_t interface_index() const { return node_.interface_index; }
  const connect::Addresses& addresses() const { return addresses_; }
  bool is_infiniband() const { return node_.is_infiniband; }
  PKey first_pkey() const { return PKey{node_.pkey}; }
  /// Returns the GID of a peer's address. Zeros over iWARP, where only the peer's node knows it.
  /// InfiniBand: asks the fabric's daemon, so `lock` must not be held; EHOSTUNREACH if no host has
  /// the address.
  Result<Gid> find_gid(const SocketAddress& address) const;
  /// InfiniBand: the host's interface of IP over InfiniBand with the source, or that leads to the
  /// destination; either may be empty. EADDRNOTAVAIL, EHOSTUNREACH. The same.
  Result<VerbatimInterface> find_interface(const SocketAddress& source,
                                           const SocketAddress& destination) const;
  /// InfiniBand: the broadcast group of the partition, whose attributes its other groups have. It
  /// has no limits (MTU, rate) if the partition has no such group. Waits for the subnet
  /// administrator, so `lock` must not be held.
  ibv_sa_mcmember_rec broadcast_group(std::uint8_t port) const;

  /// Requires `lock`.
  connect::ConnectionService& connections() { return *service_; }

  /// Opens the device, with a protection domain for all ids. Must not be called with `lock`.
  Result<void> attach_device(Id& id);
  void detach_device(Id& id);
  /// Ends the id's events about the device. Requires `lock`.
  void forget_changes(Id& id) { ids_of_device_.erase(&id); }
  Result<ibv_context*> device();
  Result<ibv_xrcd*> domain_of_xrc();
  /// InfiniBand: the index of a partition in the P_Key table of a port. 0: that of its first P_Key.
  /// EINVAL: the port is not in the partition.
  Result<std::uint16_t> pkey_index(PKey pkey, std::uint8_t port = 1);

  /// These also require `lock`.
  void open(Id& id, connect::ConnectionId connection);
  void close(Id& id);
  void add_listener(Id& id, connect::ListenerId listener) { listeners_.emplace(listener, &id); }
  void remove_listener(Id& id);
  /// InfiniBand: asks the subnet administrator for the path to the id's peer. The id gets an event
  /// with the answer, or after `timeout_ms` with an error.
  Result<void> find_path(Id& id, int timeout_ms);
  /// No event about the path follows.
  void forget_path(const Id& id) { queries_.erase(id.path_query); }
  // fabric_groups.cpp: the same.
  /// The id gets an event when the subnet administrator has answered.
  Result<void> join_group(Multicast& multicast, const SocketAddress& address,
                          const ibv_sa_mcmember_rec& broadcast);
  /// Does nothing if the group is not a fabric's.
  void leave_group(Multicast& multicast);
  void leave_groups(Id& id);
  /// The program has taken the id's request: it leaves the listener's backlog.
  void note_taken(const Id& id) {
    if (id.connection.is_open) service_->note_taken(id.connection.number);
  }
  void push(Id& subject, std::unique_ptr<Event> event);
  Id* find(connect::ConnectionId connection) const;

 private:
  Manager(const VerbatimServices* services, const VerbatimNode& node);
  Result<void> start();

  // host.cpp: connect::Host, for the service.
  void send_mad(const SocketAddress& source, const verbatim::Path& destination,
                std::span<const std::byte, connect::kMadBytes> mad) override;
  Result<void> watch(int fd, std::uint32_t events, std::uint64_t tag) override;
  void unwatch(int fd) override;
  Result<void> start_stream(Qpn qpn, UniqueFd socket, const connect::StreamAgreement& agreed,
                            bool is_initiator) override;
  void end_stream(Qpn qpn) override { services_->end_stream(qpn.value()); }
  void note(std::uint32_t entry, const connect::ConnectionNote* note) override;
  std::uint32_t notes_max() const override { return services_->connections_max; }

  // effects.cpp: connect::Events, from the service.
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
  /// Drops a request that has ended before the program took it. Returns false if the program has
  /// it.
  bool withdraw(Id& id);
  Id* request_for(connect::ListenerId listener, connect::ConnectionId connection,
                  connect::ServiceId service, const connect::Path& path,
                  const connect::IpEndpoints& ends);
  /// Completes the fields of a path that no message contains.
  void complete(connect::Path& path) const;
  static void on_mad(const arena::FlatPath* source, const sockaddr* destination, const void* mad);
  /// Gives the id that asked for a path its event. `record`: null if `error` is not 0.
  void finish_query(std::uint64_t number, int error, const ibv_sa_path_rec* record);
  static void on_path(std::uint64_t number, int error, const ibv_sa_path_rec* record);
  static void on_group(std::uint32_t membership, int error, const ibv_sa_mcmember_rec* record);
  static void on_ready(std::uint64_t tag);
  static void on_port_changed(const VerbatimPortChange* change);
  /// Adds the new ones.
  void take_addresses(const VerbatimNode& node);
  /// Returns true if connections use RoCE v1.
  bool uses_frames() const { return node_.version == IBV_GID_TYPE_ROCE_V1; }

  const VerbatimServices* services_;
  VerbatimNode node_;
  connect::Addresses addresses_;
  std::unordered_set<Id*> ids_of_device_;
  std::unique_ptr<connect::ConnectionService> service_;
  std::unordered_map<connect::ConnectionId, Id*> connections_;
  std::unordered_map<connect::ListenerId, Id*> listeners_;
  std::unordered_map<std::uint64_t, Id*> queries_;  // For paths, by their numbers.
  std::uint64_t last_query_ = 0;
  std::unordered_map<std::uint32_t, Multicast*> groups_;  // Of a fabric, by membership.
  std::uint32_t last_membership_ = 0;

  std::mutex device_lock_;  // Protects the members below.
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_xrcd* xrcd_ = nullptr;
  std::uint32_t device_users_ = 0;
};

/// Creates an event that has only a type and a status.
std::unique_ptr<Event> make_event(Id& id, rdma_cm_event_type type, int status);
std::unique_ptr<Event> make_multicast_event(Multicast& multicast, rdma_cm_event_type type,
                                            int status);

}  // namespace verbatim::rdmacm
