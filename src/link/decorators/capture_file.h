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

/// Makes a pcapng file of packets: link type raw IP for RoCE v2, whose IP and UDP headers it makes
/// up as the kernel writes them, and Ethernet for RoCE v1. An interface stands in the file from its
/// first packet on. A value that only gathers bytes: who owns it writes and clears `bytes`.
class CaptureFile {
 public:
  /// `name`: of the node.
  CaptureFile(std::string name, std::string_view application);

  void add(const CapturedPacket& packet, ByteSpan bytes);
  /// At the end: so many packets had no room.
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
