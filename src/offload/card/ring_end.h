#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "offload/card/packet_memory.h"
#include "offload/ring/ring.h"

namespace verbatim::offload {

/// The card's end of a ring that a client posts to. Nothing that is read there is believed:
/// cursors, addresses and lengths are checked, and what is wrong is counted. A cursor is a cache
/// line that two processors want: the client's is read again only when all that it has posted is
/// taken, and the card's is written by `publish`, once for several descriptors.
struct RingEnd {
  static constexpr std::size_t kBurst = 32;
  static constexpr std::uint32_t kFrameMax = 65536;  // Of what a client sends.

  /// What a descriptor says, read once: the client may change it between a check and its use, and a
  /// compiler may read plain memory again.
  struct Posted {
    explicit Posted(const vnic_descriptor& slot)
        : address(relaxed(slot.address)), length(relaxed(slot.length)) {}
    std::uint64_t address;
    std::uint32_t length;
  };

  vnic_ring* shared = nullptr;
  std::uint32_t done = 0;       // The card's own cursor.
  std::uint32_t published = 0;  // What the client knows of it.
  std::uint32_t known = 0;      // The client's cursor when it was last read.
  bool is_broken = false;       // The client's cursor was beyond the ring.

  /// The client may have taken back what it had posted.
  void begin() {
    known = done;
    is_broken = false;
  }
  /// Returns how many descriptors wait, at least.
  std::uint32_t waiting(std::uint64_t& faults) {
    if (is_broken) return 0;
    if (known != done) return known - done;
    const std::uint32_t now = acquire(shared->posted);
    if (now - done > VNIC_SLOTS) {
      is_broken = true;
      ++faults;
      return 0;
    }
    known = now;
    return known - done;
  }
  bool has_work() const { return !is_broken && acquire(shared->posted) != done; }
  /// Descriptors that are done, and their buffers, are the client's again.
  void publish() {
    if (published != done) release(shared->done, published = done);
  }

  /// Puts a packet into the next posted buffer; `write` writes it there and returns its size. To
  /// be published.
  /// Returns false if no buffer is there, or it cannot be used (counted).
  template <typename Write>
  bool deliver(const PacketMemory& memory, std::uint32_t mark, std::uint64_t& faults, Write write) {
    if (waiting(faults) == 0) return false;
    vnic_descriptor& slot = shared->slots[done % VNIC_SLOTS];
    const Posted posted(slot);
    std::byte* const room = memory.find(posted.address, posted.length);
    if (room == nullptr) ++faults;
    const std::size_t size =
        room == nullptr ? 0 : write(MutableByteSpan(room, std::size_t{posted.length}));
    // A buffer that cannot be used goes back empty.
    slot.length = static_cast<std::uint32_t>(size);
    slot.mark = mark;
    ++done;
    return size != 0;
  }

  /// Calls `send` for each frame that is posted, at most `most`. Returns how many descriptors were
  /// taken. A frame stays where it is until that is published.
  template <typename Send>
  std::size_t take(const PacketMemory& memory, std::uint64_t& faults, std::size_t most, Send send) {
    const std::size_t count = std::min<std::size_t>(waiting(faults), most);
    for (std::size_t i = 0; i < count; ++i) {
      const Posted posted(shared->slots[(done + i) % VNIC_SLOTS]);
      const std::byte* const frame = memory.find(posted.address, posted.length);
      if (frame == nullptr || posted.length == 0 || posted.length > kFrameMax) {
        ++faults;
      } else {
        send(ByteSpan(frame, std::size_t{posted.length}));
      }
    }
    done += static_cast<std::uint32_t>(count);
    return count;
  }
};

}  // namespace verbatim::offload
