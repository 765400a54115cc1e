#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <span>

#include "adapter/direct/direct_peer.h"
#include "adapter/queues/completion_queue.h"
#include "adapter/queues/receive_queue.h"
#include "base/always_inline.h"
#include "base/bytes.h"
#include "base/time.h"
#include "region/region_table.h"

namespace verbatim::adapter {

/// The local buffer of a request: segments or inline data. Valid while the queue pair's lock is
/// held, for which deregistration waits.
struct LocalMemory {
  const region::RegionTable& regions;
  PdNumber pd{};
  std::span<const Segment> segments;
  ByteSpan inlined;  // If set, used instead of the segments.
  region::KeyCache& cache;

  /// Checks each segment's key, bounds and `right`, and that on-demand pages are mapped.
  bool is_good(std::uint32_t right) const;
  std::expected<region::Hold, region::KeyError> find_locked(MemoryKey key, std::uint64_t iova,
                                                            std::uint64_t length,
                                                            std::uint32_t right) const {
    const auto region = regions.find_locked(key, iova, length, right, pd, cache);
    if (!region) return std::unexpected(region.error());
    return region::Hold::without_reference(**region, iova);
  }
  /// Returns the address of bytes [offset, offset + length), if they are contiguous in permanent
  /// memory and the key gives the right; else null. Inline data is only read.
  std::byte* find(std::uint64_t offset, std::uint64_t length, std::uint32_t right) const {
    if (!inlined.empty()) return const_cast<std::byte*>(inlined.data()) + offset;
    if (segments.size() != 1) return nullptr;
    const Segment& only = segments.front();
    const auto here = find_locked(MemoryKey{only.key}, only.address + offset, length, right);
    const bool stays = here && here->backing() == region::Hold::Backing::memory;
    return stays ? here->address() : nullptr;
  }
};

/// A target in a mapped peer, with the peer's memory and queues. All calls but the constructor,
/// `lock_soon` and `wait_while_memory_moves` require the target's lock.
class MappedTarget {
 public:
  MappedTarget(std::shared_ptr<DirectPeer> peer, std::uint32_t local_number);
  MappedTarget(const MappedTarget&) = delete;
  MappedTarget& operator=(const MappedTarget&) = delete;

  const DirectPeer& peer() const { return *peer_; }
  DirectTarget& target() const { return target_; }
  std::uint32_t local_number() const { return local_number_; }

  /// As arena::lock_soon. After it has waited in vain, it does not wait again for a while: the
  /// holder is stopped, or has no processor.
  VERBATIM_ALWAYS_INLINE bool lock_soon() {
    return target_.lock.try_lock() || lock_after_waiting();
  }
  /// The owner has refused a step since `forget_refusal`, as it gave the target up or was about to:
  /// the request has not arrived.
  bool was_refused() const { return was_refused_; }
  void forget_refusal() { was_refused_ = false; }

  /// Takes the next receive request into `target().receive`, where it stays until it is completed,
  /// even if this process is killed. Returns false if none is posted.
  bool take_receive();
  enum class Ended : std::uint8_t { yes, without_room, refused };
  /// As DirectPeer::end_receive. Unless it is refused, the message has arrived: whatever the owner
  /// does afterwards.
  VERBATIM_ALWAYS_INLINE Ended end_receive(const Completion& completion, bool solicited) {
    if (!begin_step()) return Ended::refused;
    const bool has_room = peer_->end_receive(local_number_, completion, solicited);
    target_.end_step();
    return has_room ? Ended::yes : Ended::without_room;
  }
  void notify(std::uint32_t notifications) {
    if (!begin_step()) return;
    peer_->notify(local_number_, notifications);
    target_.end_step();
  }

  /// Looks up the peer's region that a request names, on behalf of queue pair `qpn`.
  std::expected<const region::Region*, region::KeyError> find_locked(MemoryKey key,
                                                                     std::uint64_t iova,
                                                                     std::uint64_t length,
                                                                     std::uint32_t right, Qpn qpn) {
    return peer_->regions().find_locked(key, iova, length, right, {target_.pd, qpn}, remote_key_);
  }

  /// `later`: the owner moves its memory; try again soon, without the target's lock meanwhile.
  enum class Copied : std::uint8_t { all, here_refused, there_refused, later };
  /// Waits until the owner does not move its memory; without the lock for which the owner waits.
  /// Returns false after a second of a request's waits; `end` begins as 0. An owner that was waited
  /// for in vain a moment ago is not waited for again: it is stopped.
  bool wait_while_memory_moves(TimeNs& end);
  /// Copies bytes [offset, offset + length) of the local buffer to the current receive, starting at
  /// its byte `before + offset`. `there_refused`: the receive's own key or memory is bad.
  Copied copy_to_receive(const LocalMemory& local, std::uint64_t offset, std::uint64_t length,
                         std::uint64_t before = 0);
  /// Copies bytes [offset, offset + length) of the request, to or from `address` of the peer's
  /// process.
  VERBATIM_ALWAYS_INLINE Copied copy(const region::Region& there, std::uint64_t address,
                                     const LocalMemory& local, std::uint64_t offset,
                                     std::uint64_t length, bool to_peer) {
    // Usually each side's bytes are contiguous and mapped here.
    std::byte* const to = find(there, address, length);
    const std::uint32_t right = to_peer ? region::kLocalRead : region::kLocalWrite;
    std::byte* const here = to != nullptr ? local.find(offset, length, right) : nullptr;
    if (here == nullptr) return copy_pieces(there, address, local, offset, length, to_peer);
    copy_in_order(to_peer ? to : here, {to_peer ? here : to, length});
    return Copied::all;
  }
  /// Copies between `here` and `address` of the peer's process.
  Copied copy_plain(const region::Region& there, std::uint64_t address, std::byte* here,
                    std::uint64_t length, bool to_peer);
  /// Returns the address at which this process has the 8 aligned bytes at `address` of the peer
  /// mapped; null if they are not mapped here (then ask the owner). `there` is no null region.
  std::uint64_t* word(const region::Region& there, std::uint64_t address);

 private:
  /// Between two waits for the lock.
  static constexpr TimeNs kNoWait = kSecond;

  bool lock_after_waiting();
  VERBATIM_ALWAYS_INLINE bool begin_step() {
    if (target_.begin_step()) return true;
    was_refused_ = true;
    return false;
  }
  bool take_in_step();
  /// Returns the address of a region's bytes in this process if they are contiguous here; else
  /// null.
  std::byte* find(const region::Region& region, std::uint64_t address, std::uint64_t length) {
    if ((region.access & region::kNull) != 0) return nullptr;
    const auto run = peer_->find(region, address, length, cache_);
    return run.length == length ? run.here : nullptr;
  }
  Copied copy_pieces(const region::Region& there, std::uint64_t address, const LocalMemory& local,
                     std::uint64_t offset, std::uint64_t length, bool to_peer);
  Copied copy_piece(const region::Region& there, std::uint64_t address, const region::Hold& here,
                    std::uint64_t length, bool to_peer);
  Copied copy_by_kernel(const region::Region& there, std::uint64_t address, std::byte* here,
                        std::uint64_t length, bool to_peer);
  void pay(const region::Region& there, std::uint64_t nanoseconds);
  static Copied copy_zeroes(const region::Hold& here, std::uint64_t length, bool to_peer);
  Copied copy_through(const region::Region& there, std::uint64_t address, const region::Hold& here,
                      std::uint64_t length, bool to_peer);

  const std::shared_ptr<DirectPeer> peer_;
  const std::uint32_t local_number_;
  DirectTarget& target_;
  bool was_refused_ = false;
  TimeNs stopped_until_ = 0;  // Until then `lock_soon` does not wait.
  TimeNs moves_until_ = 0;    // Nor does `wait_while_memory_moves`.
  DirectPeer::WindowCache cache_;
  region::KeyCache remote_key_;
  region::KeyCache receive_key_;
};

}  // namespace verbatim::adapter
