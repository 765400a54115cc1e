#include "port/burst.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/always_inline.h"
#include "base/assert.h"
#include "region/held_memory.h"
#include "wire/net/flow_grh.h"

namespace verbatim::port {
using wire::kIcrcBytes;

/// A packet uses at most as many pieces and holds as its scatter list has elements, and two more
/// pieces.
bool Burst::fits(std::uint32_t packet_bytes) const {
  return !closed_ && packet_bytes <= segment_bytes_ && count_ < kPacketsMax &&
         total_bytes_ + packet_bytes <= link::kSendBytesMax &&
         piece_count_ + kPacketPiecesMax + 2 <= kPiecesMax &&
         hold_count_ + kPacketPiecesMax <= kHoldsMax;
}

std::byte* Burst::store(std::size_t length) {
  std::byte* at = storage_ + stored_;
  stored_ += length;
  return at;
}

void Burst::add_piece(const std::byte* bytes, std::size_t length) {
  if (length == 0) return;
  if (piece_count_ > 0) {
    iovec& last = pieces_[piece_count_ - 1];
    if (static_cast<const std::byte*>(last.iov_base) + last.iov_len == bytes) {
      last.iov_len += length;
      return;
    }
  }
  pieces_[piece_count_++] = {const_cast<std::byte*>(bytes), length};
}

namespace {

void clear_migrated(std::byte* header) {
  const std::span<std::byte, wire::Bth::kSize> encoded(header, wire::Bth::kSize);
  wire::Bth bth;
  VERBATIM_ASSERT(!wire::decode_bth(encoded, bth));
  bth.migrated = false;
  wire::encode(bth, encoded);
}

}  // namespace

template <bool kIsLossless>
VERBATIM_ALWAYS_INLINE void Burst::begin_packet(const wire::Headers& headers,
                                                std::uint32_t payload_bytes) {
  pad_count_ = static_cast<std::uint8_t>(-payload_bytes & 3);
  const std::uint32_t header_bytes =
      wire::Bth::kSize + wire::info(headers.bth.opcode).header_bytes();
  const std::size_t outer_bytes = route_->header_bytes;
  const std::uint32_t from_bth = header_bytes + payload_bytes + pad_count_ + kIcrcBytes;
  packet_bytes_ = static_cast<std::uint32_t>(outer_bytes) + from_bth;
  if constexpr (kIsLossless) {
    const link::Reservation taken = link::Reservation::of(packet_bytes_);
    VERBATIM_ASSERT(reserved_.packets != 0 && reserved_.blocks >= taken.blocks);
    reserved_.packets -= taken.packets;
    reserved_.blocks -= taken.blocks;
  }
  if (count_ > 0 && !fits(packet_bytes_)) flush();
  if (count_ == 0) segment_bytes_ = packet_bytes_;
  mark_ = {piece_count_, piece_count_ == 0 ? 0 : pieces_[piece_count_ - 1].iov_len, stored_,
           hold_count_, copied_};
  std::byte* const start = store(outer_bytes + header_bytes);
  if (outer_bytes != 0) route_->encapsulate(from_bth, {start, outer_bytes});
  std::byte* const header = start + outer_bytes;
  wire::encode_headers(headers, {header, header_bytes});
  if constexpr (kIsLossless) {
    if (!route_->is_migrated) clear_migrated(header);
  }
  add_piece(start, outer_bytes + header_bytes);
  if (!route_->has_icrc) return;
  // With fragments forbidden, the kernel numbers the segments of one call from 0
  // (docs/decisions.md).
  icrc_ = route_->seed.start(static_cast<std::uint16_t>(wire::kUdpHeaderBytes + from_bth),
                             static_cast<std::uint16_t>(count_), {header, header_bytes});
}

/// RoCE does not pay for what only InfiniBand has.
void Burst::begin(const wire::Headers& headers, std::uint32_t payload_bytes) {
  if (route_->lossless) return begin_packet<true>(headers, payload_bytes);
  begin_packet<false>(headers, payload_bytes);
}

region::CachedHold& Burst::hold_at(std::size_t index) {
  return *std::launder(
      reinterpret_cast<region::CachedHold*>(holds_ + index * sizeof(region::CachedHold)));
}

std::expected<void, region::KeyError> Burst::append(const region::RegionTable& regions,
                                                    MemoryKey key, std::uint64_t address,
                                                    std::uint32_t length, std::uint32_t rights,
                                                    const region::Accessor& by) {
  // Most packets are from the same region as the one before, so the last hold serves them, too.
  const bool serves = hold_count_ > 0 && hold_at(hold_count_ - 1).is_of(key, rights, by);
  if (!serves) new (holds_ + hold_count_++ * sizeof(region::CachedHold)) region::CachedHold;
  const auto hold = hold_at(hold_count_ - 1).get(regions, key, address, length, rights, by);
  if (!hold) return std::unexpected(hold.error());
  if ((*hold)->backing() != region::Hold::Backing::memory) {
    const auto read = [&](MutableByteSpan room) { return region::read_held(**hold, room); };
    if (append_filled(length, read)) return {};
    return std::unexpected(region::KeyError::not_mapped);
  }
  append_bytes((*hold)->address(), length);
  return {};
}

std::byte* Burst::room_for_copies() {
  // Copies for one burst fit in the buffer.
  if (copies_ == nullptr) copies_ = std::make_unique_for_overwrite<std::byte[]>(kCopiesBytes);
  return copies_.get() + copied_;
}

void Burst::append_bytes(const std::byte* bytes, std::uint32_t length) {
  if (packet_bytes_ <= kCopyBytesMax) {
    std::byte* at = store(length);
    std::memcpy(at, bytes, length);
    bytes = at;
  }
  update_icrc({bytes, length});
  add_piece(bytes, length);
}

void Burst::end() {
  std::byte* trailer = store(pad_count_ + kIcrcBytes);
  std::memset(trailer, 0, pad_count_ + kIcrcBytes);
  if (route_->has_icrc) {
    icrc_.update({trailer, pad_count_});
    wire::store_icrc(icrc_.value(),
                     std::span<std::byte, kIcrcBytes>(trailer + pad_count_, kIcrcBytes));
  }
  add_piece(trailer, pad_count_ + kIcrcBytes);
  total_bytes_ += packet_bytes_;
  closed_ = packet_bytes_ < segment_bytes_;
  ++count_;
  ++packets_;
  bytes_ += packet_bytes_ - kIcrcBytes;
}

void Burst::abandon() {
  if (route_->lossless) {
    const link::Reservation taken = link::Reservation::of(packet_bytes_);
    reserved_.packets += taken.packets;
    reserved_.blocks += taken.blocks;
  }
  drop_holds(mark_.holds);
  piece_count_ = mark_.pieces;
  if (piece_count_ > 0) pieces_[piece_count_ - 1].iov_len = mark_.last_length;
  stored_ = mark_.stored;
  copied_ = mark_.copied;
}

void Burst::drop_holds(std::size_t from) {
  while (hold_count_ > from) {
    hold_at(--hold_count_).~CachedHold();
  }
}

/// For the largest packet with so much payload. A burst that has packets already probably has more
/// of them: so it reserves for several at a time, if there is room.
bool Burst::reserve(std::uint32_t payload_bytes_max) {
  const std::size_t bytes_max =
      route_->header_bytes + wire::kHeadersMaxBytes + kTrailerMax + payload_bytes_max;
  const auto wanted = link::Reservation::of(bytes_max);
  if (reserved_.packets != 0 && reserved_.blocks >= wanted.blocks) return true;
  const std::uint32_t packets = std::min(count_, kPacketsReservedMax);
  return (packets > 1 && reserve(link::Reservation::of(bytes_max, packets))) || reserve(wanted);
}

/// Reserves what is missing to `wanted`.
bool Burst::reserve(const link::Reservation& wanted) {
  const link::Reservation missing{wanted.packets - std::min(wanted.packets, reserved_.packets),
                                  wanted.blocks - std::min(wanted.blocks, reserved_.blocks)};
  if (!route_->links->top().reserve(route_->lane, missing)) return false;
  reserved_.packets += missing.packets;
  reserved_.blocks += missing.blocks;
  return true;
}

void Burst::send() {
  const link::Reservation spare = std::exchange(reserved_, {});
  if (count_ > 0) {
    // A datagram that the kernel refuses counts as lost; time-outs and retries handle it.
    (void)route_->links->top().send({.to = *route_->next_hop,
                                     .path = route_->path,
                                     .seed = route_->seed,
                                     .pieces = std::span(pieces_.data(), piece_count_),
                                     .packet_bytes = segment_bytes_,
                                     .count = count_,
                                     .lane = route_->lane,
                                     .spare = spare});
    counters_.packets_sent.add(count_);
    counters_.bytes_sent.add(total_bytes_);
  } else {
    route_->links->top().release(route_->lane, spare);
  }
  drop_holds(0);
  count_ = total_bytes_ = segment_bytes_ = 0;
  piece_count_ = stored_ = copied_ = 0;
  closed_ = false;
}

}  // namespace verbatim::port
