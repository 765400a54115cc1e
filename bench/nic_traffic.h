#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <vector>

#include "offload/switch/key.h"

/// Flows and masks of bench_nic_switch and bench_nic_anchors.
namespace bench {

constexpr std::uint32_t kMasks = 8;

/// Processor time of this thread, in seconds.
inline double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// A UDP frame of 60 bytes. Flows of different masks have destinations of different networks, so
/// that their rules are disjoint, as Open vSwitch's are.
inline std::vector<std::byte> frame_of(std::uint32_t flow) {
  const auto byte = [flow](unsigned shift) { return static_cast<std::uint8_t>(flow >> shift); };
  std::uint8_t bytes[60] = {2, 0,    0, 0, 0,  1, 2, 0,    0, 0,  0,  2, 8,
                            0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0};
  const std::uint8_t addresses[] = {
      10,       byte(16), byte(8), byte(0), static_cast<std::uint8_t>(20 + flow % kMasks),
      byte(16), byte(8),  byte(0)};
  std::memcpy(bytes + 26, addresses, sizeof addresses);
  const std::uint8_t ports[] = {byte(8), byte(0), 0x12, 0xb7};
  std::memcpy(bytes + 34, ports, sizeof ports);
  std::vector<std::byte> frame(sizeof bytes);
  std::memcpy(frame.data(), bytes, sizeof bytes);
  return frame;
}

/// MACs, type, tag and the destination always; sources and ports in turn.
inline verbatim::offload::Key mask_of(std::uint32_t number) {
  verbatim::offload::Key mask;
  mask.destination_mac.fill(0xff);
  mask.source_mac.fill(0xff);
  mask.ether_type.fill(0xff);
  mask.vlan_tag[0] = verbatim::offload::kTagPresent;
  mask.fragment = 3;
  mask.port = mask.group = 0xffff;
  std::memset(mask.destination_ip.data(), 0xff, 4);
  if ((number & 1) != 0) std::memset(mask.source_ip.data(), 0xff, 4);
  if ((number & 6) != 0) mask.protocol = 0xff;
  if ((number & 2) != 0) mask.source_port.fill(0xff);
  if ((number & 4) != 0) mask.destination_port.fill(0xff);
  return mask;
}

}  // namespace bench
