#include "fabric/data/end.h"

#include <cstring>

#include "base/assert.h"

namespace verbatim::fabric {

End::End(const Image& image, std::uint32_t end)
    : image_(image),
      end_(end),
      first_slot_(image.first_slot_of(end)),
      out_(image.link(image.from_end(end))),
      out_ring_(image.ring(image.from_end(end))),
      in_ring_(image.ring(image.to_end(end))),
      posted_index_(out_ring_.tail(std::memory_order_acquire)) {
  // What the program before has posted has left: the end would not be taken else.
  for (unsigned lane = 0; lane < kLanes; ++lane) reserved_blocks_[lane] = out_.lanes[lane].sent;
}

unsigned End::lane_of(unsigned service_level) const {
  const EndRecord& record = image_.end(end_);
  const NodeRecord& host = image_.node(record.host);
  if (host.kind != RecordKind::host) return 0;
  const std::uint64_t lanes =
      image_.lanes_by_sl(host, record.host_port, kCablePort).load(std::memory_order_relaxed);
  return lanes >> (service_level % 16 * 4) & 15;
}

Handle End::find_slot(std::uint32_t tries) {
  while (tries-- != 0) {
    const std::uint32_t index = next_slot_;
    next_slot_ = (index + 1) % kSlotsOfAnEnd;
    // Acquire: who freed it has read it.
    if (image_.slot(first_slot_ + index).where.load(std::memory_order_acquire) == 0 &&
        !is_reserved_[index]) {
      return first_slot_ + index;
    }
  }
  return 0;
}

bool End::reserve(unsigned lane, const Room& room) {
  if (reserved_count_ + room.packets > kSlotsOfAnEnd) return false;  // All are its own to post.
  const bool waits = room.packets <= 1;
  if (!has_credit(lane, room.blocks) && !(waits && wait_for_credit(lane, room.blocks))) {
    return false;
  }
  for (std::uint32_t i = 0; i < room.packets; ++i) {
    Handle slot = find_slot(kSlotsToTry);
    if (slot == 0 && waits) slot = wait_for_slot();
    if (slot == 0) {
      for (; i != 0; --i) take_reserved();
      return false;
    }
    reserved_[reserved_count_++] = slot;
    is_reserved_[slot - first_slot_] = true;
  }
  reserved_blocks_[lane % kLanes] += room.blocks;
  return true;
}

bool End::wait_for_credit(unsigned lane, std::uint32_t blocks) {
  out_.waits.store(1, std::memory_order_seq_cst);
  return has_credit(lane, blocks);
}

Handle End::wait_for_slot() {
  std::atomic<std::uint32_t>& waits = image_.end(end_).waits_for_slots;
  // As long as it is told that this waits, nothing has come.
  if (waits.load(std::memory_order_relaxed) != 0) return 0;
  waits.store(1, std::memory_order_seq_cst);
  const Handle slot = find_slot(kSlotsOfAnEnd);
  if (slot != 0) waits.store(0, std::memory_order_relaxed);
  return slot;
}

void End::release(unsigned lane, const Room& room) {
  VERBATIM_ASSERT(reserved_count_ >= room.packets);
  for (std::uint32_t i = 0; i < room.packets; ++i) take_reserved();
  reserved_blocks_[lane % kLanes] -= room.blocks;
}

MutableByteSpan End::next_packet(std::size_t bytes) const {
  VERBATIM_ASSERT(reserved_count_ > 0);
  return image_.slot(reserved_[reserved_count_ - 1]).packet(bytes);
}

void End::post(const OutgoingPacket& packet) {
  std::size_t bytes = 0;
  for (const ByteSpan piece : packet.pieces) bytes += piece.size();
  VERBATIM_ASSERT(bytes <= kPacketBytesMax);
  std::byte* at = next_packet(bytes).data();
  for (const ByteSpan piece : packet.pieces) {
    std::memcpy(at, piece.data(), piece.size());
    at += piece.size();
  }
  post(packet, bytes);
}

void End::post(const OutgoingPacket& packet, std::size_t bytes) {
  VERBATIM_ASSERT(reserved_count_ > 0);
  const Handle handle = take_reserved();
  Slot& slot = image_.slot(handle);
  slot.at_router = 0;
  slot.from = 0;
  slot.destination_qp = packet.destination.value();
  slot.at_node = packet.as_node;
  slot.bytes = static_cast<std::uint16_t>(bytes);
  slot.blocks = static_cast<std::uint16_t>(blocks_of(slot.bytes));
  slot.dlid = raw(packet.dlid);
  slot.p_key = raw(packet.p_key);
  slot.service_level = packet.service_level;
  slot.out_lane = packet.lane;
  slot.arrives_at = 0;
  slot.where.store(Where::built(image_.from_end(end_), posted_index_).word(),
                   std::memory_order_release);
  out_ring_.handles[posted_index_ % kRingEntries].store(handle, std::memory_order_relaxed);
  posted_ = handle;
  ++posted_index_;
}

bool End::begin_sleep(bool wants_packets) {
  std::atomic<std::uint32_t>& sleeps = image_.end(end_).sleeps;
  sleeps.store(1, std::memory_order_seq_cst);
  const bool has_packets =
      in_ring_.tail(std::memory_order_seq_cst) != in_ring_.head.load(std::memory_order_relaxed);
  const bool has_something = (has_packets && wants_packets) ||
                             image_.end(end_).has_credit_news.load(std::memory_order_seq_cst) != 0;
  if (has_something) sleeps.store(0, std::memory_order_relaxed);
  return !has_something;
}

}  // namespace verbatim::fabric
