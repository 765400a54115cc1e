#include "agent/protocol/device_files.h"

#include <fmt/format.h>

#include "agent/protocol/device_numbers.h"

namespace verbatim::agent {
namespace {

std::string guid_text(std::uint64_t guid) {
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", guid >> 48 & 0xffff, guid >> 32 & 0xffff,
                     guid >> 16 & 0xffff, guid & 0xffff);
}

std::string gid_in_full(const Gid& gid) {
  std::string text;
  for (std::size_t i = 0; i < gid.bytes.size(); i += 2) {
    text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", gid.bytes[i], gid.bytes[i + 1]);
  }
  return text;
}

void add_gid_file(std::uint32_t index, const Gid& gid, std::vector<DeviceFile>& files) {
  files.push_back({fmt::format("ports/1/gids/{}", index), gid_in_full(gid)});
}

void add_gid_attributes(std::uint32_t index, std::string_view type, const Node& node,
                        std::vector<DeviceFile>& files) {
  files.push_back({fmt::format("ports/1/gid_attrs/types/{}", index), std::string(type)});
  files.push_back({fmt::format("ports/1/gid_attrs/ndevs/{}", index), std::string(node.interface)});
}

/// As Linux: every entry has its file of `gids`, and only those in use a type and an interface.
void add_gid_files(const Node& node, std::vector<DeviceFile>& files) {
  if (node.is_iwarp()) {
    add_gid_file(0, rnic_gid(node.mac), files);
    return add_gid_attributes(0, name_of(RoceVersion::v1), node, files);
  }
  for (std::uint32_t i = 0; i < kGidTableLength; ++i) {
    const bool used = i < node.gids.size() && node.is_valid(node.gids[i]);
    add_gid_file(i, used ? node.gids[i].gid : Gid{}, files);
    if (!used) continue;
    add_gid_attributes(i, name_of(roce_version(node.gids[i].address)), node, files);
  }
}

std::string board_id_of(const Node& node) {
  const config::Profile* const profile = config::find_profile(node.profile);
  return std::string(profile != nullptr ? profile->board_id : "");
}

}  // namespace

std::vector<DeviceFile> device_files(const Node& node) {
  std::vector<DeviceFile> files = {
      {"board_id", board_id_of(node)},
      {"hca_type", "verbatim"},
      {"hw_rev", fmt::format("{:#x}", node.limits.hw_ver)},
      {"fw_ver", std::string(node.firmware)},
      {"node_type", node.is_iwarp() ? "4: RNIC" : "1: CA"},
      {"node_desc", std::string(node.name)},
      {"node_guid", guid_text(node.guid)},
      {"sys_image_guid", guid_text(node.guid)},
      {"ports/1/state", node.network.is_active ? "4: ACTIVE" : "1: DOWN"},
      {"ports/1/phys_state", node.network.is_active ? "5: LinkUp" : "3: Disabled"},
      {"ports/1/link_layer", "Ethernet"},
      {"ports/1/rate", "100 Gb/sec (4X EDR)"},
      {"ports/1/cap_mask", fmt::format("{:#010x}", kEthernetPortCapabilities)},
      {"ports/1/lid", "0x0"},
      {"ports/1/lid_mask_count", "0"},
      {"ports/1/sm_lid", "0x0"},
      {"ports/1/sm_sl", "0"},
      {"ports/1/pkeys/0", "0xffff"},
  };
  add_gid_files(node, files);
  return files;
}

std::vector<DeviceFile> character_device_files(const Node& node) {
  return {{"ibdev", std::string(node.device)},
          {"abi_version", fmt::format("{}", kCharacterDeviceAbi)},
          {"dev", fmt::format("{}:{}", kCharacterDeviceMajor, kCharacterDeviceMinor)}};
}

}  // namespace verbatim::agent
