#include "fabric/data/image/tap.h"

#include <algorithm>
#include <cstring>

namespace verbatim::fabric {

void Tap::add(const TappedPacket& packet, ByteSpan content) {
  const std::uint64_t number = next.fetch_add(1, std::memory_order_relaxed);
  TapCell& cell = cells[number % kTapCells];
  const std::uint64_t writing = 2 * number + 1;
  std::uint64_t turn = cell.turn.load(std::memory_order_relaxed);
  // A writer that was overtaken by a whole round gives up.
  if (turn >= writing || !cell.turn.compare_exchange_strong(turn, writing)) return;
  std::atomic_thread_fence(std::memory_order_release);
  const std::size_t bytes = std::min(content.size(), cell.content.size());
  cell.packet = packet;
  cell.packet.bytes = static_cast<std::uint16_t>(bytes);
  if (bytes != 0) std::memcpy(cell.content.data(), content.data(), bytes);
  std::uint64_t mine = writing;
  cell.turn.compare_exchange_strong(mine, writing + 1, std::memory_order_release);
}

std::optional<TapReader::Read> TapReader::next(TimeNs now) {
  for (;;) {
    const std::uint64_t written = tap_.next.load(std::memory_order_acquire);
    if (written <= next_) return std::nullopt;
    if (written - next_ > kTapCells) {
      lost_ += written - kTapCells - next_;
      next_ = written - kTapCells;
    }
    const TapCell& cell = tap_.cells[next_ % kTapCells];
    const std::uint64_t done = 2 * next_ + 2;
    const std::uint64_t turn = cell.turn.load(std::memory_order_acquire);
    if (turn < done) {  // It is being written.
      if (waits_since_ == 0) waits_since_ = now;
      if (elapsed(waits_since_, now) < kPatience) return std::nullopt;
    }
    waits_since_ = 0;
    Read read{.packet = cell.packet, .content = {}};
    const std::size_t bytes = std::min<std::size_t>(read.packet.bytes, content_.size());
    std::memcpy(content_.data(), cell.content.data(), bytes);
    read.content = ByteSpan(content_).first(bytes);
    std::atomic_thread_fence(std::memory_order_acquire);
    const bool is_whole = turn == done && cell.turn.load(std::memory_order_relaxed) == done;
    ++next_;
    if (is_whole) return read;
    ++lost_;
  }
}

}  // namespace verbatim::fabric
