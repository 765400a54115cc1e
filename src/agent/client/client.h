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
#include "base/os/timer_fd.h"
#include "base/os/unique_fd.h"

/// Access of programs and commands to the agent of their node.
namespace verbatim::agent {

struct Incoming;

/// A MAD that the agent received on queue pair 1 and passed to this program.
struct ReceivedMad {
  SocketAddress source;
  SocketAddress destination;  // One of the node's addresses.
  Qpn source_qpn;
  std::uint16_t pkey_index = 0;
  std::span<const std::byte, kMadBytes> bytes;  // Valid during the call.
};

/// Handlers of messages from the agent. Called by the thread that calls `handle_event`.
struct AgentEvents {
  std::function<void(const ReceivedMad&)> on_mad;
  /// Called when the node's port or addresses change, and once from `set_events` with `before`
  /// equal to `now.port`.
  std::function<void(const PortState& before, const NodeDescription& now)> on_port_changed;
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

  /// The agent's latest description: the port may change, and addresses are added at the end.
  NodeDescription node() const;
  /// The program's slot, 1 to 1023: its queue pair numbers are `qpn_of(slot(), 0...16383)`. (The
  /// slot of a posted request, `transport::Slot`, is something else.)
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
  /// before the handlers of `set_events`.
  using PortListener = std::function<void(const NodeDescription&, const std::vector<int>& sockets)>;
  void set_port_listener(PortListener listener);
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
  std::vector<int> socket_numbers() const;

  AgentOptions options_;
  std::uint32_t slot_ = 0;
  std::int64_t since_seconds_ = 0;
  /// Both ends of the descriptor store (README.md), which are passed to the next agent.
  UniqueFd store_in_, store_out_;
  UniqueFd slot_lock_;           // Locks this slot's byte of NODE.programs.
  std::vector<UniqueFd> files_;  // Copies of the shared files, for the next agent.
  UniqueFd connection_;
  UniqueFd events_;   // An epoll of connection_ and rejoined_.
  TimerFd rejoined_;  // Expires when the thread has ended or, if none could be started, when to try
                      // again.
  UniqueFd stop_;     // An eventfd that ends the thread.
  /// The connection to the new agent. Written by the thread, read after it was joined.
  UniqueFd new_connection_;
  std::thread rejoining_;
  std::atomic<bool> connected_ = false;
  PortBindings bindings_;
  mutable std::mutex events_lock_;  // Protects the members below.
  AgentEvents agent_events_;
  PortListener port_listener_;
  /// Protects the members below together with events_lock_: writing requires both. Held only
  /// briefly, so that handlers called under events_lock_ may wait for locks whose holders read
  /// these members.
  mutable std::mutex node_lock_;
  NodeDescription node_;
  std::vector<UniqueFd>
      sockets_;  // Reserved for all addresses, so that a forked child finds it consistent.
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

// For commands. None of these takes a slot.

/// Returns the names of this user's running nodes in this network namespace, sorted.
Result<std::vector<std::string>> list_nodes();
/// Returns the node's description, starting its agent if none runs. The agent exits after half a
/// second unless a program joins.
Result<NodeDescription> start_node(const AgentOptions& options);
/// Returns a connection that keeps the node's agent (started if none runs) until all copies of the
/// descriptor are closed or the calling process ends, whichever is first.
Result<UniqueFd> hold_node(const AgentOptions& options);
/// Returns the folder with the node's view of /sys and /dev, which exists while its agent runs.
Result<std::string> view_folder(const std::string& node);
/// Returns the description of a running node; ENOENT if it does not run.
Result<NodeDescription> node_description(const std::string& node);
/// Returns the status of a running node as JSON; ENOENT if it does not run. Its fields are in
/// README.md.
Result<std::string> request_status(const std::string& node);

}  // namespace verbatim::agent
