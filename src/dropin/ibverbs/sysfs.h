#pragma once

#include <string>
#include <string_view>

/// The folders of /sys in which a kernel would describe the device.
namespace verbatim::dropin {

inline std::string device_folder(std::string_view device) {
  return std::string("/sys/class/infiniband/").append(device);
}
inline constexpr int kDeviceIndex = 0;  // For netlink.
inline constexpr char kCharacterDeviceName[] = "uverbs0";
inline constexpr char kCharacterDeviceFolder[] = "/sys/class/infiniband_verbs/uverbs0";

}  // namespace verbatim::dropin
