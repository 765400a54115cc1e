#pragma once

#include <vector>

#include "agent/protocol/node.h"
#include "agent/sockets/receive_sockets.h"
#include "base/error.h"
#include "base/os/unique_fd.h"

/// What survives the agent's death as long as one program lives.
namespace verbatim::agent {

/// A Unix socket pair whose two ends every program of the node holds and nobody reads. The agent
/// writes the node's first description and each chunk of receive sockets into it; descriptors in a
/// queued message stay open. A new agent gets both ends from a program and reads the queue with
/// MSG_PEEK, so that nothing is removed. (Compare systemd's file descriptor store.)
class DescriptorStore {
 public:
  static Result<DescriptorStore> create(const Node& node);
  /// The ends as a program gave them back. EPROTO where they hold something else.
  static Result<DescriptorStore> restore(UniqueFd in, UniqueFd out);

  /// As it began: the chunks tell which addresses were added.
  const Node& node() const { return node_; }
  /// Looks at all chunks. Each call gives descriptors of its own.
  Result<std::vector<SocketChunk>> chunks() const;
  /// EAGAIN if it is full, ETOOMANYREFS if the user has too many descriptors in messages.
  Result<void> append(const SocketChunk& chunk) const;
  /// Returns true if the descriptor is the reading end of this store.
  bool is(int in) const;

  int in() const { return in_.get(); }
  int out() const { return out_.get(); }

 private:
  UniqueFd in_, out_;
  Node node_;
};

}  // namespace verbatim::agent
