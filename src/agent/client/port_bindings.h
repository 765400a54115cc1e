#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "agent/protocol/node.h"
#include "base/error.h"
#include "base/os/unique_fd.h"

namespace verbatim::agent {

/// The program's side of rdma_cm ports (the agent has a PortTable): sends requests to the agent,
/// remembers what was granted, and restores it at the next agent. Thread-safe.
class PortBindings {
 public:
  explicit PortBindings(std::chrono::milliseconds timeout = std::chrono::seconds(5))
      : timeout_(timeout) {}

  /// Waits for the agent's answer; while the agent is being replaced, for the next one, 5 s at most
  /// (ETIMEDOUT). Returns the port. Errors as PortTable::bind.
  Result<std::uint16_t> bind(const PortBinding& binding);
  Result<void> listen(std::uint64_t handle);
  /// Releases the port and waits for the agent's answer; when it returns, another program can bind
  /// the port. If the agent does not answer in time, the release is repeated on the next channel
  /// and the port stays taken until then.
  void release(std::uint64_t handle);

  /// Call when a connection to the node's agent is established; not owned, valid until `detach`.
  /// Restores the ports that an earlier agent had granted.
  void attach(int connection);
  void detach();
  /// Called in a forked child: forgets everything.
  void close_in_child();

 private:
  template <typename Exchange>
  auto with_channel(Exchange exchange) -> decltype(exchange(0));
  Result<void> open();

  std::chrono::milliseconds timeout_;
  std::mutex lock_;  // Protects all members.
  std::condition_variable attached_;
  int connection_ = -1;
  UniqueFd channel_;  // Opened at the first use.
  std::map<std::uint64_t, PortBinding> granted_;
  std::vector<std::uint64_t>
      given_up_;  // Handles whose bind or release timed out: the agent may still have them bound.
};

}  // namespace verbatim::agent
