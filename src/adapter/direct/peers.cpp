#include "adapter/direct/peers.h"

#include <algorithm>
#include <bitset>
#include <cerrno>
#include <cstring>
#include <string>

#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "adapter/direct/execute.h"
#include "adapter/direct/xrc_queue_owners.h"
#include "adapter/progress/progress.h"
#include "arena/xrc_queue.h"
#include "base/log.h"
#include "base/os/peer_copies.h"
#include "base/os/process_token.h"

namespace verbatim::adapter {
namespace {

std::string text_of(const SocketAddress& address) {
  return address.empty() ? "this host" : address.ip_text();
}

}  // namespace

Result<void> PeerDirectory::open(const UniqueFd& doorbell) {
  regions_.set_grace_period({.wait_for_peers = [this] { wait_for_target_unlocks(); },
                             .wait_for_own = [this] { wait_for_users(); }});
  doorbell_ = doorbell.get();
  auto own = DirectPeer::own(arena_, doorbell);
  if (!own) return std::unexpected(own.error());
  own_peer_ = std::move(*own);
  peers_.push_back({own_peer_, {}});
  return progress_.watch(doorbell_, [this] { on_doorbell(); });
}

/// Returns the peer found earlier at this address, if it has the queue pair now. Numbers are unique
/// at an address, so no other process can have it.
std::shared_ptr<DirectPeer> PeerDirectory::peer_at(const SocketAddress& address, Qpn qpn) {
  const std::lock_guard guard(lock_);
  const auto is_it = [&](const KnownPeer& known) {
    return !known.peer->is_gone() && known.peer->has(qpn) && known.is_at(address);
  };
  const auto found = std::ranges::find_if(peers_, is_it);
  return found == peers_.end() ? nullptr : found->peer;
}

/// Returns the peer with this arena, if it is known, and adds this address to it.
std::shared_ptr<DirectPeer> PeerDirectory::known_peer(std::uint64_t arena_inode,
                                                      const SocketAddress& address) {
  const std::lock_guard guard(lock_);
  // Removes peers that have ended and that have no user.
  std::erase_if(peers_, [](const KnownPeer& known) {
    return known.peer->is_gone() && known.peer.use_count() == 1;
  });
  const auto found = std::ranges::find(
      peers_, arena_inode, [](const KnownPeer& known) { return known.peer->arena_inode(); });
  if (found == peers_.end()) return nullptr;
  if (!found->is_at(address)) found->addresses.push_back(address);
  return found->peer;
}

std::shared_ptr<DirectPeer> PeerDirectory::find_peer(const SocketAddress& address, Qpn qpn) {
  if (auto known = peer_at(address, qpn)) return known;
  auto descriptors = ask_(address, qpn);
  if (!descriptors) {
    log(LogLevel::debug, "QP {:#x} at {} is reached over the wire: {}", qpn.value(),
        text_of(address), descriptors.error().text);
    return nullptr;
  }
  struct stat info{};
  if (fstat(descriptors->arena.get(), &info) != 0) return nullptr;
  if (auto known = known_peer(info.st_ino, address)) return known;
  auto peer = DirectPeer::map(std::move(*descriptors));
  if (!peer) {
    log(LogLevel::info, "QP {:#x} at {} is reached over the wire: {}", qpn.value(),
        text_of(address), peer.error().text);
    return nullptr;
  }
  const auto watched =
      progress_.watch((*peer)->process_fd(), [this, one = *peer] { on_peer_gone(one); });
  if (!watched) return nullptr;
  const std::lock_guard guard(lock_);
  peers_.push_back({*peer, {address}});
  return *peer;
}

/// Called by the background thread, outside of passes.
void PeerDirectory::on_peer_gone(const std::shared_ptr<DirectPeer>& peer) {
  peer->set_gone();
  progress_.between_passes([&] { visited_.on_peer_gone(*peer); });
  progress_.unwatch(peer->process_fd());
}

namespace {

/// Calls `use(local_number)` for each bit that is set; clears the bitmap first, if asked.
template <typename Use>
void for_each_number(LocalNumberBitmap& bitmap, Use use, bool clears = false) {
  for (std::uint32_t i = 0; i < bitmap.size(); ++i) {
    std::uint64_t bits = bitmap[i].load(std::memory_order_seq_cst);
    if (bits != 0 && clears) bits = bitmap[i].exchange(0, std::memory_order_seq_cst);
    for (; bits != 0; bits &= bits - 1) {
      use(i * 64 + static_cast<std::uint32_t>(std::countr_zero(bits)));
    }
  }
}

}  // namespace

void PeerDirectory::watch_attached_peers() {
  auto& places = arena_.header().attached_peers;
  for (std::uint32_t i = 0; i < places.size(); ++i) {
    const ProcessToken attached_peer = places[i].load(std::memory_order_seq_cst);
    if (attached_peer == 0 || attached_peers_.contains(i)) continue;
    const auto pid = static_cast<pid_t>(process_id_of(attached_peer));
    UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (!process && errno != ESRCH) {
      log(LogLevel::warn, "visitor {}: pidfd_open: {}", pid, std::strerror(errno));
      arena_.header().has_new_attached_peers.store(
          true,
          std::memory_order_seq_cst);  // Sets the bit again, for the next time.
      continue;
    }
    const int fd = process.get();
    if (fd < 0) {
      on_attached_peer_gone(i, fd);
      continue;
    }
    const auto watched = progress_.watch(fd, [this, i, fd] { on_attached_peer_gone(i, fd); });
    if (!watched) log(LogLevel::warn, "visitor {}: {}", pid, watched.error().text);
    attached_peers_[i] = std::move(process);
  }
}

/// Recovers what a killed peer left behind: frees its proxies, completes half-added CQ entries,
/// handles pending notifications.
void PeerDirectory::on_attached_peer_gone(std::uint32_t place, int fd) {
  const ProcessToken ended = arena_.header().attached_peers[place].load(std::memory_order_seq_cst);
  const KnownEnd known(ended);  // Takes over its locks, whichever process has its number by now.
  progress_.between_passes([&] {
    release_proxies_of(*own_peer_, ended);
    visited_.on_attached_peer_gone();
  });
  serve_notifications();
  if (fd >= 0) progress_.unwatch(fd);
  attached_peers_.erase(place);
  arena_.header().attached_peers[place].store(0, std::memory_order_seq_cst);
}

void PeerDirectory::on_doorbell() {
  eventfd_t rung = 0;
  eventfd_read(doorbell_, &rung);
  if (arena_.header().has_new_attached_peers.exchange(false, std::memory_order_seq_cst)) {
    try {
      watch_attached_peers();
    } catch (...) {  // Out of memory: the background thread tries again.
      arena_.header().has_new_attached_peers.store(true, std::memory_order_seq_cst);
      throw;
    }
  }
  serve_notifications();
  if (visited_.move_memory()) eventfd_write(doorbell_, 1);
}

void PeerDirectory::serve_notifications() {
  // Requests to the owner are served outside of passes and need the adapter's lock. Allocates
  // nothing, because after a failure the cleared bits would be lost.
  std::bitset<kTargetsMax> notified;
  progress_.between_passes([&] {
    const auto serve_target = [&](std::uint32_t local) {
      notified.set(local);
      if (local < kProgramQueuePairsMax) visited_.on_target_notified(local);
    };
    const auto serve_queue = [&](std::uint32_t local) { visited_.on_queue_notified(local); };
    for_each_number(arena_.header().notified_targets, serve_target, true);
    for_each_number(arena_.header().notified_srqs, serve_queue, true);
  });
  for (auto i = notified._Find_first(); i < notified.size(); i = notified._Find_next(i)) {
    DirectTarget& target = arena_.target(static_cast<std::uint32_t>(i));
    if (i >= kProgramQueuePairsMax) serve_proxy(target);
    const std::uint32_t wanted = target.wanted_memory.exchange(0, std::memory_order_acq_rel);
    if (wanted != 0) visited_.on_memory_wanted(MemoryKey{wanted});
  }
}

/// Handles notifications from queue pairs of other processes whose requests name our queues.
void PeerDirectory::serve_proxy(DirectTarget& proxy) {
  const std::uint32_t notifications = proxy.notifications.exchange(0, std::memory_order_seq_cst);
  const bool is_asked =
      proxy.owner_request.state.load(std::memory_order_acquire) == OwnerRequest::asked;
  if ((notifications & kOwnerRequest) == 0 || !is_asked) return;
  if (proxy.owner_request.kind > OwnerRequest::allocate_proxy)
    return visited_.answer_importer(proxy.owner_request);
  answer(proxy.owner_request, regions_, {proxy.pd, Qpn(proxy.qpn)});
}

/// Waits until each exposed target and each proxy target has been unlocked once: a peer that uses a
/// region of this process holds one of these locks.
bool PeerDirectory::wait_for_target_unlocks(TimeNs deadline) {
  bool are_free = true;
  const auto wait = [&](std::uint32_t local_number) {
    are_free = are_free && wait_for_target_unlock(arena_.target(local_number), deadline);
  };
  const std::uint32_t proxies = arena_.header().proxy_count.load(std::memory_order_seq_cst);
  for (std::uint32_t i = 0; i < std::min(proxies, kProxyTargetsMax); ++i) {
    wait(kProgramQueuePairsMax + i);
  }
  for_each_number(exposed_, wait);
  return are_free;
}

/// A thread of this process that uses a region holds the lock of the queue pair that it works for.
void PeerDirectory::wait_for_users() {
  progress_.between_passes([&] {  // So that none is destroyed meanwhile.
    for_each_number(exposed_, [this](std::uint32_t i) { visited_.wait_for_user(i); });
  });
}

}  // namespace verbatim::adapter
