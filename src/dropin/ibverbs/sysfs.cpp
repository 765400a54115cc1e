#include "dropin/ibverbs/sysfs.h"

#include <cerrno>
#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/refusal.h"

/// The files of /sys that programs read through libibverbs. Those of our device come from memory.
namespace verbatim::dropin {
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

/// The entry of the GID table that the last part of a path names, such as the "1" of gids/1.
const adapter::GidEntry* entry_of(const adapter::NodeDescription& node, std::string_view name,
                                  std::string_view folder) {
  if (!name.starts_with(folder)) return nullptr;
  const std::string_view number = name.substr(folder.size());
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(number.begin(), number.end(), index);
  if (error != std::errc{} || end != number.end() || index >= node.gids.size()) return nullptr;
  return &node.gids[index];
}

std::optional<std::string> port_file(const adapter::NodeDescription& node, std::string_view name) {
  if (name == "state") return "4: ACTIVE";
  if (name == "phys_state") return "5: LinkUp";
  if (name == "link_layer") return "Ethernet";
  if (name == "rate") return "100 Gb/sec (4X EDR)";
  if (name == "lid" || name == "sm_lid") return "0x0";
  if (name == "sm_sl" || name == "lid_mask_count") return "0";
  if (name == "pkeys/0") return "0xffff";
  if (entry_of(node, name, "gid_attrs/types/") != nullptr) return "RoCE v2";
  if (entry_of(node, name, "gid_attrs/ndevs/") != nullptr) return node.interface;
  if (const auto* entry = entry_of(node, name, "gids/")) return gid_in_full(entry->gid);
  return std::nullopt;
}

std::optional<std::string> device_file(const adapter::NodeDescription& node,
                                       std::string_view name) {
  if (name == "board_id") return "VERBATIM";
  if (name == "hca_type") return "verbatim";
  if (name == "hw_rev") return "0x1";
  if (name == "fw_ver") return VERBATIM_VERSION;
  if (name == "node_type") return "1: CA";
  if (name == "node_desc") return node.name;
  if (name == "node_guid" || name == "sys_image_guid") return guid_text(node.guid);
  constexpr std::string_view kPort = "ports/1/";
  if (name.starts_with(kPort)) return port_file(node, name.substr(kPort.size()));
  return std::nullopt;
}

std::optional<std::string> character_device_file(std::string_view name) {
  if (name == "ibdev") return kDeviceName;
  if (name == "abi_version") return "1";
  return std::nullopt;
}

/// What `path` would hold if our device were the kernel's; nothing for other paths, ENOENT for a
/// file of our device that does not exist.
std::optional<Result<std::string>> our_file(std::string_view path) {
  const auto below = [path](std::string_view folder) -> std::optional<std::string_view> {
    if (!path.starts_with(folder) || path.size() <= folder.size() || path[folder.size()] != '/') {
      return std::nullopt;
    }
    return path.substr(folder.size() + 1);
  };
  std::optional<std::string> content;
  if (const auto name = below(kDeviceFolder)) {
    const auto described = node();
    if (!described) return std::unexpected(described.error());
    content = device_file(*described, *name);
  } else if (const auto other = below(kCharacterDeviceFolder)) {
    content = character_device_file(*other);
  } else {
    return std::nullopt;
  }
  if (!content) return refuse(ENOENT, fmt::format("{} does not exist", path));
  return *content;
}

/// As rdma-core does it: no line end, a final zero where there is room; the number of bytes.
int deliver(std::string_view content, char* buffer, std::size_t size) {
  const std::size_t length = std::min(content.size(), size);
  std::copy_n(content.begin(), length, buffer);
  if (length < size) buffer[length] = '\0';
  return static_cast<int>(length);
}

int read_file(const std::string& path, char* buffer, std::size_t size) {
  if (const auto ours = our_file(path)) {
    if (*ours) return deliver(**ours, buffer, size);
    errno = ours->error().code;  // Programs try files that a device may lack: nothing to tell of.
    return -1;
  }
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return -1;
  const ssize_t length = read(fd.get(), buffer, size);
  if (length < 0) return -1;
  std::string_view content(buffer, static_cast<std::size_t>(length));
  if (content.ends_with('\n')) content.remove_suffix(1);
  return deliver(content, buffer, size);
}

}  // namespace
}  // namespace verbatim::dropin

using namespace verbatim::dropin;

const char* ibv_get_sysfs_path() { return "/sys"; }

int ibv_read_sysfs_file(const char* dir, const char* file, char* buf, std::size_t size) {
  return read_file(fmt::format("{}/{}", dir, file), buf, size);
}

/// Of a provider that asks for its device's files. None of ours has one, so only our device is
/// meant.
int ibv_read_ibdev_sysfs_file(char* buf, std::size_t size, verbs_sysfs_dev*,
                              const char* name_format, ...) {
  char name[256];
  va_list arguments;
  va_start(arguments, name_format);
  const int length = std::vsnprintf(name, sizeof name, name_format, arguments);
  va_end(arguments);
  if (length < 0 || static_cast<std::size_t>(length) >= sizeof name) {
    errno = ENAMETOOLONG;
    return -1;
  }
  return read_file(fmt::format("{}/{}", kDeviceFolder, name), buf, size);
}
