#pragma once

#include <vector>

#include "agent/protocol/node.h"
#include "agent/sockets/receive_sockets.h"
#include "base/error.h"
#include "base/os/unique_fd.h"

/// What survives the agent's death as long as one program lives.
namespace verbatim::agent {

/// A stream between two Unix sockets, both ends of which every program of the node holds and nobody
/// reads from. The agent writes into it the node's first description, then each chunk of sockets as
/// it is made; descriptors in a queued message keep their files open. The next agent gets the ends
/// from a program and looks at the queue (MSG_PEEK) without taking anything out.
class DescriptorStore {
 public:
  static Result<DescriptorStore> create(const Node& node);
  /// The ends as a program gave them back. EPROTO where they hold something else.
  static Result<DescriptorStore> restore(UniqueFd in, UniqueFd out);

  /// As it began: the chunks tell which addresses were added.
  const Node& node() const { return node_; }
  /// Looks at all chunks. Each call gives descriptors of its own.
  Result<std::vector<SocketChunk>> chunks() const;
  /// EAGAIN where it is full, ETOOMANYREFS where the user has too many descriptors in messages.
  Result<void> append(const SocketChunk& chunk) const;
  /// Whether the descriptor is the reading end of this descriptor store.
  bool is(int in) const;

  int in() const { return in_.get(); }
  int out() const { return out_.get(); }

 private:
  UniqueFd in_, out_;
  Node node_;
};

}  // namespace verbatim::agent
