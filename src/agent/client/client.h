#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "agent/client/options.h"
#include "agent/client/port_bindings.h"
#include "agent/protocol/node.h"
#include "base/error.h"
#include "base/net/address.h"
#include "base/net/path.h"
#include "base/os/timer_fd.h"
#include "base/os/unique_fd.h"

/// Access of programs and commands to the agent of their node.
namespace verbatim::agent {

struct Incoming;

/// A MAD that the agent received on queue pair 1 and passed to this program.
struct ReceivedMad {
  Path source;
  SocketAddress destination;  // Of the node's addresses.
  Qpn source_qpn;
  std::uint16_t pkey_index = 0;
  std::span<const std::byte, kMadBytes> bytes;  // Valid during the call.
};

/// What a program does with the packets of its links besides sending and receiving them.
struct LinkSettings {
  std::uint64_t capture = 0;  // The number of the capture that goes on; 0: there is none.
  std::string faults;         // As link::FaultPlan reads it; empty: nobody has said.
};

/// What a program does when its agent says something. Called by the thread that calls
/// `handle_event`.
struct AgentEvents {
  std::function<void(const ReceivedMad&)> on_mad;
  /// The node's port or addresses have changed; at first, with the state as it is, twice.
  std::function<void(const NetworkState& before, const Node& now)> on_port_changed;
};

/// A program's membership in its node. Any thread may read it.
class AgentClient {
 public:
  /// Joins the node, starting its agent if none runs. `files` are borrowed. Errors: EADDRINUSE
  /// (address of another node or program), EADDRNOTAVAIL, EEXIST (the node runs with other
  /// addresses), ENOSPC (no free slot), ENOENT (no verbatimd), ETIMEDOUT, EPERM (the runtime folder
  /// is not ours).
  static Result<std::unique_ptr<AgentClient>> join(const AgentOptions& options,
                                                   const SharedFiles& files);
  ~AgentClient();
  AgentClient(const AgentClient&) = delete;
  AgentClient& operator=(const AgentClient&) = delete;

  /// As the agent last told it: the port changes, and addresses are added at the end.
  Node node() const;
  /// The program's slot, 1 to 1023: its queue pair numbers are `qpn_of(slot(), 0...16383)`.
  std::uint32_t slot() const { return slot_; }
  /// UDP sockets for receiving, one bound to each of `node().addresses`, in that order. Owned by
  /// this object.
  std::vector<int> sockets() const;

  /// Readable when `handle_event` should be called. Constant.
  int fd() const { return events_.get(); }
  /// Handles the agent's messages without blocking. If the agent has died, a background thread
  /// starts or finds another and rejoins it, with as many attempts as necessary; established
  /// connections and the sockets stay usable meanwhile. One thread at a time.
  void handle_event();
  /// Returns false from the agent's death until another one is rejoined.
  bool connected() const { return connected_.load(std::memory_order_acquire); }

  /// Takes effect from now on; earlier messages were dropped.
  void set_events(AgentEvents events);
  /// Called with `node()` and `sockets()`, now and at every change of the port or the addresses,
  /// before what `set_events` has set.
  using PortListener = std::function<void(const Node&, const std::vector<int>& sockets)>;
  void set_port_listener(PortListener listener);
  /// Called with what programs do with their packets, now and at every change. While a capture goes
  /// on, the listener returns the descriptor (borrowed) of the ring with what it captures.
  using LinkListener = std::function<Result<int>(const LinkSettings&)>;
  void set_link_listener(LinkListener listener);
  /// Ports of rdma_cm.
  PortBindings& bindings() { return bindings_; }

  /// Called first in a forked child, once: closes the descriptors, which belong to the parent,
  /// without a message to the agent. Afterwards the object is unusable and may be leaked or
  /// destroyed. Async-signal-safe.
  void close_in_child();

 private:
  AgentClient() = default;
  Result<void> prepare_events();
  Result<void> watch(int fd);
  void start_rejoining();
  void rejoin_until_done();
  /// Returns false if there is none.
  bool read_message();
  void on_message(Incoming& message);
  Result<void> on_description(Incoming& message);
  void follow_links();
  std::vector<int> socket_numbers() const;

  AgentOptions options_;
  std::uint32_t slot_ = 0;
  std::int64_t since_seconds_ = 0;
  /// Both ends of the descriptor store (README.md), which are passed to the next agent.
  UniqueFd store_in_, store_out_;
  UniqueFd slot_lock_;           // Locks this slot's byte of NODE.programs.
  std::vector<UniqueFd> files_;  // Copies of what others may have: for the next agent.
  UniqueFd connection_;          // Changes under events_lock_.
  UniqueFd events_;              // epoll: connection_ and rejoined_.
  TimerFd rejoined_;             // The thread has ended; without one, another may be started.
  UniqueFd stop_;                // eventfd: the thread shall end.
  /// The connection to the new agent. Written by the thread, read when it has been joined.
  UniqueFd new_connection_;
  std::thread rejoining_;
  std::atomic<bool> connected_ = false;
  PortBindings bindings_;
  mutable std::mutex events_lock_;  // Protects the members below.
  AgentEvents agent_events_;
  PortListener port_listener_;
  LinkListener link_listener_;
  LinkSettings links_;
  /// Guards what follows, with events_lock_: to write takes both. Held for a look only, so that
  /// what is called under events_lock_ may wait for locks whose holders look here.
  mutable std::mutex node_lock_;
  Node node_;
  std::vector<UniqueFd> sockets_;  // With room for all: a child of fork finds it whole.
};

/// The descriptors by which peers of the same user and network namespace reach a program.
struct PeerFiles {
  UniqueFd arena;
  UniqueFd memory;
  UniqueFd doorbell;
};
/// Returns those of the program in this slot of the node with this address. ENOENT if there is
/// none, or the node does not belong to this user here; EOPNOTSUPP if it uses only the wire.
Result<PeerFiles> request_peer(const SocketAddress& address, std::uint32_t slot);
/// The same for a node of this name.
Result<PeerFiles> request_peer(const std::string& node, std::uint32_t slot);

/// Returns the first IPv4 address of this user's node with the address. ENOENT if there is none.
Result<SocketAddress> ipv4_of_node_with(const SocketAddress& address);

// For commands. None of these takes a slot.

/// Returns the names of this user's running nodes in this network namespace, sorted.
Result<std::vector<std::string>> list_nodes();
/// The node's description, starting its agent where none runs. An agent that nobody joins leaves
/// after half a second.
Result<Node> start_node(const AgentOptions& options);
/// A connection that keeps the node's agent, started where none runs, until the descriptor and all
/// copies of it are closed or the calling process ends, whichever is first.
Result<UniqueFd> hold_node(const AgentOptions& options);
/// Returns the folder with the node's view of /sys and /dev, which exists while its agent runs.
Result<std::string> view_folder(const std::string& node);
/// The description of a node that runs; ENOENT where it does not.
Result<Node> node_description(const std::string& node);
/// Captures the packets of the node's programs, starting its agent where none runs, until the
/// returned connection is closed. EBUSY, and EOPNOTSUPP for iWARP.
Result<UniqueFd> start_capture(const AgentOptions& options);
/// What comes over that connection: a program whose packets are captured, or what became of one.
struct CapturedProgram {
  pid_t pid = 0;  // 0: it lives in another process namespace.
  std::uint32_t slot = 0;
  std::string name;
  bool is_direct = false;  // Peers of this machine reach it without packets.
  std::string failure;     // Why its packets are not captured; else empty.
  UniqueFd ring;           // A link::CaptureRing, or none.
};
/// EAGAIN: there is none now; ECONNRESET: the agent has ended.
Result<CapturedProgram> next_captured(int connection);
/// All that programs, also those that have ended, made of the capture until now and that
/// `next_captured` has not returned. Waits for the agent; ECONNRESET: it has ended.
Result<std::vector<CapturedProgram>> rest_captured(int connection);

struct NodeFaults {
  std::string plan;  // Empty: none was set while programs ran.
  std::uint32_t programs = 0;
};
/// Sets the faults of the packets of a node that runs; with an empty `plan` it only asks. ENOENT,
/// and EOPNOTSUPP for iWARP.
Result<NodeFaults> set_faults(const std::string& node, std::string_view plan);
/// The status of a node that runs, as JSON; ENOENT where it does not; ETIMEDOUT: its agent does not
/// answer within `patience`. README.md has its fields.
Result<std::string> request_status(const std::string& node, TimeNs patience = 8 * kSecond);

}  // namespace verbatim::agent
