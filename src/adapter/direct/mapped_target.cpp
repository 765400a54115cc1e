#include "adapter/direct/mapped_target.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include <sched.h>

#include "adapter/memory/scatter.h"
#include "region/held_memory.h"
#include "region/memory.h"

/// Copies between the program's own memory, of any kind, and the peer's.
namespace verbatim::adapter {

namespace {

using Done = std::expected<void, region::KeyError>;

}  // namespace

MappedTarget::MappedTarget(std::shared_ptr<DirectPeer> peer, std::uint32_t local_number)
    : peer_(std::move(peer)), local_number_(local_number), target_(peer_->target(local_number)) {}

bool LocalMemory::is_good(std::uint32_t right) const {
  return !inlined.empty() || std::ranges::all_of(segments, [&](const Segment& one) {
    if (one.length == 0) return true;
    const auto hold = find_locked(MemoryKey{one.key}, one.address, one.length, right);
    return hold && (hold->backing() != region::Hold::Backing::on_demand ||
                    region::probe_memory(reinterpret_cast<std::uint64_t>(hold->address()),
                                         one.length, right == region::kLocalWrite));
  });
}

MappedTarget::Copied MappedTarget::copy_to_receive(const LocalMemory& local, std::uint64_t offset,
                                                   std::uint64_t length, std::uint64_t before) {
  const std::span segments(target_.receive.segments, target_.receive.segment_count);
  Copied copied = Copied::all;
  const auto place = [&](MemoryKey key, std::uint64_t address, std::uint32_t bytes) -> Done {
    const auto region = peer_->regions().find_locked(key, address, bytes, region::kLocalWrite,
                                                     target_.receive_pd, receive_key_);
    copied = Copied::there_refused;
    if (!region) return std::unexpected(region.error());
    const std::uint64_t there = address_in(**region, address);
    copied = copy(**region, there, local, offset, bytes, true);
    offset += bytes;
    if (copied == Copied::all) return {};
    return std::unexpected(region::KeyError::not_mapped);
  };
  const auto placed = for_each_piece(segments, before + offset, length, place);
  return placed ? Copied::all : copied;
}

MappedTarget::Copied MappedTarget::copy_pieces(const region::Region& there, std::uint64_t address,
                                               const LocalMemory& local, std::uint64_t offset,
                                               std::uint64_t length, bool to_peer) {
  if (!local.inlined.empty()) {
    auto* const bytes = const_cast<std::byte*>(local.inlined.data() + offset);
    return copy_plain(there, address, bytes, length, true);
  }
  Copied copied = Copied::all;
  const std::uint32_t right = to_peer ? region::kLocalRead : region::kLocalWrite;
  const auto move = [&](MemoryKey key, std::uint64_t iova, std::uint32_t bytes) -> Done {
    const auto here = local.find_locked(key, iova, bytes, right);
    copied = here ? copy_piece(there, address, *here, bytes, to_peer) : Copied::here_refused;
    address += bytes;
    if (copied == Copied::all) return {};
    return std::unexpected(region::KeyError::not_mapped);
  };
  const auto moved = for_each_piece(local.segments, offset, length, move);
  return moved ? Copied::all : copied;
}

MappedTarget::Copied MappedTarget::copy_piece(const region::Region& there, std::uint64_t address,
                                              const region::Hold& here, std::uint64_t length,
                                              bool to_peer) {
  const bool is_null = (there.access & region::kNull) != 0;
  for (std::uint64_t done = 0; done < length;) {
    auto run = is_null ? DirectPeer::Run{nullptr, length - done}
                       : peer_->find(there, address + done, length - done, cache_);
    const region::Hold part = here.subrange(done);
    Copied copied = Copied::all;
    if (run.here != nullptr) {
      const bool all = to_peer ? read_held(part, MutableByteSpan(run.here, run.length))
                               : write_held(part, ByteSpan(run.here, run.length));
      copied = all ? Copied::all : Copied::here_refused;
    } else if (is_null) {
      copied = copy_zeroes(part, run.length, to_peer);
    } else if (part.backing() != region::Hold::Backing::memory) {
      copied = copy_through(there, address + done, part, run.length, to_peer);
    } else {
      copied = copy_by_kernel(there, address + done, part.address(), run.length, to_peer);
    }
    if (copied != Copied::all) return copied;
    done += run.length;
  }
  return Copied::all;
}

/// A null region drops what is written, and reads as zeroes.
MappedTarget::Copied MappedTarget::copy_zeroes(const region::Hold& here, std::uint64_t length,
                                               bool to_peer) {
  static constexpr std::array<std::byte, 4096> kZeroes{};
  for (std::uint64_t done = 0; !to_peer && done < length;) {
    const auto part = std::min<std::uint64_t>(length - done, kZeroes.size());
    if (!write_held(here.subrange(done), ByteSpan(kZeroes).first(part))) {
      return Copied::here_refused;
    }
    done += part;
  }
  return Copied::all;
}

/// Neither side's memory is mapped here: copies through a buffer.
MappedTarget::Copied MappedTarget::copy_through(const region::Region& there, std::uint64_t address,
                                                const region::Hold& here, std::uint64_t length,
                                                bool to_peer) {
  std::array<std::byte, 4096> buffer;
  for (std::uint64_t done = 0; done < length;) {
    const auto part = std::min<std::uint64_t>(length - done, buffer.size());
    const MutableByteSpan bytes(buffer.data(), part);
    const region::Hold rest = here.subrange(done);
    if (to_peer && !read_held(rest, bytes)) return Copied::here_refused;
    const Copied copied = copy_by_kernel(there, address + done, bytes.data(), part, to_peer);
    if (copied != Copied::all) return copied;
    if (!to_peer && !write_held(rest, bytes)) return Copied::here_refused;
    done += part;
  }
  return Copied::all;
}

MappedTarget::Copied MappedTarget::copy_by_kernel(const region::Region& there,
                                                  std::uint64_t address, std::byte* here,
                                                  std::uint64_t length, bool to_peer) {
  // What a system call costs, and a copy by it beside one that the program makes (measured).
  constexpr std::uint64_t kCallNs = 2'000;
  constexpr std::uint64_t kBytesPerNs = 10;
  if (peer_->moves_memory()) return Copied::later;
  pay(there, kCallNs + length / kBytesPerNs);
  if (peer_->copy_by_kernel(here, address, length, to_peer)) return Copied::all;
  // A process that ends has lost its memory some time before it is known to be gone.
  return errno == ESRCH ? Copied::later : Copied::there_refused;
}

/// Counts what this use of the peer's memory has cost because it is not mapped here. If that is as
/// much as it would cost to move it, asks its owner to do so.
void MappedTarget::pay(const region::Region& there, std::uint64_t nanoseconds) {
  const MemoryKey wanted = peer_->regions().pay(there, nanoseconds);
  if (raw(wanted) == 0 || peer_->is_own()) return;
  std::uint32_t none = 0;
  if (!target_.begin_step()) return;
  const bool is_first = target_.wanted_memory.compare_exchange_strong(none, raw(wanted));
  target_.end_step();
  if (is_first) notify(kMemoryWanted);
}

MappedTarget::Copied MappedTarget::copy_plain(const region::Region& there, std::uint64_t address,
                                              std::byte* here, std::uint64_t length, bool to_peer) {
  if ((there.access & region::kNull) != 0) {
    if (!to_peer) std::memset(here, 0, length);
    return Copied::all;
  }
  while (length > 0) {
    const auto run = peer_->find(there, address, length, cache_);
    if (run.here == nullptr) {
      const Copied copied = copy_by_kernel(there, address, here, run.length, to_peer);
      if (copied != Copied::all) return copied;
    } else if (to_peer) {
      copy_in_order(run.here, ByteSpan(here, run.length));
    } else {
      copy_in_order(here, ByteSpan(run.here, run.length));
    }
    address += run.length;
    here += run.length;
    length -= run.length;
  }
  return Copied::all;
}

std::uint64_t* MappedTarget::word(const region::Region& there, std::uint64_t address) {
  constexpr std::uint64_t kAskingNs = 10'000;  // The owner's background thread must wake.
  std::byte* const word = find(there, address, sizeof(std::uint64_t));
  if (word == nullptr) pay(there, kAskingNs);
  return reinterpret_cast<std::uint64_t*>(word);
}

bool MappedTarget::lock_after_waiting() {
  if (monotonic_now() < stopped_until_) {
    constexpr unsigned kLooks = 1 << 14;  // The step in which the lock looks if its holder lives.
    target_.lock.wait(kLooks);
    return target_.lock.try_lock();
  }
  if (arena::lock_after_waiting(target_)) return true;
  stopped_until_ = monotonic_now() + kNoWait;
  return false;
}

bool MappedTarget::wait_while_memory_moves(TimeNs& end) {
  const TimeNs begin = monotonic_now();
  if (end == 0) end = begin < moves_until_ ? begin : begin + kSecond;
  while (peer_->moves_memory() && !peer_->is_gone()) {
    if (monotonic_now() >= end) {
      moves_until_ = monotonic_now() + kNoWait;
      return false;
    }
    sched_yield();
  }
  return monotonic_now() < end && !peer_->is_gone();
}

bool MappedTarget::take_receive() {
  if (!begin_step()) return false;
  const bool is_held = take_in_step();
  target_.end_step();
  return is_held;
}

VERBATIM_ALWAYS_INLINE bool MappedTarget::take_in_step() {
  // It is in use by a request that continues, or was left by a killed process: then it may be
  // incomplete.
  if (target_.holds_receive.load(std::memory_order_relaxed)) recover_target(target_, peer_->base());
  if (target_.holds_receive.load(std::memory_order_relaxed)) return true;
  if (!target_.receives) return false;
  ReceiveRing& ring = *peer_->at(target_.receives);
  if (!ring.take(peer_->base(), target_.receive, &target_.holds_receive)) return false;
  if (ring.reaches_limit()) peer_->notify_receive_owner(local_number_, kSrqLimitReached);
  return true;
}

}  // namespace verbatim::adapter
