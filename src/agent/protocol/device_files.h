#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/protocol/node.h"

/// The files of a kernel driver in /sys/class/infiniband/DEVICE, for a node's device.
namespace verbatim::agent {

struct DeviceFile {
  std::string path;     // Relative to the device's folder: "ports/1/gids/0".
  std::string content;  // Without the line end.
};

/// The device's character device, and its folder in /sys/class/infiniband_verbs.
inline constexpr std::string_view kCharacterDeviceName = "uverbs0";

/// Entries of the GID table, most of them empty. The number is constant, as in Linux, because
/// programs may read it once, while addresses come and go.
inline constexpr std::uint32_t kGidTableLength = 64;

/// All that stay as they are. The counters: port_totals.h.
std::vector<DeviceFile> device_files(const Node& node);
/// Those of /sys/class/infiniband_verbs/uverbs0.
std::vector<DeviceFile> character_device_files(const Node& node);

}  // namespace verbatim::agent
