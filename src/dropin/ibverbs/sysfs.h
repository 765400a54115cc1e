#pragma once

/// The names under which programs know the device, and the folders of /sys where a kernel would
/// describe it.
namespace verbatim::dropin {

inline constexpr char kDeviceName[] = "verbatim0";
inline constexpr char kDeviceFolder[] = "/sys/class/infiniband/verbatim0";
inline constexpr char kCharacterDeviceName[] = "uverbs0";
inline constexpr char kCharacterDeviceFolder[] = "/sys/class/infiniband_verbs/uverbs0";

}  // namespace verbatim::dropin
