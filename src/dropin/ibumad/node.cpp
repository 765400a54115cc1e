#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "dropin/ibumad/host.h"

/// A RoCE node's device, as a card's driver shows it to libibumad: by the files of /sys, which are
/// in the node's view. Its port has an Ethernet link, and takes no management datagrams here.
namespace verbatim::ibumad {
namespace {

namespace fs = std::filesystem;

std::string line_of(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The number that a line begins with, such as "4: ACTIVE" or "0x00010000"; else 0.
std::uint32_t number_of(const fs::path& path) {
  return static_cast<std::uint32_t>(std::strtoul(line_of(path).c_str(), nullptr, 0));
}

/// Four groups of 16 bits, from the character `first` on: a GUID, or half of a GID.
std::uint64_t groups_of(const std::string& line, std::size_t first = 0) {
  std::string digits;
  for (const char c : line.substr(std::min(first, line.size()), 19)) {
    if (c != ':') digits += c;
  }
  return std::strtoull(digits.c_str(), nullptr, 16);
}

protocol::PortDescription port_in(const fs::path& folder) {
  constexpr std::size_t kSecondHalf = 20;  // Of "0000:0000:0000:0000:0000:0000:0000:0000".
  protocol::PortDescription port;
  const std::string gid = line_of(folder / "gids/0");
  port.gid_prefix = groups_of(gid);
  port.guid = groups_of(gid, kSecondHalf);
  port.capabilities = number_of(folder / "cap_mask");
  port.state = static_cast<std::uint8_t>(number_of(folder / "state"));
  port.physical_state = static_cast<std::uint8_t>(number_of(folder / "phys_state"));
  port.rate_mbps = number_of(folder / "rate") * 1000;
  port.pkeys[0] = static_cast<std::uint16_t>(number_of(folder / "pkeys/0"));
  port.pkey_count = 1;
  return port;
}

}  // namespace

std::optional<protocol::HostDescription> describe_node() {
  constexpr std::uint32_t kChannelAdapter = 1;  // What iWARP has is none.
  const char* const view = getenv("VERBATIM_VIEW");
  if (view == nullptr) return std::nullopt;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::path(view) / "sys/class/infiniband", error)) {
    const fs::path folder = entry.path();
    if (number_of(folder / "node_type") != kChannelAdapter) continue;
    protocol::HostDescription host;
    host.guid = groups_of(line_of(folder / "node_guid"));
    host.system_image_guid = groups_of(line_of(folder / "sys_image_guid"));
    protocol::put_text(host.device, folder.filename().string());
    protocol::put_text(host.firmware, line_of(folder / "fw_ver"));
    protocol::put_text(host.hca_type, line_of(folder / "hca_type"));
    protocol::put_text(host.hardware, line_of(folder / "hw_rev"));
    host.port_count = 1;
    host.ports[0] = port_in(folder / "ports/1");
    return host;
  }
  return std::nullopt;
}

}  // namespace verbatim::ibumad
