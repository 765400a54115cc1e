#pragma once

#include <cstddef>
#include <cstdint>

#include <infiniband/verbs.h>
#include <sys/socket.h>

/// What libibverbs.so.1 does for our librdmacm.so.1, through one private symbol. The two libraries
/// come from one build, but each brings its own C++ library: only C types pass between them.
/// Functions that return int return 0 or an errno value.
extern "C" {

struct VerbatimGid {
  ibv_gid gid;
  /// What it is bound to. Empty where connections do not use it: its RoCE version is another.
  sockaddr_storage address;
};

struct VerbatimNode {
  std::uint64_t guid;  // Host byte order.
  std::uint32_t slot;
  std::uint32_t interface_index;
  char interface[16];
  std::uint8_t active_mtu;  // As ibv_mtu.
  std::uint8_t version;     // Of RoCE, that connections use, as ibv_gid_type.
  bool is_iwarp;            // Connections are TCP streams instead.
  std::uint32_t gid_count;
  VerbatimGid gids[16];  // Entries are added at the end, and stay.
};

struct VerbatimPortBinding {
  std::uint64_t handle;
  std::uint16_t port_space;  // As rdma_port_space.
  bool reuses_address;
  bool own_family_only;
  sockaddr_storage address;
};

/// An entry for the agent, which tells the peer when this program dies.
struct VerbatimConnection {
  bool is_established;
  bool has_sent_reply;
  std::uint32_t local_id;
  std::uint32_t remote_id;
  std::uint32_t remote_qpn;
  sockaddr_storage local;
  sockaddr_storage remote;
};

/// What two ends of a TCP connection have agreed on by MPA (cm/iwarp/mpa_setup.h).
struct VerbatimStream {
  bool is_initiator;
  bool sends_markers;
  bool receives_markers;
  bool has_crc;
  std::uint8_t ready;  // As MpaParameters::RtrMessage.
  std::uint16_t inbound_reads;
  std::uint16_t outbound_reads;
};

struct VerbatimPortChange {
  const VerbatimNode* node;  // As it is now.
  std::uint32_t gids;        // Bit i: entry i of the GID table is valid now.
  bool is_removed;           // The interface has just gone, and the device with it.
  bool has_new_hardware_address;
};

/// Called by the background thread, which may call back anything but what awaits the agent.
struct VerbatimEvents {
  void (*on_mad)(const sockaddr* source, const sockaddr* destination, const void* mad);
  /// At every change and, within `set_events`, with the port as it is.
  void (*on_port_changed)(const VerbatimPortChange* change);
};

struct VerbatimServices {
  std::uint32_t connections_max;
  /// Makes the process a program of its node, where it is none yet, and describes it.
  int (*join)(VerbatimNode* node);
  /// A descriptor that holds the lock of this name, between all processes of this user and network
  /// namespace, until its last copy is closed; else a negative errno value: -EWOULDBLOCK where
  /// another has it. The process need not be a program of a node.
  int (*take_lock)(const char* name);
  void (*set_events)(const VerbatimEvents* events);
  /// From now on, until `unwatch`, the background thread calls when one of `events` (of epoll)
  /// comes; with EPOLLONESHOT once, until it is called again. Calls that are under way go on.
  int (*watch)(int fd, std::uint32_t events, void (*on_ready)(std::uint64_t tag),
               std::uint64_t tag);
  void (*unwatch)(int fd);
  /// 256 bytes.
  int (*send_mad)(const sockaddr* source, const sockaddr* destination, const void* mad);
  /// Await the agent's answer.
  int (*bind_port)(const VerbatimPortBinding* binding, std::uint16_t* port);
  int (*listen_port)(std::uint64_t handle);
  void (*release_port)(std::uint64_t handle);
  /// `connection` null: the entry is free.
  int (*set_connection)(std::uint32_t entry, const VerbatimConnection* connection);
  /// The queue pair, in INIT, goes to RTS over this connection; it takes the descriptor.
  int (*start_stream)(std::uint32_t qpn, int fd, const VerbatimStream* stream);
  /// Whatever has come for the queue pair is with it when this returns.
  void (*drain_stream)(std::uint32_t qpn);
};

/// Null where the libraries do not come from the same build.
__attribute__((visibility("default"))) const VerbatimServices* verbatim_services(
    std::uint32_t version);

}  // extern "C"

namespace verbatim::dropin {

/// Counts up with every change above.
inline constexpr std::uint32_t kServicesVersion = 6;

}  // namespace verbatim::dropin
