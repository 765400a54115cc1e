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

/// Asks the node's agent for the program that has a queue pair, or an XRC queue, at an address.
using AskForPeer = std::function<Result<PeerDescriptors>(const SocketAddress&, Qpn)>;

/// What of this program peers do something to. Called by the background thread; during a turn, but
/// for `answer_importer`.
class Visited {
 public:
  /// That program has ended.
  virtual void on_peer_gone(const DirectPeer& peer) = 0;
  /// One has ended that visited this program: what it may have done and not told.
  virtual void on_attached_peer_gone() = 0;
  /// Somebody has told the queue pair something.
  virtual void on_target_notified(std::uint32_t local_number) = 0;
  /// Somebody has told the XRC queue something.
  virtual void on_queue_notified(std::uint32_t local_number) = 0;
  /// Whoever uses the program's regions under the queue pair's lock has done when this returns.
  virtual void wait_for_user(std::uint32_t local_number) = 0;
  /// A peer that imports objects of this program asks for something.
  virtual void answer_importer(OwnerRequest& wanted) = 0;

 protected:
  ~Visited() = default;
};

/// The programs of this machine that are reached on the direct path, and this program as they see
/// it: its doorbell and who visits it. Any thread.
class PeerDirectory {
 public:
  /// `regions` are visited by peers, `visited` as well. All outlive the background thread.
  PeerDirectory(Arena& arena, Progress& progress, region::RegionTable& regions, Visited& visited,
                AskForPeer ask)
      : arena_(arena),
        progress_(progress),
        regions_(regions),
        visited_(visited),
        ask_(std::move(ask)) {}
  /// From now on peers are heard. `doorbell` is borrowed.
  Result<void> open(const UniqueFd& doorbell);

  /// The program on this machine that has the queue pair, or the XRC queue; null where the wire
  /// leads there. Asks its node's agent, but for programs that were found before.
  std::shared_ptr<DirectPeer> find_peer(const SocketAddress& address, Qpn qpn);
  /// This program; null where there is no direct path.
  const DirectPeer* own() const { return own_peer_.get(); }
  /// Peers may visit the queue pair's target, or none does any more.
  void set_exposed(Qpn qpn, bool found) {
    const std::uint32_t local_number = qpn.value() % kProgramQueuePairsMax;
    const std::uint64_t bit = std::uint64_t{1} << (local_number % 64);
    std::atomic<std::uint64_t>& word = exposed_[local_number / 64];
    found ? word.fetch_or(bit) : word.fetch_and(~bit);
  }
  /// Whoever visits a target of ours, or a proxy, has left it when this returns.
  void wait_for_target_unlocks();

 private:
  struct KnownPeer {
    std::shared_ptr<DirectPeer> peer;
    std::vector<SocketAddress> addresses;  // By which it was found.
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
  std::mutex lock_;              // Guards peers_. Held for a look-up only.
  std::vector<KnownPeer> peers_;
  std::shared_ptr<DirectPeer> own_peer_;              // One of them.
  std::map<std::uint32_t, UniqueFd> attached_peers_;  // By place: pidfds. The background thread's.
};

}  // namespace verbatim::adapter
