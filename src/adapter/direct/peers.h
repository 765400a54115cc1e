#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "adapter/direct/direct_peer.h"
#include "adapter/progress/progress.h"
#include "arena/arena.h"
#include "arena/target.h"
#include "base/error.h"
#include "base/net/address.h"
#include "base/os/unique_fd.h"
#include "base/types.h"
#include "region/region_table.h"

namespace verbatim::adapter {

/// Asks the node's agent for the process that has a queue pair, or an XRC queue, at an address.
/// Over InfiniBand the address is empty, and the node is the own one.
using AskForPeer = std::function<Result<PeerDescriptors>(const SocketAddress&, Qpn)>;

/// The parts of this program that peers affect. Called by the background thread, in a pass unless
/// said otherwise.
class Visited {
 public:
  /// The peer's process has ended.
  virtual void on_peer_gone(const DirectPeer& peer) = 0;
  /// A process that had attached to this one has ended: handles what it had done without notifying.
  virtual void on_attached_peer_gone() = 0;
  /// A peer has notified the queue pair.
  virtual void on_target_notified(std::uint32_t local_number) = 0;
  /// A peer has notified the XRC queue.
  virtual void on_queue_notified(std::uint32_t local_number) = 0;
  /// Waits until the thread that now uses the program's regions under the queue pair's lock has
  /// released it.
  virtual void wait_for_user(std::uint32_t local_number) = 0;
  /// Answers a request from an importer of this program's objects. Outside of passes.
  virtual void answer_importer(OwnerRequest& wanted) = 0;
  /// Peers ask that the region's memory moves into the memory file. Outside of passes.
  virtual void on_memory_wanted(MemoryKey key) = 0;
  /// Moves some of what is wanted; returns true if there is more. Outside of passes.
  virtual bool move_memory() = 0;

 protected:
  ~Visited() = default;
};

/// The processes of this machine that are on the direct path, and this process as they see it: its
/// doorbell and its attached peers. Any thread.
class PeerDirectory {
 public:
  /// `regions`, `visited`: what peers access. All must outlive the background thread.
  PeerDirectory(Arena& arena, Progress& progress, region::RegionTable& regions, Visited& visited,
                AskForPeer ask)
      : arena_(arena),
        progress_(progress),
        regions_(regions),
        visited_(visited),
        ask_(std::move(ask)) {}
  /// Starts to handle notifications from peers. `doorbell` is borrowed.
  Result<void> open(const UniqueFd& doorbell);

  /// Returns the process on this machine that has the queue pair or XRC queue; null if the wire
  /// must be used. Asks its node's agent, except for processes that were found before.
  std::shared_ptr<DirectPeer> find_peer(const SocketAddress& address, Qpn qpn);
  /// Returns this process; null without the direct path.
  const DirectPeer* own() const { return own_peer_.get(); }
  /// Marks whether peers may lock the queue pair's target. Deregistration waits for marked targets
  /// only.
  void set_exposed(Qpn qpn, bool found) {
    const std::uint32_t local_number = qpn.value() % kProgramQueuePairsMax;
    const std::uint64_t bit = std::uint64_t{1} << (local_number % 64);
    std::atomic<std::uint64_t>& word = exposed_[local_number / 64];
    found ? word.fetch_or(bit) : word.fetch_and(~bit);
  }
  /// Waits until each target and proxy target that peers hold now has been released. Returns false
  /// at the deadline.
  bool wait_for_target_unlocks(TimeNs deadline = kNever);

 private:
  struct KnownPeer {
    std::shared_ptr<DirectPeer> peer;
    std::vector<SocketAddress> addresses;  // The addresses under which it was found.
    bool is_at(const SocketAddress& address) const {
      const auto is_same = [&](const SocketAddress& one) { return same_ip(one, address); };
      return std::ranges::any_of(addresses, is_same);
    }
  };
  std::shared_ptr<DirectPeer> peer_at(const SocketAddress& address, Qpn qpn);
  std::shared_ptr<DirectPeer> known_peer(std::uint64_t arena_inode, const SocketAddress& address);
  void on_doorbell();
  void serve_notifications();
  void serve_proxy(DirectTarget& proxy);
  void watch_attached_peers();
  void on_attached_peer_gone(std::uint32_t place, int fd);
  void on_peer_gone(const std::shared_ptr<DirectPeer>& peer);
  void wait_for_users();

  Arena& arena_;
  Progress& progress_;
  region::RegionTable& regions_;
  Visited& visited_;
  const AskForPeer ask_;
  int doorbell_ = -1;
  LocalNumberBitmap exposed_{};  // See `set_exposed`.
  std::mutex lock_;              // Protects peers_. Held for a look-up only.
  std::vector<KnownPeer> peers_;
  std::shared_ptr<DirectPeer> own_peer_;  // An element of it.
  std::map<std::uint32_t, UniqueFd>
      attached_peers_;  // By entry in the header: pidfds. For the background thread only.
};

}  // namespace verbatim::adapter
