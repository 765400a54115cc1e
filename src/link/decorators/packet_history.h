#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "base/net/address.h"
#include "base/types.h"
#include "link/decorators/fault_plan.h"
#include "wire/ib/bth.h"

namespace verbatim::link {

/// Remembers which packets have passed, so that the same packets get the same identity in two runs
/// of a program, although queue pair numbers and first PSNs differ. Bounded. Not thread-safe.
class PacketHistory {
 public:
  /// Further flows share memory: their attempts may be counted wrongly.
  static constexpr std::size_t kFlowsMax = 1024;
  /// Per flow, by PSN: more than a sender has outstanding.
  static constexpr std::size_t kPacketsMax = 4096;

  /// Adds a packet. `peer`: its destination or source.
  PacketIdentity note(Direction direction, const SocketAddress& peer, const wire::Bth& bth);

 private:
  struct Key {
    std::array<std::uint8_t, 16> peer{};
    Qpn dest_qp;
    Direction direction{};
    bool is_response = false;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  struct Attempts {
    std::uint16_t psn_high = 0;  // Bits 12 to 23 of the PSN that `count` belongs to.
    std::uint16_t count = 0;
  };
  struct Flow {
    std::uint32_t number = 0;
    Psn first;
    std::array<Attempts, kPacketsMax> packets{};
  };
  std::unordered_map<Key, std::unique_ptr<Flow>, Hash> flows_;
};

}  // namespace verbatim::link
