#include <algorithm>
#include <bitset>
#include <cerrno>
#include <cstring>
#include <new>

#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "adapter/adapter.h"
#include "adapter/execute.h"
#include "adapter/memory.h"
#include "adapter/progress.h"
#include "adapter/xrc_hosts.h"
#include "adapter/xrc_queue.h"
#include "base/known_end.h"
#include "base/log.h"

/// The adapter's side of the direct path: its peers, its memory, its doorbell.
namespace verbatim::adapter {

Result<void> prepare_direct_path(Membership& membership) {
  constexpr unsigned kOwnThreads = 1;  // The background thread.
  auto memory = region::MemoryFile::create({.own_threads = kOwnThreads});
  if (!memory) return std::unexpected(memory.error());
  membership.memory = std::move(*memory);
  let_peers_copy();  // What is not in the file.
  return {};
}

Result<void> Adapter::serve_peers() {
  if (!membership_.doorbell) return {};
  regions_->set_visitors({.wait_for_peers = [this] { wait_for_visitors(); },
                          .wait_for_own = [this] { wait_for_users(); }});
  if (membership_.memory) {
    adoption_ = std::make_unique<Adoption>(
        *membership_.memory, *arena_, *regions_,
        [this](TimeNs deadline) { return await_kernel_copies(deadline); });
  }
  own_peer_ = DirectPeer::own(*arena_, membership_.doorbell);
  peers_.push_back(own_peer_);
  return progress_->watch(membership_.doorbell.get(), [this] { on_doorbell(); });
}

std::shared_ptr<DirectPeer> Adapter::known_peer(std::uint64_t arena_inode) {
  const std::lock_guard guard(peers_lock_);
  // Those that have ended and that nobody uses any more go.
  std::erase_if(peers_, [](const auto& peer) { return peer->is_gone() && peer.use_count() == 1; });
  const auto found = std::ranges::find(peers_, arena_inode, &DirectPeer::arena_inode);
  return found == peers_.end() ? nullptr : *found;
}

std::shared_ptr<DirectPeer> Adapter::find_peer(const SocketAddress& address, Qpn qpn) {
  auto descriptors = membership_.ask_for_peer(address, qpn);
  if (!descriptors) {
    log(LogLevel::debug, "QP {:#x} at {} is reached over the wire: {}", qpn.value(),
        address.ip_text(), descriptors.error().text);
    return nullptr;
  }
  struct stat info{};
  if (fstat(descriptors->arena.get(), &info) != 0) return nullptr;
  if (auto known = known_peer(info.st_ino)) return known;
  auto peer = DirectPeer::map(std::move(*descriptors));
  if (!peer) {
    log(LogLevel::info, "QP {:#x} at {} is reached over the wire: {}", qpn.value(),
        address.ip_text(), peer.error().text);
    return nullptr;
  }
  const auto watched =
      progress_->watch((*peer)->process_fd(), [this, one = *peer] { on_peer_gone(one); });
  if (!watched) return nullptr;
  const std::lock_guard guard(peers_lock_);
  peers_.push_back(*peer);
  return *peer;
}

/// By the background thread, in no turn.
void Adapter::on_peer_gone(const std::shared_ptr<DirectPeer>& peer) {
  peer->set_gone();
  progress_->during_no_turn([&] {
    for (std::uint32_t i = 0; i < kProgramQueuePairsMax; ++i) {
      if (QueuePair* const queue_pair = find_local(i)) queue_pair->on_peer_gone(*peer);
    }
  });
  progress_->unwatch(peer->process_fd());
}

namespace {

/// `use(local_number)` for each whose bit is set; where the board is to be cleared, it is first.
template <typename Use>
void for_each_number(NumberBoard& board, Use use, bool clears = false) {
  for (std::uint32_t i = 0; i < board.size(); ++i) {
    std::uint64_t bits = board[i].load(std::memory_order_seq_cst);
    if (bits != 0 && clears) bits = board[i].exchange(0, std::memory_order_seq_cst);
    for (; bits != 0; bits &= bits - 1) {
      use(i * 64 + static_cast<std::uint32_t>(std::countr_zero(bits)));
    }
  }
}

}  // namespace

void Adapter::take_news(SharedReceiveQueue& queue) {
  queue.on_news(arena_->xrc_queue(queue.number()).news.exchange(0, std::memory_order_seq_cst));
}

void Adapter::watch_visitors() {
  auto& places = arena_->header().visitors;
  for (std::uint32_t i = 0; i < places.size(); ++i) {
    const ProcessToken visitor = places[i].load(std::memory_order_seq_cst);
    if (visitor == 0 || visitors_.contains(i)) continue;
    const auto pid = static_cast<pid_t>(process_id_of(visitor));
    UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (!process && errno != ESRCH) {
      log(LogLevel::warn, "visitor {}: pidfd_open: {}", pid, std::strerror(errno));
      arena_->header().has_new_visitors.store(true, std::memory_order_seq_cst);  // Later again.
      continue;
    }
    const int fd = process.get();
    if (fd < 0) {
      on_visitor_gone(i, fd);
      continue;
    }
    const auto watched = progress_->watch(fd, [this, i, fd] { on_visitor_gone(i, fd); });
    if (!watched) log(LogLevel::warn, "visitor {}: {}", pid, watched.error().text);
    visitors_[i] = std::move(process);
  }
}

/// It may have been in the middle of something: what it has not said is looked for.
void Adapter::on_visitor_gone(std::uint32_t place, int fd) {
  const ProcessToken ended = arena_->header().visitors[place].load(std::memory_order_seq_cst);
  const KnownEnd known(ended);  // Its locks are opened here, whoever has its number by now.
  progress_->during_no_turn([&] {
    drop_guests(*own_peer_, ended);
    for (std::uint32_t i = 0; i < kProgramQueuePairsMax; ++i) {
      if (QueuePair* const queue_pair = find_local(i)) queue_pair->on_visitor_gone();
    }
    for (const auto& [local, queue] : shared_receives_) {
      queue->tell_of_limit();
      if (queue->options().type != SharedReceiveType::xrc) continue;
      queue->options().cq->mend();
      take_news(*queue);
    }
  });
  serve_boards();
  if (fd >= 0) progress_->unwatch(fd);
  visitors_.erase(place);
  arena_->header().visitors[place].store(0, std::memory_order_seq_cst);
}

void Adapter::on_doorbell() {
  eventfd_t rung = 0;
  eventfd_read(membership_.doorbell.get(), &rung);
  if (arena_->header().has_new_visitors.exchange(false, std::memory_order_seq_cst)) {
    try {
      watch_visitors();
    } catch (...) {  // No memory: the background thread comes again.
      arena_->header().has_new_visitors.store(true, std::memory_order_seq_cst);
      throw;
    }
  }
  serve_boards();
}

void Adapter::serve_boards() {
  // What takes no turn: guests ask for the adapter's lock, and memory moves. Nothing is allocated
  // here: what the boards have said would be lost.
  std::bitset<kTargetsMax> told;
  progress_->during_no_turn([&] {
    const auto serve_target = [&](std::uint32_t local) {
      told.set(local);
      if (local >= kProgramQueuePairsMax) return;
      if (QueuePair* const queue_pair = find_local(local)) queue_pair->on_news();
    };
    const auto serve_queue = [&](std::uint32_t local) {
      const auto found = shared_receives_.find(local);
      if (found != shared_receives_.end()) take_news(*found->second);
    };
    for_each_number(arena_->header().has_news, serve_target, true);
    for_each_number(arena_->header().queue_has_news, serve_queue, true);
  });
  for (auto i = told._Find_first(); i < told.size(); i = told._Find_next(i)) {
    DirectTarget& target = arena_->target(static_cast<std::uint32_t>(i));
    if (i >= kProgramQueuePairsMax) serve_guest(target);
  }
  for (auto i = told._Find_first(); i < told.size(); i = told._Find_next(i)) {
    serve_reach(arena_->target(static_cast<std::uint32_t>(i)).reach);
  }
}

/// Last, and in no turn: the peer's other wishes may be waited for.
void Adapter::serve_reach(Reach& reach) {
  if (reach.state.load(std::memory_order_acquire) != Reach::asked) return;
  try {
    if (adoption_) adoption_->move(reach);
  } catch (const std::bad_alloc&) {
    log(LogLevel::info, "memory stays where it is: there is none to move it");
  }
  reach.state.store(Reach::none, std::memory_order_release);
}

/// What the queue pairs of other programs have told, whose requests name queues of ours.
void Adapter::serve_guest(DirectTarget& guest) {
  const std::uint32_t news = guest.news.exchange(0, std::memory_order_seq_cst);
  const bool is_asked = guest.assist.state.load(std::memory_order_acquire) == Assist::asked;
  if ((news & kAssist) == 0 || !is_asked) return;
  if (guest.assist.kind > Assist::find_host) return answer_importer(guest.assist);
  answer(guest.assist, *regions_, {guest.pd, Qpn(guest.qpn)});
}

/// Who visits a region of ours holds the lock of a target of ours, or of a guest.
void Adapter::wait_for_visitors() {
  const std::uint32_t guests = arena_->header().guest_count.load(std::memory_order_seq_cst);
  for (std::uint32_t i = 0; i < std::min(guests, kGuestsMax); ++i) {
    wait_for_visitor(arena_->target(kProgramQueuePairsMax + i));
  }
  for_each_number(visited_, [this](std::uint32_t i) { wait_for_visitor(arena_->target(i)); });
}

bool Adapter::await_kernel_copies(TimeNs deadline) {
  bool have_ended = true;
  const auto await = [&](std::uint32_t local_number) {
    have_ended = have_ended && await_kernel_copy(arena_->target(local_number), deadline);
  };
  const std::uint32_t guests = arena_->header().guest_count.load(std::memory_order_seq_cst);
  for (std::uint32_t i = 0; i < std::min(guests, kGuestsMax); ++i) await(kProgramQueuePairsMax + i);
  for_each_number(visited_, await);
  return have_ended;
}

/// A thread of ours that visits a region of ours holds the lock of the queue pair that it uses.
void Adapter::wait_for_users() {
  progress_->during_no_turn([&] {  // So that none of them is destroyed meanwhile.
    for_each_number(visited_, [this](std::uint32_t i) {
      if (QueuePair* const queue_pair = find_local(i)) queue_pair->wait_for_user();
    });
  });
}

}  // namespace verbatim::adapter
