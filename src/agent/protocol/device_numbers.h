#pragma once

#include <cstdint>

/// Numbers of a node's device, as /sys and netlink have them.
namespace verbatim::agent {

/// For netlink and `ibv_get_device_index`: a node has one device.
inline constexpr std::uint32_t kDeviceIndex = 0;

inline constexpr std::uint32_t kCharacterDeviceAbi = 1;
inline constexpr std::uint32_t kCharacterDeviceMajor = 231, kCharacterDeviceMinor = 192;

/// Capabilities of a RoCE or iWARP port (`enum ibv_port_cap_flags`): connection management. As
/// cards have it in /sys; that GIDs are made from addresses is told by verbs alone.
inline constexpr std::uint32_t kEthernetPortCapabilities = 0x00010000;

}  // namespace verbatim::agent
