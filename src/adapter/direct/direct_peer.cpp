#include "adapter/direct/direct_peer.h"

#include <algorithm>
#include <cerrno>
#include <span>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "adapter/queues/completion_queue.h"
#include "region/memory.h"

namespace verbatim::adapter {
namespace {

/// Maps it readable and writable but not resident, even in programs that have called
/// mlockall(MCL_FUTURE), which would fill a sparse file with zeroes.
std::byte* map_sparsely(int fd, std::uint64_t offset, std::uint64_t length) {
  void* const place =
      mmap(nullptr, length, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, static_cast<off_t>(offset));
  if (place == MAP_FAILED) return nullptr;
  munlock(place, length);
  const bool usable = madvise(place, length, MADV_DONTFORK) == 0 &&
                      madvise(place, length, MADV_DONTDUMP) == 0 &&
                      mprotect(place, length, PROT_READ | PROT_WRITE) == 0;
  if (usable) return static_cast<std::byte*>(place);
  munmap(place, length);
  return nullptr;
}

std::uint64_t inode_of(int fd) {
  struct stat info{};
  return fstat(fd, &info) == 0 ? info.st_ino : 0;
}

}  // namespace

Result<std::shared_ptr<DirectPeer>> DirectPeer::map(PeerDescriptors descriptors) {
  std::shared_ptr<DirectPeer> peer(new DirectPeer);
  if (auto attached = peer->attach(std::move(descriptors)); !attached) {
    return std::unexpected(attached.error());
  }
  return peer;
}

Result<void> DirectPeer::attach(PeerDescriptors descriptors) {
  arena_inode_ = inode_of(descriptors.arena.get());
  base_ = map_sparsely(descriptors.arena.get(), 0, kArenaBytes);
  if (base_ == nullptr) return refuse_errno("mapping a peer's arena");
  if (header().magic != ArenaHeader::kMagic || header().version != ArenaHeader::kVersion) {
    return refuse(EPROTO, "the peer is of another release");
  }
  // Locks store process numbers, so both sides must be in the same pid namespace.
  const std::uint64_t pid_namespace = own_pid_namespace();
  if (pid_namespace == 0 || header().pid_namespace == 0) {
    return refuse(EXDEV, "/proc does not tell the pid namespace of this program or of the peer");
  }
  if (header().pid_namespace != pid_namespace) {
    return refuse(EXDEV, "the peer is in another pid namespace");
  }
  token_ = header().process_token;
  const auto pid = static_cast<pid_t>(process_id_of(token_));
  process_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process_) return refuse_errno("pidfd_open of the peer");
  // The process was alive after its pidfd was opened, so the pidfd is not that of a later process.
  if (header().liveness.has_ended()) return refuse(ESRCH, "the peer has ended");
  memory_ = std::move(descriptors.memory);
  doorbell_ = std::move(descriptors.doorbell);
  regions_ = std::make_unique<region::RegionTable>(header().region_header,
                                                   std::span(at(header().regions), kRegionsMax),
                                                   region::RegionTable::Use::lookup_only);
  // Checks that process_vm_readv is allowed: reads the 8 bytes of the peer's magic number.
  std::uint64_t magic = 0;
  if (!copy_by_kernel(reinterpret_cast<std::byte*>(&magic), header().base_address, sizeof magic,
                      false)) {
    return refuse_errno("process_vm_readv of the peer");
  }
  announce();
  return {};
}

/// Enters this process in the peer arena's list of attached processes and rings the doorbell.
/// Called before the first target is locked: the owner watches the process with a pidfd, to recover
/// what it leaves half done if it is killed.
void DirectPeer::announce() const {
  const ProcessToken own = own_process_token();
  for (auto& place : header().attached_peers) {
    ProcessToken there = 0;
    if (place.compare_exchange_strong(there, own, std::memory_order_seq_cst)) break;
    if (there == own) return;  // This process had the arena mapped before.
  }
  header().has_new_attached_peers.store(true, std::memory_order_seq_cst);
  eventfd_write(doorbell_.get(), 1);
}

Result<std::shared_ptr<DirectPeer>> DirectPeer::own(Arena& arena, const UniqueFd& doorbell) {
  std::shared_ptr<DirectPeer> peer(new DirectPeer);
  peer->is_own_ = true;
  peer->base_ = arena.base();
  peer->arena_inode_ = inode_of(arena.fd());
  peer->token_ = own_process_token();
  peer->doorbell_.reset(fcntl(doorbell.get(), F_DUPFD_CLOEXEC, 0));
  if (!peer->doorbell_) return refuse_errno("the program's own doorbell");
  peer->regions_ = std::make_unique<region::RegionTable>(
      peer->header().region_header, std::span(peer->at(peer->header().regions), kRegionsMax),
      region::RegionTable::Use::lookup_only);
  return peer;
}

DirectPeer::~DirectPeer() {
  if (is_own_ || base_ == nullptr) return;
  munmap(base_, kArenaBytes);
  for (const auto& [number, base] : windows_) munmap(base, DirectPeer::kWindowBytes);
}

DirectTarget& DirectPeer::target(std::uint32_t local_number) const {
  return at(header().targets)[local_number];
}

bool DirectPeer::has(Qpn number) const {
  if (number == Qpn{}) return false;  // An entry without a queue pair has this number.
  const std::uint32_t local_number = number.value() % kProgramQueuePairsMax;
  const QueuePairRecord& record = at(header().queue_pairs)[local_number];
  return record.qpn.load(std::memory_order_acquire) == number.value() ||
         xrc_queue(SrqNumber{number.value()}).number.load(std::memory_order_acquire) ==
             number.value();
}

XrcQueue& DirectPeer::xrc_queue(SrqNumber number) const {
  return at(header().xrc_queues)[raw(number) % kProgramQueuePairsMax];
}

void DirectPeer::post(LocalNumberBitmap& bitmap, std::uint32_t local_number,
                      std::atomic<std::uint32_t>& place, std::uint32_t notifications) const {
  place.fetch_or(notifications, std::memory_order_seq_cst);
  constexpr std::uint32_t kBits = 64;
  const std::uint64_t bit = std::uint64_t{1} << (local_number % kBits);
  const auto before = bitmap[local_number / kBits].fetch_or(bit, std::memory_order_seq_cst);
  if ((before & bit) == 0) eventfd_write(doorbell_.get(), 1);
}

void DirectPeer::notify(std::uint32_t local_number, std::uint32_t notifications) const {
  post(header().notified_targets, local_number, target(local_number).notifications, notifications);
}

void DirectPeer::notify_receive_owner(std::uint32_t local_number,
                                      std::uint32_t notifications) const {
  const SrqNumber srq = target(local_number).receive_srq;
  if (raw(srq) == 0) return notify(local_number, notifications);
  post(header().notified_srqs, raw(srq) % kProgramQueuePairsMax, xrc_queue(srq).notifications,
       notifications);
}

std::byte* DirectPeer::window(std::uint64_t number) const {
  const std::lock_guard guard(lock_);
  std::byte*& base = windows_[number];
  if (base == nullptr)
    base = map_sparsely(memory_.get(), number * DirectPeer::kWindowBytes, DirectPeer::kWindowBytes);
  return base;
}

std::byte* DirectPeer::window(std::uint64_t number, WindowCache& cache) const {
  if (number == cache.number) return cache.base;
  const WindowCache::Other last{cache.number, cache.base};
  const auto known = std::ranges::find(cache.others, number, &WindowCache::Other::number);
  if (known != cache.others.end()) {
    cache.base = known->base;
    *known = last;
  } else {
    cache.base = window(number);
    cache.others[cache.next++ % cache.others.size()] = last;
  }
  cache.number = number;
  return cache.base;
}

DirectPeer::Run DirectPeer::find_moved(const region::Region& region, std::uint64_t address,
                                       std::uint64_t length, WindowCache& cache) const {
  const region::Backing& backing = region.backing;
  const std::uint64_t moved = backing.moved();
  if (moved > 0 && address < backing.address) {  // Bytes before the first whole page.
    return {nullptr, std::min(length, backing.address - address)};
  }
  const std::uint64_t within = address - backing.address;
  if (within >= moved) return {nullptr, length};
  std::byte* const base = window(address / kWindowBytes, cache);
  const auto run = std::min({length, moved - within, kWindowBytes - address % kWindowBytes});
  return {base == nullptr ? nullptr : base + address % kWindowBytes, run};
}

bool DirectPeer::copy_by_kernel(std::byte* here, std::uint64_t there, std::uint64_t length,
                                bool to_peer) const {
  const auto process = static_cast<pid_t>(process_id_of(token_));
  return region::copy_by_kernel(process, here, there, length, to_peer);
}

}  // namespace verbatim::adapter
