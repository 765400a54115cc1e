#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "adapter/direct/mapped_target.h"
#include "arena/target.h"
#include "arena/xrc_queue.h"
#include "base/types.h"

/// XRC domains that several processes share (IBA annex A14). An XRC target queue pair of process T
/// may get requests that name a receive queue of process O, the *queue owner*. T allocates a *proxy
/// target* in O's arena. Whoever executes the request (T for packets, the requester on the direct
/// path) locks T's target first and the proxy second.
namespace verbatim::adapter {

/// Allocates a proxy target in the queue owner's arena for queue pair `qpn` of this process and
/// returns its local number; nothing if all kProxyTargetsMax are in use.
std::optional<std::uint32_t> allocate_proxy(const DirectPeer& queue_owner, Qpn qpn);
/// Frees the proxy and completes its current receive as flushed; a later `allocate_proxy` does so
/// if a stopped process holds its lock. Does nothing if another queue pair has the proxy by now.
void release_proxy(MappedTarget& proxy, Qpn qpn);
/// Called by the queue owner: frees all proxies of the process `ended`, in the same way.
void release_proxies_of(const DirectPeer& own, ProcessToken ended);
/// Called by the queue owner when it destroys the queue: detaches all proxies that use it and drops
/// their current receives without completions.
void forget_queue(const DirectPeer& own, SrqNumber number);

/// The queue owners that one XRC target queue pair, or one requester, has found so far. Protected
/// by that queue pair's lock.
class XrcQueueOwners {
 public:
  /// Returns null if the owner is unknown, has ended, or the proxy belongs to another queue pair
  /// now.
  MappedTarget* find(SrqNumber number, Qpn target);
  MappedTarget* add(std::shared_ptr<DirectPeer> queue_owner, SrqNumber number, std::uint32_t proxy);
  /// Called by the target's process: frees its proxies at all queue owners.
  void leave(Qpn target);
  /// The process has ended.
  void forget(const DirectPeer& queue_owner);

 private:
  struct Owner {
    std::uint32_t program = 0;
    std::unique_ptr<MappedTarget> target;
  };
  std::vector<Owner> queue_owners_;
};

}  // namespace verbatim::adapter
