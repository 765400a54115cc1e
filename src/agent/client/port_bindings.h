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

/// A program's side of its bindings (PortTable is the agent's): asks the agent, remembers what it
/// granted, and tells the next agent. Thread-safe.
class PortBindings {
 public:
  explicit PortBindings(std::chrono::milliseconds timeout = std::chrono::seconds(5))
      : timeout_(timeout) {}

  /// Waits for the agent's answer; while the agent is being replaced, for the next one, 5 s at most
  /// (ETIMEDOUT). Returns the port. Errors as PortTable's.
  Result<std::uint16_t> bind(const PortBinding& binding);
  Result<void> listen(std::uint64_t handle);
  /// Others may have the port when this returns; but where the agent does not answer, later.
  void release(std::uint64_t handle);

  /// A connection to the agent of this node stands (`connection` is borrowed until `detach`); it
  /// hears at once of what an earlier one has granted.
  void attach(int connection);
  void detach();
  /// In a forked child: nothing is left.
  void close_in_child();

 private:
  template <typename Exchange>
  auto with_channel(Exchange exchange) -> decltype(exchange(0));
  Result<void> open();

  std::chrono::milliseconds timeout_;
  std::mutex lock_;  // Guards everything.
  std::condition_variable attached_;
  int connection_ = -1;
  UniqueFd channel_;  // Opened when it is first needed.
  std::map<std::uint64_t, PortBinding> granted_;
  std::vector<std::uint64_t> given_up_;  // The agent has not answered, and may hold them.
};

}  // namespace verbatim::agent
