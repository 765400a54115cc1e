#pragma once

#include <atomic>
#include <cstdint>

#include "arena/flat_path.h"
#include "arena/offset.h"
#include "arena/receive_ring.h"
#include "arena/xrc_queue.h"
#include "base/os/process_token.h"
#include "base/os/spin_lock.h"
#include "base/types.h"
#include "observe/counters.h"

/// The direct path (docs/design.md, 4): the processor of whoever asks does the adapter's work.
namespace verbatim::arena {

struct CompletionRing;

/// What peers tell the owner of a queue pair, or of an XRC queue, whose background thread then does
/// what only it can.
enum Notification : std::uint32_t {
  kReceiveCompleted = 1,    // In a completion queue that was armed.
  kCompletionsOverrun = 2,  // The receive's completion found no room: the queue pair fails, too.
  kSrqLimitReached = 4,
  kEstablished = 8,
  kRequestError = 16,  // The queue pair has failed, by an event of this kind,
  kAccessError = 32,
  kFailed = 64,         // or by none: a completion has told it.
  kOwnerRequest = 128,  // See OwnerRequest.
};

/// What a peer asks the owner to do because the peer's processor cannot: to end the binding of a
/// memory window; an atomic operation on memory that peers do not have; to take a guest target of
/// the program whose XRC queue has the number `key` (`original` is its local number then). Of who
/// imports objects: whether there is a protection domain `key`; the key of a region over the device
/// memory `key`.
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
  std::atomic<std::uint32_t> state{none};  // Release by whoever has written what goes with it.
  Kind kind{};
  std::uint32_t key = 0;
  std::uint64_t address = 0;
  std::uint64_t compare_add = 0;  // Or what is written.
  std::uint64_t swap = 0;
  std::uint64_t original = 0;  // The answer.

  /// Asks for what is `wanted`, where nothing is being asked.
  void ask(const OwnerRequest& wanted) {
    kind = wanted.kind;
    key = wanted.key;
    address = wanted.address;
    compare_add = wanted.compare_add;
    swap = wanted.swap;
    state.store(asked, std::memory_order_release);
  }
};

/// What a peer needs to be a queue pair's responder, in its owner's arena: one for each queue pair
/// of the program, by local number.
///
/// Whoever acts for the queue pair holds `lock` all the while: a peer that executes a request, the
/// owner that changes what stands here. It is also what keeps regions alive: who deregisters one
/// first makes its key invalid, then waits until every such lock has been free once
/// (`region::RegionTable::visit`). A holder that is killed is found out by who waits; the receive
/// request in use stands here until it has been completed, and what a holder has left half done in
/// the rings is finished by the next (`settle`).
///
/// Behind the program's own lie its guests: each belongs to an XRC target of another program (see
/// xrc_queue_owners.h), which says here whom requests may serve, and holds only what concerns this
/// one.
struct alignas(64) DirectTarget {
  SpinLock lock;
  std::atomic<std::uint32_t> unlocks{0};  // That have ended.
  observe::DirectCounters received;       // Written by who holds `lock`.
  std::atomic<std::uint32_t> qpn{0};      // Of a queue pair that takes this path; 0: there is none.
  // Written by the owner, under `lock`.
  Qpn peer_qpn;  // Whom it serves; 0: nobody.
  std::uint32_t access = 0;
  PeerName peer_name;
  XrcDomain xrc_domain{};        // Of an XRC target: each request names a queue of it.
  XrcFile xrc_file;              // Of the domain.
  ProcessToken proxy_for = 0;    // Of a guest: the program that has the queue pair.
  bool takes_datagrams = false;  // UD: from everybody who knows the Q_Key.
  QKey qkey{};
  std::uint8_t min_rnr_timer = 0;
  std::uint8_t max_dest_rd_atomic = 0;
  /// iWARP: whoever comes by `peer_name`, which only the peer has been told, becomes the one whom
  /// the target serves.
  bool awaits_direct_peer = false;
  // As well; of an XRC target by who holds `lock`, as the request's queue has it (`enter`).
  PdNumber pd{};
  PdNumber receive_pd{};
  Offset<ReceiveRing> receives;
  Offset<CompletionRing> receive_cq;
  SrqNumber receive_srq{};  // None but for XRC.
  // Written by who holds `lock`.
  bool established = false;                // A first request has come.
  std::atomic<bool> holds_receive{false};  // The rings set and clear it.
  ReceiveRequest receive;                  // Taken and not completed, while it `holds_receive`.
  std::atomic<std::uint32_t> notifications{0};
  OwnerRequest owner_request;

  bool is_locked() const { return lock.is_locked(); }
  /// XRC: what follows concerns this queue of the same program. False where it is none of the
  /// target's domain.
  bool enter(const XrcQueue& queue, SrqNumber number) {
    if (queue.number.load(std::memory_order_acquire) != raw(number)) return false;
    return queue.domain == xrc_domain && use(queue, number);
  }
  /// The same of a guest, whose domain is the file's.
  bool enter(const XrcQueue& queue, SrqNumber number, const XrcFile& file) {
    if (queue.number.load(std::memory_order_acquire) != raw(number)) return false;
    return file.exists() && queue.file == file && use(queue, number);
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

/// Holds a target's lock.
class TargetLock {
 public:
  explicit TargetLock(DirectTarget& target) : target_(target) { target_.lock.lock(); }
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

/// By who holds the lock: what somebody who was killed had left half done in the rings is finished,
/// and `holds_receive` is right. `arena` is where the target's arena is mapped.
void recover_target(DirectTarget& target, std::byte* arena);

/// Returns when whoever holds the target's lock now has let it go.
void wait_for_target_unlock(DirectTarget& target);

}  // namespace verbatim::arena
