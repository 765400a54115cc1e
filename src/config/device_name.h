#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "config/wire_protocol.h"

/// Names of devices: given, or made by a rule of rdma-core's 60-rdma-persistent-naming.rules.
namespace verbatim::config {

inline constexpr std::string_view kKernelName = "verbatim0";
/// IBV_SYSFS_NAME_MAX without the terminating zero.
inline constexpr std::size_t kDeviceNameMax = 63;

/// The properties that a rule can make a name from.
struct DeviceIdentity {
  std::string_view node;
  std::uint64_t guid = 0;
  WireProtocol protocol = WireProtocol::roce;
};

/// Checks a name (1 to 63 letters, digits, '_', '-' or '.', the first a letter) or a rule:
/// NAME_KERNEL ("verbatim0"), NAME_GUID ("rocex" or "iwx" and the node GUID), NAME_FALLBACK (the
/// system's default: the place on the bus, which no emulated device has, else the GUID), NAME_NODE
/// (NODE_0). EINVAL with a text, also for NAME_PCI and NAME_ONBOARD.
Result<void> check_device_name(std::string_view name_or_rule);
/// Returns the name for what `check_device_name` has accepted.
std::string device_name(std::string_view name_or_rule, const DeviceIdentity& identity);

}  // namespace verbatim::config
