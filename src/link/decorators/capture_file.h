#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "link/decorators/capture_ring.h"

namespace verbatim::link {

/// Builds a pcapng file of packets. RoCE v2 has link type raw IP; its IP and UDP headers are
/// reconstructed as the kernel writes them. RoCE v1 has link type Ethernet. An interface is added
/// to the file with its first packet. A value that only gathers bytes: its owner writes and clears
/// `bytes`.
class CaptureFile {
 public:
  /// `name`: the node's.
  CaptureFile(std::string name, std::string_view application);

  void add(const CapturedPacket& packet, ByteSpan bytes);
  /// Called at the end; `dropped`: packets for which the ring had no room.
  void add_statistics(TimeNs time, std::uint64_t packets, std::uint64_t dropped);

  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  std::uint32_t interface_of(bool is_ethernet);

  const std::string name_;
  std::vector<std::byte> bytes_;
  std::array<std::optional<std::uint32_t>, 2> interfaces_;  // Raw IP, Ethernet.
  std::uint32_t interface_count_ = 0;
};

}  // namespace verbatim::link
