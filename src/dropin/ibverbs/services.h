#pragma once

#include <cstddef>
#include <cstdint>

#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <sys/socket.h>

#include "arena/flat_path.h"

/// The services of our libibverbs.so.1 for our librdmacm.so.1, through one private symbol. Both
/// come from one build, but each contains its own C++ library, so only plain structures pass
/// between them. Functions that return int return 0 or an errno value.
extern "C" {

struct VerbatimGid {
  ibv_gid gid;
  /// The IP address of the GID. Empty if connections do not use it, because it is of another RoCE
  /// version.
  sockaddr_storage address;
  std::uint8_t port;
};

struct VerbatimNode {
  std::uint64_t guid;  // Host byte order.
  std::uint32_t slot;
  std::uint32_t interface_index;
  char interface[16];
  std::uint8_t active_mtu;  // As ibv_mtu.
  std::uint8_t version;     // The RoCE version of connections, as ibv_gid_type.
  bool is_iwarp;            // Connections are TCP streams.
  bool is_infiniband;       // Of a fabric: `find_gid` and `find_path` say how to reach a peer.
  std::uint16_t pkey;       // InfiniBand: entry 0 of the port's P_Key table.
  std::uint32_t gid_count;
  /// Entries are added at the end and never removed. InfiniBand: behind those of port 1, those of
  /// the other ports, which have no address.
  VerbatimGid gids[16];
};

struct VerbatimPortBinding {
  std::uint64_t handle;
  std::uint16_t port_space;    // As rdma_port_space.
  std::uint64_t service;       // AF_IB: services that are no port; then the address has none.
  std::uint64_t service_mask;  // 0: the address's port.
  bool reuses_address;
  bool own_family_only;
  sockaddr_storage address;
};

/// A connection, as stored for the agent, which disconnects the peer if this program dies.
struct VerbatimConnection {
  bool is_established;
  bool has_sent_reply;
  std::uint32_t local_id;
  std::uint32_t remote_id;
  std::uint32_t remote_qpn;
  sockaddr_storage local;
  verbatim::arena::FlatPath remote;
};

/// The parameters that the two ends of a TCP connection negotiated by MPA (cm/iwarp/mpa_setup.h).
struct VerbatimStream {
  bool is_initiator;
  bool sends_markers;
  bool receives_markers;
  bool has_crc;
  std::uint8_t ready;  // As MpaParameters::RtrMessage.
  std::uint16_t inbound_reads;
  std::uint16_t outbound_reads;
};

/// A question for a path to the subnet administrator.
struct VerbatimPathQuery {
  ibv_gid source;
  ibv_gid destination;
  std::uint64_t service_id;    // Host byte order.
  std::uint16_t pkey;          // 0: the port's first one.
  std::uint8_t traffic_class;  // IPv4: asked for as the QoS class.
  bool is_ipv4;
  std::uint32_t timeout_ms;
};
using VerbatimOnPath = void(std::uint64_t tag, int error, const ibv_sa_path_rec* record);
/// `error` 0: the port has joined the group, or the subnet administrator has made another group of
/// it. Else the port has not joined, or its membership has ended, and no further call comes.
using VerbatimOnGroup = void(std::uint32_t membership, int error,
                             const ibv_sa_mcmember_rec* record);

/// An interface of IP over InfiniBand.
struct VerbatimInterface {
  sockaddr_storage source;  // An address of its own.
  ibv_gid own;              // Of its port,
  std::uint16_t pkey;       // in this partition.
  ibv_gid peer;
};

struct VerbatimPortChange {
  const VerbatimNode* node;  // The current state.
  std::uint32_t gids;        // Bit i: entry i of the GID table is valid now.
  bool is_removed;           // The interface was removed just now, and with it the device.
  bool has_new_hardware_address;
};

/// Called by the background thread. They may call all services except those that wait for the
/// agent.
struct VerbatimEvents {
  void (*on_mad)(const verbatim::arena::FlatPath* source, const sockaddr* destination,
                 const void* mad);
  /// Called at every change, and once within `set_events` with the current state.
  void (*on_port_changed)(const VerbatimPortChange* change);
};

struct VerbatimServices {
  std::uint32_t connections_max;
  /// Joins the node, if the process has not yet, and describes it.
  int (*join)(VerbatimNode* node);
  /// Returns a descriptor that holds the lock of this name, among all processes of this user and
  /// network namespace, until its last copy is closed; else a negative errno value: -EWOULDBLOCK if
  /// another holds it. The process need not have joined a node.
  int (*take_lock)(const char* name);
  void (*set_events)(const VerbatimEvents* events);
  /// Until `unwatch`, the background thread calls `on_ready` when one of `events` (of epoll)
  /// occurs; with EPOLLONESHOT once, until `watch` is called again. Calls that have begun are
  /// completed.
  int (*watch)(int fd, std::uint32_t events, void (*on_ready)(std::uint64_t tag),
               std::uint64_t tag);
  void (*unwatch)(int fd);
  /// `mad`: 256 bytes. RoCE: the destination's UDP port is not used.
  int (*send_mad)(const sockaddr* source, const verbatim::arena::FlatPath* destination,
                  const void* mad);
  /// Only on a fabric. The background thread calls `on_path` once, with the record or an errno
  /// value. EAGAIN: the port has no subnet manager.
  int (*find_path)(const VerbatimPathQuery* query, VerbatimOnPath* on_path, std::uint64_t tag);
  /// Only on a fabric. Waits for its daemon. EHOSTUNREACH: no host of the fabric has the address.
  int (*find_gid)(const sockaddr* address, ibv_gid* gid);
  /// Only on a fabric. Asks the host's interfaces of IP over InfiniBand which of them has the
  /// source (or null), and which port the destination (or null); waits for them, and for the
  /// neighbour.
  int (*find_interface)(const sockaddr* source, const sockaddr* destination,
                        VerbatimInterface* found);
  /// Only on a fabric. Waits for the subnet administrator of a port. Zeros if it names no such
  /// group.
  void (*find_group)(std::uint8_t port, const ibv_gid* gid, ibv_sa_mcmember_rec* group);
  /// Only on a fabric; else ENODEV. A port joins the multicast group of `wanted`, until
  /// `leave_group`. Its GID, Q_Key, P_Key, SL, flow label, traffic class and join state count;
  /// with `has_limits`, its MTU, rate and hop limit, too. The background thread calls `on_group`.
  /// `membership`: a number of the caller that none of its groups has.
  int (*join_group)(std::uint32_t membership, std::uint8_t port, const ibv_sa_mcmember_rec* wanted,
                    bool has_limits, VerbatimOnGroup* on_group);
  void (*leave_group)(std::uint32_t membership);
  /// These wait for the agent's answer.
  int (*bind_port)(const VerbatimPortBinding* binding, std::uint16_t* port);
  int (*listen_port)(std::uint64_t handle);
  void (*release_port)(std::uint64_t handle);
  /// `connection` null: frees the entry.
  int (*set_connection)(std::uint32_t entry, const VerbatimConnection* connection);
  /// Moves the queue pair from INIT to RTS over this connection; takes the descriptor.
  int (*start_stream)(std::uint32_t qpn, int fd, const VerbatimStream* stream);
  /// Moves the queue pair to the error state; it ends its side of the connection.
  void (*end_stream)(std::uint32_t qpn);
  /// When it returns, the queue pair has processed all received data.
  void (*drain_stream)(std::uint32_t qpn);
  /// Zeroed pages, to which peers on the direct path have access as soon as they are registered:
  /// the adapter need not move them. Null and errno. A forked child does not have them.
  void* (*take_pages)(std::size_t bytes);
  void (*give_pages_back)(void* pages, std::size_t bytes);
};

/// Returns null if the libraries are from different builds.
__attribute__((visibility("default"))) const VerbatimServices* verbatim_services(
    std::uint32_t version);

}  // extern "C"

namespace verbatim::dropin {

/// Incremented with every change above.
inline constexpr std::uint32_t kServicesVersion = 13;

}  // namespace verbatim::dropin
