#include "dropin/ibverbs/sysfs.h"

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "agent/protocol/device_files.h"
#include "base/os/unique_fd.h"
#include "dropin/ibverbs/program.h"
#include "dropin/ibverbs/refusal.h"
#include "dropin/ibverbs/verbs.h"

/// The files of /sys that programs read through libibverbs. Those of our device are generated.
namespace verbatim::dropin {
namespace {

std::optional<std::string> content_of(const std::vector<agent::DeviceFile>& files,
                                      std::string_view name) {
  const auto file = std::ranges::find(files, name, &agent::DeviceFile::path);
  return file == files.end() ? std::nullopt : std::optional(file->content);
}

/// Returns the content of `path`, as if the kernel had our device; nothing for paths outside it,
/// ENOENT for a file that the device does not have.
std::optional<Result<std::string>> our_file(std::string_view path) {
  const auto below = [path](std::string_view folder) -> std::optional<std::string_view> {
    if (!path.starts_with(folder) || path.size() <= folder.size() || path[folder.size()] != '/') {
      return std::nullopt;
    }
    return path.substr(folder.size() + 1);
  };
  if (!below("/sys/class/infiniband") && !below("/sys/class/infiniband_verbs")) {
    return std::nullopt;
  }
  const auto described = agent_node();
  if (!described) return std::unexpected(described.error());
  std::optional<std::string> content;
  if (const auto name = below(device_folder(described->device))) {
    content = content_of(agent::device_files(*described), *name);
  } else if (const auto other = below(kCharacterDeviceFolder)) {
    content = content_of(agent::character_device_files(*described), *other);
  } else {
    return std::nullopt;
  }
  if (!content) return refuse(ENOENT, fmt::format("{} does not exist", path));
  return *content;
}

/// As rdma-core does: no line end, and a final zero if there is room. Returns the number of bytes.
int deliver(std::string_view content, char* buffer, std::size_t size) {
  const std::size_t length = std::min(content.size(), size);
  std::copy_n(content.begin(), length, buffer);
  if (length < size) buffer[length] = '\0';
  return static_cast<int>(length);
}

int read_file(const std::string& path, char* buffer, std::size_t size) {
  if (const auto ours = our_file(path)) {
    if (*ours) return deliver(**ours, buffer, size);
    errno = ours->error().code;  // No log line: programs try files that a device may lack.
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

/// For providers that read their device's files. No provider's device is here, so our device is
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
  const auto described = agent_node();
  if (!described) {
    errno = described.error().code;
    return -1;
  }
  return read_file(device_folder(described->device) + "/" + name, buf, size);
}
