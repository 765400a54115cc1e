#pragma once

#include <span>
#include <string>
#include <vector>

#include "agent/protocol/node.h"
#include "agent/sockets/descriptor_store.h"
#include "agent/sockets/receive_sockets.h"
#include "base/error.h"
#include "base/os/unique_fd.h"

/// The slots of a node, their programs and their sockets.
namespace verbatim::agent {

/// NODE.programs: the program in slot N holds a lock on byte N. The lock (F_OFD_SETLK) belongs to a
/// descriptor that the agent opens, locks and sends, so that at no moment a program has a slot
/// without a lock. It ends with the program, whether an agent runs or not.
class SlotLocks {
 public:
  explicit SlotLocks(std::string path) : path_(std::move(path)) {}

  /// Returns a descriptor that holds the slot's lock; EWOULDBLOCK if it is held.
  Result<UniqueFd> take(std::uint32_t slot) const;
  bool is_held(std::uint32_t slot) const;
  bool any_is_held() const;
  /// Removes the file if no lock is held.
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

  /// Returns a slot for a program, the one that was free longest. ENOSPC.
  Result<SlotLease> take();
  /// Marks the slot of a program that rejoins as taken. ESTALE if it is taken already, or the
  /// program does not hold its lock.
  Result<void> retake(std::uint32_t slot);
  /// The program has ended.
  void release(std::uint32_t slot);
  /// Adds an address, with a socket for each slot and a GID. ENOSPC, and errors of the kernel.
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
  std::vector<bool> is_taken_;  // By slot; slot 0 is always taken.
  std::uint32_t last_taken_ = 0;
};

}  // namespace verbatim::agent
