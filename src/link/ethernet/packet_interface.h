#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "link/ethernet/frame_batch.h"
#include "link/ethernet/received_frame.h"

namespace verbatim::link {

/// The frames of a real network interface, by packet sockets (packet(7)): one that only sends and,
/// while frames are wanted, one that gets a copy of every frame in both directions.
class PacketInterface {
 public:
  /// EPERM without CAP_NET_RAW.
  static Result<PacketInterface> open(const std::string& name, std::uint32_t index);

  std::size_t frame_bytes_max() const { return frame_bytes_max_; }
  int send(const FrameBatch& batch) const noexcept;
  Result<int> start_receiving();
  void stop_receiving() { receiving_.reset(); }
  template <typename OnFrame>
  std::size_t receive(OnFrame& on_frame) {
    if (!receiving_) return 0;
    const std::size_t count = fill();
    for (std::size_t i = 0; i < count; ++i) {
      if (!frames_[i].bytes.empty()) on_frame(frames_[i]);
    }
    return count;
  }

 private:
  static constexpr std::size_t kBuffers = 16;
  static constexpr std::size_t kTagBytes = 4;  // Before each frame: room for its VLAN tag.

  PacketInterface() = default;
  std::byte* buffer(std::size_t i) const { return buffers_.get() + i * buffer_bytes(); }
  std::size_t buffer_bytes() const { return kTagBytes + frame_bytes_max_; }
  std::size_t fill();

  std::uint32_t index_ = 0;
  std::size_t frame_bytes_max_ = 0;
  UniqueFd sending_;
  UniqueFd receiving_;
  std::unique_ptr<std::byte[]> buffers_;
  std::array<ReceivedFrame, kBuffers> frames_{};
};

}  // namespace verbatim::link
