#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <vector>

#include "adapter/queue_pair/core/raw_array.h"
#include "adapter/queue_pair/core/send_places.h"
#include "adapter/queue_pair/core/send_work.h"
#include "adapter/queues/receive_queue.h"
#include "base/assert.h"
#include "base/net/address.h"
#include "base/types.h"
#include "region/region_table.h"
#include "transport/work.h"
#include "wire/ib/tag_header.h"

namespace verbatim::adapter {

/// A posted send request's data that the engine does not have.
struct SendWqe {
  std::uint64_t wr_id = 0;
  transport::SendRequest request;
  std::uint32_t segment_count = 0;
  bool signaled = false;
  bool inlined = false;
  bool fill_checksums = false;  // Raw packets.
};

/// The destination of a UD request; connected queue pairs have none.
struct DatagramTarget {
  Path path;
  std::uint8_t source_gid_index = 0;
  Qpn qpn;
  QKey qkey{};
};

/// The send requests of one queue pair from posting to completion, oldest first. Private memory,
/// which peers do not access. Requires the queue pair's lock. Slots count from 0, as in the engine.
class SendQueue {
 public:
  /// There is always room for the 8 bytes of an ATOMIC WRITE, whose value is copied at once.
  static constexpr std::uint32_t kInlineBytesMin = 8;

  SendQueue(std::uint32_t capacity, std::uint32_t segments_max, std::uint32_t inline_bytes_max,
            bool datagram, std::pmr::memory_resource* memory)
      : capacity_(capacity),
        segments_max_(segments_max),
        inline_bytes_max_(std::max(inline_bytes_max, kInlineBytesMin)),
        wqes_(capacity, memory),
        segments_(std::size_t{capacity} * segments_max, memory),
        inline_bytes_(std::size_t{capacity} * inline_bytes_max_, memory),
        targets_(datagram ? capacity : 0, memory),
        places_(capacity, memory) {}

  /// For a queue pair whose adapter finishes rendezvous: each needs a READ and the message that
  /// ends it.
  static constexpr std::uint32_t kRendezvousRequests = 2;
  static SendQueue for_rendezvous(std::pmr::memory_resource* memory) {
    constexpr std::uint32_t kOutstanding = 16;
    return {kOutstanding * kRendezvousRequests, kSegmentsMax, wire::TagHeader::kRendezvousSize,
            false, memory};
  }

  std::uint32_t capacity() const { return capacity_; }
  std::uint32_t segments_max() const { return segments_max_; }
  std::uint32_t inline_bytes_max() const { return inline_bytes_max_; }
  std::uint64_t posted() const { return posted_; }        // Slot of the next post.
  std::uint64_t completed() const { return completed_; }  // Slot of the oldest outstanding request.
  /// Requests that fit before older ones complete. What a program may post: `places`.
  std::uint64_t room() const { return capacity_ - (posted_ - completed_); }
  SendPlaces& places() { return places_; }
  bool empty() const { return posted_ == completed_; }

  /// Takes the next slot. Requires `room`, and that the limits were checked. Copies inline data
  /// from the segments.
  void push(const SendWqe& wqe, std::span<const Segment> segments) {
    const auto index = posted_ % capacity_;
    wqes_[index] = wqe;
    if (wqe.inlined) {
      copy_inline(index, segments);
    } else {
      std::copy(segments.begin(), segments.end(), segments_.data() + index * segments_max_);
    }
    ++posted_;
  }
  /// The same of what a program posts.
  void push(const SendWork& work, bool signal_all) {
    const std::uint64_t slot = posted_;
    push({.wr_id = work.wr_id,
          .request = work.request,
          .segment_count = static_cast<std::uint32_t>(work.segments.size()),
          .signaled = work.signaled() || signal_all,
          .inlined = work.inlined(),
          .fill_checksums = (work.flags & kPostFillChecksums) != 0},
         work.segments);
    if (work.binding) set_binding(*work.binding);
    if (targets_.empty()) return;
    target(slot) = {.path = work.destination->path,
                    .source_gid_index = work.destination->vector.source_gid_index,
                    .qpn = work.remote_qpn,
                    .qkey = work.remote_qkey};
  }
  /// The oldest request has completed.
  void pop() {
    VERBATIM_ASSERT(!empty());
    ++completed_;
  }
  void clear() {
    posted_ = completed_ = 0;
    places_.clear();
  }

  const SendWqe& wqe(transport::Slot slot) const { return wqes_[slot % capacity_]; }
  /// Sets the binding of the slot that was pushed last. The bindings are allocated for the first
  /// one, because few queue pairs bind windows.
  void set_binding(const region::WindowBinding& binding) {
    bindings_.resize(capacity_);
    bindings_[(posted_ - 1) % capacity_] = binding;
  }
  const region::WindowBinding& binding(transport::Slot slot) const {
    return bindings_[slot % capacity_];
  }
  DatagramTarget& target(transport::Slot slot) { return targets_[slot % capacity_]; }
  std::span<const Segment> segments(transport::Slot slot) const {
    return {&segments_[(slot % capacity_) * segments_max_], wqe(slot).segment_count};
  }
  /// Returns the inline data of a request.
  std::span<const std::byte> inline_bytes(transport::Slot slot) const {
    return {inline_bytes_.data() + (slot % capacity_) * inline_bytes_max_,
            wqe(slot).request.length};
  }

 private:
  void copy_inline(std::size_t index, std::span<const Segment> segments) {
    std::byte* to = inline_bytes_.data() + index * inline_bytes_max_;
    for (const Segment& segment : segments) {
      // The program's own memory and pointer: inline data needs no region.
      to = std::copy_n(reinterpret_cast<const std::byte*>(segment.address), segment.length, to);
    }
  }

  std::uint32_t capacity_;
  std::uint32_t segments_max_;
  std::uint32_t inline_bytes_max_;
  std::uint64_t posted_ = 0;
  std::uint64_t completed_ = 0;
  RawArray<SendWqe> wqes_;
  RawArray<Segment> segments_;
  RawArray<std::byte> inline_bytes_;
  std::pmr::vector<DatagramTarget> targets_;
  std::vector<region::WindowBinding> bindings_;
  SendPlaces places_;
};

}  // namespace verbatim::adapter
