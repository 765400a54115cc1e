#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "link/decorators/capture_ring.h"

namespace verbatim::link {

struct PacketOnCable {
  TimeNs time = 0;        // Since 1970.
  std::string_view port;  // That it leaves: "S1/3".
  std::uint8_t lane = 0;
  bool is_damaged = false;  // On the way.
  ByteSpan bytes;
};

/// Builds a pcapng file of packets. RoCE v2 has link type raw IP; its IP and UDP headers are
/// reconstructed as the kernel writes them. RoCE v1 has link type Ethernet. InfiniBand has link
/// type ERF, as files of ibdump; its CRCs are computed here, since links in shared memory need
/// none. An interface is added to the file with its first packet. A value that only gathers bytes:
/// its owner writes and clears `bytes`.
class CaptureFile {
 public:
  /// `name`: the node's.
  CaptureFile(std::string name, std::string_view application);

  void add(const CapturedPacket& packet, ByteSpan bytes);
  /// A packet of InfiniBand on a cable, LRH to ICRC; its port is an interface of the file.
  void add_on_cable(const PacketOnCable& packet);
  /// Called at the end; `dropped`: packets for which the ring had no room.
  void add_statistics(TimeNs time, std::uint64_t packets, std::uint64_t dropped);

  std::vector<std::byte>& bytes() { return bytes_; }

  struct MadeUp;

 private:
  void append(std::uint32_t interface, const CapturedPacket& packet, const MadeUp& made,
              ByteSpan bytes);
  enum class Kind : std::uint8_t { roce_v2, roce_v1, infiniband };
  static constexpr std::size_t kKinds = 3;
  std::uint32_t interface_of(Kind kind);

  const std::string name_;
  std::vector<std::byte> bytes_;
  std::array<std::optional<std::uint32_t>, kKinds> interfaces_;
  std::map<std::string, std::uint32_t, std::less<>> ports_;  // Interfaces of cables.
  std::uint32_t interface_count_ = 0;
};

}  // namespace verbatim::link
