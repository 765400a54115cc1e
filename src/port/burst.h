#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <new>

#include <sys/uio.h>

#include "link/udp/udp.h"
#include "observe/counters.h"
#include "port/encapsulation_infiniband.h"
#include "port/route.h"
#include "region/cached_hold.h"
#include "wire/ib/packet.h"
#include "wire/net/grh.h"
#include "wire/net/icrc.h"

namespace verbatim::port {

/// Packets to one peer, gathered so that one system call sends as many as the kernel can segment:
/// all of one size, except that the last may be shorter. Payload is not copied: the kernel reads it
/// from the program's memory, and its regions are held until then. Small payloads are copied after
/// the headers, which is cheaper than a separate piece.
///
/// Lives on the stack of one transmission. How to use it: `begin`, `append` for each piece of the
/// payload, `end`; or `abandon` instead of `end` if the payload's memory is refused. Finally
/// `flush`.
class Burst {
 public:
  /// Pieces of one packet's payload: elements of its request's scatter list.
  static constexpr std::size_t kPacketPiecesMax = 32;
  explicit Burst(observe::PortCounters& counters) : counters_(counters) {}
  ~Burst() { flush(); }
  Burst(const Burst&) = delete;
  Burst& operator=(const Burst&) = delete;

  /// Where the packets go from now on; what was gathered for another destination leaves first.
  /// `route` outlives the next `flush`.
  void use(const Route& route) {
    if (route_ == &route) return;
    flush();
    route_ = &route;
  }
  /// Asked before a packet is made. Lossless links: takes the room for one with so much payload at
  /// most, or returns false; what the packet does not need goes back.
  bool may_send(std::uint32_t payload_bytes_max) {
    return !route_->lossless || reserve(payload_bytes_max);
  }
  /// Starts a packet: sends what is there when this one does not fit behind it.
  void begin(const wire::Headers& headers, std::uint32_t payload_bytes);
  /// Appends bytes of a region, which is held until the burst is sent. Fails if the key does not
  /// permit it or the memory is missing: then `abandon` the packet.
  std::expected<void, region::KeyError> append(const region::RegionTable& regions, MemoryKey key,
                                               std::uint64_t address, std::uint32_t length,
                                               std::uint32_t rights, const region::Accessor& by);
  void append_bytes(const std::byte* bytes, std::uint32_t length);
  /// Appends bytes that `fill(room)` copies; `fill` returns false to refuse.
  template <typename Fill>
  bool append_filled(std::uint32_t length, Fill fill) {
    std::byte* const at = room_for_copies();
    if (!fill(MutableByteSpan(at, length))) return false;
    copied_ += length;
    update_icrc({at, length});
    add_piece(at, length);
    return true;
  }
  void end();
  void abandon();
  void flush() {
    if (count_ > 0 || reserved_.blocks > 0) send();
  }

  std::uint64_t packets() const { return packets_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  static constexpr std::uint32_t kCopyBytesMax = 256;
  static constexpr std::size_t kPiecesMax = 512;
  static constexpr std::size_t kHoldsMax = 128;
  static constexpr std::size_t kCopiesBytes = link::kSendBytesMax;
  static constexpr std::size_t kTrailerMax = 3 + 4;  // Padding and ICRC.
  static constexpr std::size_t kPacketsMax = link::kSegmentsMax;
  static constexpr std::uint32_t kPacketsReservedMax = 8;
  static constexpr std::size_t kStoredBytes =
      kPacketsMax *
      (kEncapsulationBytesMax + wire::kHeadersMaxBytes + kCopyBytesMax + kTrailerMax + 1);

  bool fits(std::uint32_t packet_bytes) const;
  void send();
  template <bool kIsLossless>
  void begin_packet(const wire::Headers& headers, std::uint32_t payload_bytes);
  bool reserve(std::uint32_t payload_bytes_max);
  bool reserve(const link::Reservation& wanted);
  void update_icrc(ByteSpan bytes) {
    if (route_->has_icrc) icrc_.update(bytes);
  }
  void add_piece(const std::byte* bytes, std::size_t length);
  std::byte* store(std::size_t length);
  std::byte* room_for_copies();
  region::CachedHold& hold_at(std::size_t index);
  void drop_holds(std::size_t from);

  observe::PortCounters& counters_;
  const Route* route_ = nullptr;
  std::uint32_t segment_bytes_ = 0;  // Size of the first packet.
  std::uint32_t total_bytes_ = 0;
  std::uint32_t count_ = 0;
  bool closed_ = false;  // The last packet was a shorter one.
  std::uint64_t packets_ = 0;
  std::uint64_t bytes_ = 0;

  // The packet being built.
  std::uint32_t packet_bytes_ = 0;
  link::Reservation reserved_;  // For packets that have not begun.
  std::uint8_t pad_count_ = 0;
  wire::Icrc icrc_{0};
  struct Mark {
    std::size_t pieces = 0, last_length = 0, stored = 0, holds = 0, copied = 0;
  } mark_;  // State before the packet.

  std::size_t piece_count_ = 0;
  std::size_t stored_ = 0;
  std::size_t hold_count_ = 0;
  std::size_t copied_ = 0;
  /// A copy of bytes that cannot be sent directly, because their memory may be unmapped at any
  /// moment. Allocated for the first such byte: only on-demand regions need it.
  std::unique_ptr<std::byte[]> copies_;
  // Not initialised: a burst of one small packet uses only some hundred bytes of it.
  std::array<iovec, kPiecesMax> pieces_;
  alignas(region::CachedHold) std::byte holds_[kHoldsMax * sizeof(region::CachedHold)];
  std::byte storage_[kStoredBytes];
};

}  // namespace verbatim::port
