#pragma once

#include <span>
#include <string>
#include <vector>

#include "agent/protocol/node.h"
#include "agent/sockets/descriptor_store.h"
#include "agent/sockets/receive_sockets.h"
#include "base/error.h"
#include "base/os/unique_fd.h"

/// Who has which slot of a node, and the sockets that go with it.
namespace verbatim::agent {

/// NODE.programs: the program in slot N holds a lock on byte N. The lock (F_OFD_SETLK) belongs to a
/// descriptor that the agent opens, locks and hands over, so there is no instant at which a program
/// has a slot and no lock; it ends with the program, whether an agent lives or not.
class SlotLocks {
 public:
  explicit SlotLocks(std::string path) : path_(std::move(path)) {}

  /// A descriptor that holds the slot's lock; EWOULDBLOCK where somebody has it.
  Result<UniqueFd> take(std::uint32_t slot) const;
  bool is_held(std::uint32_t slot) const;
  bool any_is_held() const;
  /// Removes the file, if nobody holds a lock.
  void remove_if_free() const;

 private:
  UniqueFd open() const;
  std::string path_;
};

struct SlotLease {
  std::uint32_t slot = 0;
  UniqueFd lock;
};

class Slots {
 public:
  /// For a node without programs: makes the descriptor store and the first sockets.
  static Result<Slots> create(const Node& node, SlotLocks locks);
  /// From what a living program kept of an earlier agent. All slots whose programs live stay
  /// theirs.
  static Result<Slots> restore(DescriptorStore store, SlotLocks locks);

  const Node& node() const { return node_; }
  const DescriptorStore& descriptor_store() const { return store_; }
  std::span<const UniqueFd> sockets(std::uint32_t slot) const {
    return receive_sockets_.sockets(slot);
  }

  /// A slot for a program, the one that has been free for longest. ENOSPC.
  Result<SlotLease> take();
  /// The slot of a program that has had it since before this agent. ESTALE where it is not its.
  Result<void> retake(std::uint32_t slot);
  /// The program has gone.
  void release(std::uint32_t slot);
  /// One address more, with a socket for each slot and a GID. ENOSPC, and what the kernel says.
  Result<void> add_address(const SocketAddress& address);

 private:
  Slots(DescriptorStore store, SlotLocks locks);
  Result<void> grow();
  Result<void> keep(SocketChunk chunk);
  Result<void> add(SocketChunk chunk);
  Result<SlotLease> take_free();

  DescriptorStore store_;
  Node node_;
  SlotLocks locks_;
  ReceiveSockets receive_sockets_;
  std::vector<bool> is_taken_;  // By slot; slot 0 always is.
  std::uint32_t last_taken_ = 0;
};

}  // namespace verbatim::agent
