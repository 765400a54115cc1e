#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "base/bytes.h"
#include "wire/mad/mad.h"

/// Device management (IBA 16.3): an I/O unit's controllers and their services, as `ibsrpdm` and
/// `srp_daemon` ask for them. A datagram of class 0x06 has 40 reserved bytes between header and
/// data.
namespace verbatim::ulp::srp {

inline constexpr auto kDeviceManagement = wire::MadClass::device_management;
inline constexpr std::size_t kDeviceDataAt = 64;
using DeviceData = std::span<std::byte, wire::kMadBytes - kDeviceDataAt>;

enum class DeviceAttribute : std::uint16_t {
  class_port_info = 0x01,
  io_unit_info = 0x10,
  io_controller_profile = 0x11,  // Modifier: the slot, from 1.
  service_entries = 0x12,        // Modifier: slot << 16 | last << 8 | first.
};
/// Class-specific status: there is no controller in the slot (IBA 16.3.1.2).
inline constexpr std::uint16_t kNoController = 0x0100;

///     0 change, 2 slots, 3 option ROM, 4 a nibble for each slot, the high one first: 1 is there
struct IoUnitInfo {
  static constexpr unsigned kSlotsMax = 255;
  std::uint16_t change = 0;
  std::uint8_t slots = 0;
  std::uint8_t controllers = 0;  // In the first slots.
};

///     0 GUID, 8 vendor (3 bytes), 12 device, 16 version, 20 subsystem's vendor and device,
///     28 class, 30 subclass, 32 protocol and version, 36 connections, 38 initiators,
///     40 requests, 43 READs, 44 bytes of a message, 48 bytes of a transfer, 52 operations,
///     54 services, 64 name
struct IoControllerProfile {
  std::uint64_t guid = 0;
  std::uint16_t requests = 0;
  std::uint8_t reads = 0;
  std::uint32_t message_bytes = 0;
  std::uint32_t transfer_bytes = 0;
  std::uint8_t services = 0;
  std::string name;  // Up to 63 characters.
};

/// 40 bytes of name, "SRP.T10:" and the port's extension; then the id that the CM listens at.
struct ServiceEntry {
  static constexpr std::size_t kSize = 48;
  static constexpr std::size_t kPerDatagram = 4;
  std::uint64_t extension = 0;
  std::uint64_t service = 0;
};

void encode_class_port_info(DeviceData out);
void encode(const IoUnitInfo& info, DeviceData out);
void encode(const IoControllerProfile& profile, DeviceData out);
void encode(const ServiceEntry& entry, std::span<std::byte, ServiceEntry::kSize> out);

}  // namespace verbatim::ulp::srp
