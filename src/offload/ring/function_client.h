#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/os/unique_fd.h"
#include "offload/ring/function_layout.h"
#include "offload/ring/ring.h"

namespace verbatim::offload {

/// The client's end of a function that is rings of memory: it sends and receives whole Ethernet
/// frames, which lie in memory of its own. One thread receives and one sends at a time.
class FunctionClient {
 public:
  struct Wish {
    std::string socket;  // Of the card.
    std::uint16_t function = 0;
    std::uint16_t wants = VNIC_WANTS_ALL;  // vnic_wants
    std::uint32_t qpn_range = 0;
    std::uint32_t qpn_shift = 0;
    std::uint32_t receive_buffers = 512;  // Powers of two, at most VNIC_SLOTS.
    std::uint32_t send_buffers = 256;
  };

  /// ENOENT, ECONNREFUSED: no card there; ENODEV: it has no such function; EOPNOTSUPP: that is a
  /// network interface; ENOSPC: the function has enough clients.
  static Result<std::unique_ptr<FunctionClient>> join(const Wish& wish);
  ~FunctionClient();
  FunctionClient(const FunctionClient&) = delete;
  FunctionClient& operator=(const FunctionClient&) = delete;

  /// Readable when a sleeper is woken, and when the card has ended.
  int fd() const { return socket_.get(); }
  const std::array<std::uint8_t, 6>& mac() const { return mac_; }
  std::uint32_t mtu() const { return mtu_; }
  bool link_is_up() const { return acquire(region_->link_is_up) != 0; }

  /// Calls `on_frame(MutableByteSpan)` for what has come, at most `most` frames; their memory is
  /// the card's again when this returns. Returns how many.
  template <typename OnFrame>
  std::size_t receive(OnFrame on_frame, std::size_t most = 64);

  /// Returns room for the next frame, VNIC_FUNCTION_FRAME_MAX bytes; empty: the ring is full.
  MutableByteSpan room();
  /// Posts the frame that is now in the room. The card may sleep until `ring`.
  void post(std::size_t bytes);
  void ring() const;

  /// Before a thread waits for `fd`, whose messages it takes: nothing else does, so it misses none.
  /// Returns false if something has come already, or the card has ended.
  bool begin_sleep();
  /// Costs a system call.
  bool has_card() const;

 private:
  FunctionClient() = default;
  Result<void> greet(const Wish& wish);
  Result<void> register_memory();
  Result<void> give_memory(int file, std::size_t bytes) const;
  std::byte* buffer(std::size_t i) const { return memory_ + i * kBufferBytes; }
  void write_empty(std::uint32_t number);

  static constexpr std::size_t kBufferBytes = 4608;  // VNIC_FUNCTION_FRAME_MAX, by cache lines.
  static_assert(kBufferBytes >= VNIC_FUNCTION_FRAME_MAX);

  UniqueFd socket_;
  UniqueFd doorbell_;
  vnic_function_region* region_ = nullptr;
  std::byte* memory_ = nullptr;  // The receive buffers, then the send buffers.
  std::uint32_t receive_buffers_ = 0;
  std::uint32_t send_buffers_ = 0;
  std::uint32_t received_ = 0;  // Frames taken; as many buffers were posted, and receive_buffers_.
  std::uint32_t sent_ = 0;
  std::uint32_t taken_ = 0;  // Of them by the card, when it was last looked at.
  std::array<std::uint8_t, 6> mac_{};
  std::uint32_t mtu_ = 0;
};

template <typename OnFrame>
std::size_t FunctionClient::receive(OnFrame on_frame, std::size_t most) {
  vnic_ring& ring = region_->receive;
  const std::uint32_t done = acquire(ring.done);
  std::size_t count = 0;
  // A card that counts nonsense gets no further than the ring.
  for (; received_ != done && count < most; ++count) {
    const vnic_descriptor& descriptor = ring.slots[received_ % VNIC_SLOTS];
    const std::size_t bytes = std::min<std::size_t>(relaxed(descriptor.length), kBufferBytes);
    if (bytes != 0) on_frame(MutableByteSpan(buffer(received_ % receive_buffers_), bytes));
    write_empty(received_ + receive_buffers_);
    ++received_;
  }
  // Once: the card reads the cursor, whose cache line goes there and back.
  if (count != 0) release(ring.posted, received_ + receive_buffers_);
  return count;
}

}  // namespace verbatim::offload
