#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "arena/flat_path.h"
#include "arena/offset.h"
#include "arena/receive_ring.h"
#include "arena/xrc_queue.h"
#include "base/always_inline.h"
#include "base/os/process_token.h"
#include "base/os/spin_lock.h"
#include "base/time.h"
#include "base/types.h"
#include "observe/counters.h"

/// The direct path (docs/design.md, 4): the requester's CPU executes the request in the responder's
/// memory.
namespace verbatim::arena {

struct CompletionRing;

/// Notifications from peers to the process that owns a queue pair or an XRC receive queue. Its
/// background thread handles them.
enum Notification : std::uint32_t {
  kReceiveCompleted = 1,    // The completion queue was armed.
  kCompletionsOverrun = 2,  // The receive's completion queue is full: the queue pair fails, too.
  kSrqLimitReached = 4,
  kEstablished = 8,
  kRequestError = 16,  // Go to the error state and raise IBV_EVENT_QP_REQ_ERR,
  kAccessError = 32,
  kFailed = 64,         // or raise no event: a completion reports it.
  kOwnerRequest = 128,  // See OwnerRequest.
  kMemoryWanted = 256,  // See DirectTarget::wanted_memory.
};

/// A request from a peer to the process that owns the target, for what only the owner can do:
/// invalidate a memory window; execute an atomic on memory that peers cannot map; allocate a proxy
/// target at the owner of XRC queue `key` (answer in `original`: the proxy's local number). From
/// importers: check that protection domain `key` exists; register a region over device memory `key`
/// (answer: its key).
struct OwnerRequest {
  enum Kind : std::uint32_t {
    invalidate,
    compare_and_swap,
    fetch_and_add,
    atomic_write,
    allocate_proxy,
    find_domain,
    export_device_memory
  };
  enum State : std::uint32_t { none, asked, done, refused };
  // Stored with release order after the fields that belong to it.
  std::atomic<std::uint32_t> state{none};
  Kind kind{};
  std::uint32_t key = 0;
  std::uint64_t address = 0;
  std::uint64_t compare_add = 0;  // Or the value to write.
  std::uint64_t swap = 0;
  std::uint64_t original = 0;  // The answer.

  /// Publishes the request. Requires `state == none` and the target's lock.
  void ask(const OwnerRequest& wanted) {
    kind = wanted.kind;
    key = wanted.key;
    address = wanted.address;
    compare_add = wanted.compare_add;
    swap = wanted.swap;
    state.store(asked, std::memory_order_release);
  }
};

/// A queue pair's responder state for peers, in its owner's arena: one for each queue pair of the
/// program, by local number.
///
/// `lock` serialises everything done for the queue pair: a peer holds it while it executes a
/// request, the owner while it changes these fields. It also keeps regions registered:
/// deregistration clears the key and then waits until each target's lock has been free once
/// (region::RegionTable::find_locked). A thread that waits for the lock takes it over if the
/// holder's process is dead. The current receive stays in `receive` until it is completed; the next
/// holder calls `recover_target` to finish what a killed one left in the rings.
///
/// Entries from kProgramQueuePairsMax on are proxy targets (xrc_queue_owners.h). Each belongs to an
/// XRC target queue pair, or an importer, of another process, which has allocated it; it has a
/// lock, a current receive, an owner request and notifications, but no connected peer.
struct alignas(64) DirectTarget {
  SpinLock lock;
  // Number of unlocks so far: shows that the lock was free once.
  std::atomic<std::uint32_t> unlocks{0};
  observe::DirectCounters received;   // Written by the lock holder.
  std::atomic<std::uint32_t> qpn{0};  // Of a queue pair that uses the direct path; 0: none.
  // Written by the owner under `lock`; `access`, `qkey` and `min_rnr_timer` also while a stopped
  // process holds it.
  Qpn peer_qpn;  // The connected peer's queue pair number; 0: requests are not served.
  std::atomic<std::uint32_t> access{0};
  PeerName peer_name;                 // InfiniBand: as a full member of the queue pair's partition.
  std::atomic<bool> given_up{false};  // See `lock_or_give_up`; written by the owner.
  std::atomic<bool> in_step{false};   // Written by the lock holder: `begin_step`.
  XrcDomain xrc_domain{};             // Of an XRC target: each request names a queue of it.
  XrcFile xrc_file;                   // Of the domain.
  // Of a proxy: the process that has the queue pair; 0: it has ended its use, and did not get the
  // lock to free the entry.
  std::atomic<ProcessToken> proxy_for{0};
  bool takes_datagrams = false;  // UD: from everybody who knows the Q_Key.
  std::atomic<QKey> qkey{};
  PKey pkey{};  // InfiniBand, as the next one. 0: nothing comes, for the port is not ACTIVE.
  std::uint16_t pkey_index = 0;
  std::atomic<std::uint8_t> min_rnr_timer{0};
  std::uint8_t max_dest_rd_atomic = 0;
  /// iWARP: whoever comes by `peer_name`, which only the peer has been told, becomes the one whom
  /// the target serves.
  bool awaits_direct_peer = false;
  std::uint8_t port = 0;  // InfiniBand: the adapter's.
  // Written by the owner under `lock`. XRC: written by the current lock holder, from the receive
  // queue that the request names (`enter`).
  PdNumber pd{};
  PdNumber receive_pd{};
  Offset<ReceiveRing> receives;
  Offset<CompletionRing> receive_cq;
  SrqNumber receive_srq{};  // XRC only.
  // Written by the lock holder.
  bool established = false;                // The first request has arrived.
  std::atomic<bool> holds_receive{false};  // Set and cleared by the rings.
  ReceiveRequest receive;                  // Taken and not completed, while `holds_receive`.
  std::atomic<std::uint32_t> notifications{0};
  OwnerRequest owner_request;
  /// Key of a region whose memory peers ask the owner to move into its memory file; 0: none.
  std::atomic<std::uint32_t> wanted_memory{0};

  bool is_locked() const { return lock.is_locked(); }
  /// A peer begins to change the rings or to notify the owner, until `end_step`. Returns false if
  /// the owner has given the target up: then the peer must not, and what it executes has not
  /// arrived, even if the owner takes it back at once. Requires `lock`.
  VERBATIM_ALWAYS_INLINE bool begin_step() {
    in_step.store(true, std::memory_order_relaxed);
    // Orders the two for the compiler; `give_up` does it for the processors.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (!given_up.load(std::memory_order_acquire)) return true;
    end_step();
    return false;
  }
  VERBATIM_ALWAYS_INLINE void end_step() { in_step.store(false, std::memory_order_release); }
  /// XRC: selects the receive queue that a request names, of this process. Returns false if it does
  /// not exist or is in another XRC domain. Requires `lock`.
  bool enter(const XrcQueue& queue, SrqNumber number) {
    if (queue.number.load(std::memory_order_acquire) != raw(number)) return false;
    return queue.domain == xrc_domain && use(queue, number);
  }
  /// The same for a proxy target: the queue must be in the XRC domain of `file`.
  bool enter(const XrcQueue& queue, SrqNumber number, const XrcFile& file) {
    if (queue.number.load(std::memory_order_acquire) != raw(number)) return false;
    return file.exists() && queue.file == file && use(queue, number);
  }
  /// Whether requests of the peer with this queue pair number and name are served.
  bool serves(Qpn number, const PeerName& name) const {
    return peer_qpn == number && peer_name == name;
  }
  /// InfiniBand: the same for a limited member of a partition, which reaches full members alone
  /// (IBA 10.9.3).
  bool serves_limited_member(Qpn number, const PeerName& name) const;
  /// Whether requests of that peer are refused for their P_Key alone.
  bool refuses_pkey(Qpn number, const PeerName& name) const {
    return peer_qpn == number && have_same_lids(peer_name, name);
  }
  void stop_serving() {
    peer_qpn = {};
    awaits_direct_peer = false;
    takes_datagrams = false;
  }

 private:
  bool use(const XrcQueue& queue, SrqNumber number) {
    pd = receive_pd = queue.pd;
    receives = queue.receives;
    receive_cq = queue.cq;
    receive_srq = number;
    return true;
  }
};

/// Scope object that holds a target's lock.
class TargetLock {
 public:
  explicit TargetLock(DirectTarget& target) : target_(target) { target_.lock.lock(); }
  TargetLock(DirectTarget& target, std::adopt_lock_t) : target_(target) {}
  ~TargetLock() {
    target_.unlocks.store(target_.unlocks.load(std::memory_order_relaxed) + 1,
                          std::memory_order_release);
    target_.lock.unlock();
  }
  TargetLock(const TargetLock&) = delete;
  TargetLock& operator=(const TargetLock&) = delete;

 private:
  DirectTarget& target_;
};

/// Returns true if it holds the target's lock, false if another process, which lives, has held it
/// for more than a moment: it may be stopped (SIGSTOP).
bool lock_after_waiting(DirectTarget& target);
VERBATIM_ALWAYS_INLINE bool lock_soon(DirectTarget& target) {
  return target.lock.try_lock() || lock_after_waiting(target);
}

/// Called by the owner, which ends the target: as `lock_soon`. If it returns false, the target is
/// *given up*: its holder may still be copying to or from the regions of its request, for which
/// deregistration waits, but it changes nothing else any more: not the rings nor
/// `holds_receive`, and it notifies nobody. It still reads the target, so the owner changes only
/// `holds_receive`, `notifications` and `qpn` before `take_back`. Waits as long as the holder is
/// in a step (`begin_step`), and on kernels without MEMBARRIER_CMD_GLOBAL for the lock.
bool lock_or_give_up(DirectTarget& target);

/// Called by the owner: makes a target that it has given up usable again, once the holder has
/// released the lock. Returns false until then.
bool take_back(DirectTarget& target);

/// Completes what a killed lock holder had begun in the receive and completion rings;
/// `holds_receive` is valid afterwards. `arena` is the address at which the target's arena is
/// mapped. Requires the target's lock.
void recover_target(DirectTarget& target, std::byte* arena);

/// Waits until the current holder of the target's lock has released it. Returns at once if it is
/// free. If the holder was killed, the wait ends too (SpinLock opens the lock). Returns false at
/// the deadline.
bool wait_for_target_unlock(DirectTarget& target, TimeNs deadline = kNever);

}  // namespace verbatim::arena
