#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "adapter/direct/mapped_target.h"
#include "arena/target.h"
#include "arena/xrc_queue.h"
#include "base/types.h"

/// XRC domains of several programs (IBA annex A14): who made a target and who made the queue that a
/// request names may be two programs of the node. The queue's is then the *host*: in its arena the
/// target's program takes a *guest* target, and whoever executes a request (that program for
/// packets, the requester on the direct path) holds the locks of both, the guest's last.
namespace verbatim::adapter {

/// Takes a guest of `host` for a queue pair of this program, and answers with its local number.
/// Nothing where all are taken.
std::optional<std::uint32_t> allocate_proxy(const DirectPeer& queue_owner, Qpn qpn);
/// Gives it back: the receive that it holds is flushed. Nothing where it is another's meanwhile.
void release_proxy(const MappedTarget& proxy, Qpn qpn);
/// The same by the host, of all that programs have which have ended.
void release_proxies_of(const DirectPeer& own, ProcessToken ended);
/// By the host: the queue is being destroyed, and peers find it no more.
void forget_queue(const DirectPeer& own, SrqNumber number);

/// The hosts of one XRC target, as its program knows them, or a requester. Under a lock of theirs.
class XrcQueueOwners {
 public:
  /// Null: the queue's program is not known (any more).
  MappedTarget* find(SrqNumber number, Qpn target);
  MappedTarget* add(std::shared_ptr<DirectPeer> queue_owner, SrqNumber number, std::uint32_t proxy);
  /// The target's program: none of them is a host any more.
  void leave(Qpn target);
  /// That program has ended.
  void forget(const DirectPeer& queue_owner);

 private:
  struct Owner {
    std::uint32_t program = 0;
    std::unique_ptr<MappedTarget> target;
  };
  std::vector<Owner> queue_owners_;
};

}  // namespace verbatim::adapter
