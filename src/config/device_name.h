#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "config/wire_protocol.h"

/// What a device is called, by name or by a rule of rdma-core's 60-rdma-persistent-naming.rules.
namespace verbatim::config {

inline constexpr std::string_view kKernelName = "verbatim0";
/// IBV_SYSFS_NAME_MAX without its zero.
inline constexpr std::size_t kDeviceNameMax = 63;

/// What a name may follow from.
struct DeviceIdentity {
  std::string_view node;
  std::uint64_t guid = 0;
  WireProtocol protocol = WireProtocol::roce;
};

/// A name: 1 to 63 letters, digits, '_', '-' or '.', the first a letter. Or a rule: NAME_KERNEL
/// ("verbatim0"), NAME_GUID ("rocex" or "iwx" and the node GUID), NAME_FALLBACK (what the system
/// takes by default: the place on the bus, which no emulated device has, else the GUID), NAME_NODE
/// (NODE_0). EINVAL in words, also for NAME_PCI and NAME_ONBOARD.
Result<void> check_device_name(std::string_view name_or_rule);
/// The name that follows from what `check_device_name` accepts.
std::string device_name(std::string_view name_or_rule, const DeviceIdentity& identity);

}  // namespace verbatim::config
