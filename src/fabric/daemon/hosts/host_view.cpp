#include "fabric/daemon/hosts/host_view.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/dapl_registry.h"
#include "base/files/login_files.h"
#include "base/files/replace_file.h"
#include "base/os/unique_fd.h"
#include "fabric/daemon/hosts/description_files.h"
#include "fabric/protocol/decode.h"

namespace verbatim::fabric {
namespace {

namespace fs = std::filesystem;
constexpr const char* kVerbsDevice = "uverbs0";

/// Returns false if it cannot be written. A view has some 200 files, and nobody is answered
/// meanwhile: on a busy disk, each change of a file's rights takes as long as making it.
bool write_file(const fs::path& path, const std::string& content,
                const fs::path& name = fs::path()) {
  fs::create_directories(path.parent_path());
  // Of the others nothing would come if a program wrote there.
  const mode_t rights = name == kDescriptionFile ? 0644 : 0444;
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, rights));
  const std::string line = content + '\n';
  const auto size = static_cast<ssize_t>(line.size());
  struct stat made{};
  if (!file || write(file.get(), line.data(), line.size()) != size) return false;
  if (fstat(file.get(), &made) != 0) return false;
  const bool has_lost_some = (made.st_mode & 07777) != rights;  // By the process's umask.
  return !has_lost_some || fchmod(file.get(), rights) == 0;
}

fs::path device_folder(const fs::path& root, std::string_view device) {
  return root / "sys/class/infiniband" / device;
}

bool write_all(const fs::path& root, const protocol::HostDescription& host,
               const std::vector<HostFile>& files, const std::vector<std::string>& issm_files) {
  const std::string device(protocol::text_of(host.device));
  bool written = true;
  for (const auto& file : files) {
    written &= write_file(device_folder(root, device) / file.path, file.content, file.path);
  }
  const fs::path verbs = root / "sys/class/infiniband_verbs";
  written &= write_file(verbs / "abi_version", "6");
  written &= write_file(verbs / kVerbsDevice / "ibdev", device);
  written &= write_file(verbs / kVerbsDevice / "abi_version", "1");
  written &= write_file(verbs / kVerbsDevice / "dev", "231:192");
  // Programs look whether it is a character device that they may read and write, no more.
  fs::create_directories(root / "dev/infiniband");
  fs::create_symlink("/dev/null", root / "dev/infiniband" / kVerbsDevice);
  written &= write_login_files(root, device, host.port_count) &&
             write_dapl_registry(root, device, host.port_count, "", true);
  const fs::path management = root / "sys/class/infiniband_mad";
  written &= write_file(management / "abi_version", "5");
  for (std::uint32_t port = 0; port < host.port_count; ++port) {
    const fs::path devices = root / "dev/infiniband";
    fs::create_symlink("/dev/null", devices / fmt::format("umad{}", port));
    if (port < issm_files.size()) {
      fs::create_symlink(issm_files[port], devices / fmt::format("issm{}", port));
    }
    for (const char* kind : {"umad", "issm"}) {
      const fs::path folder = management / fmt::format("{}{}", kind, port);
      written &= write_file(folder / "ibdev", device);
      written &= write_file(folder / "port", fmt::format("{}", port + 1));
    }
  }
  return written;
}

/// Puts a new folder in the place of an older one.
Result<void> write_folder(const std::string& folder, const protocol::HostDescription& host,
                          const std::vector<HostFile>& files,
                          const std::vector<std::string>& issm_files) {
  const std::string fresh = folder + ".new";
  fs::remove_all(fresh);
  if (!write_all(fresh, host, files, issm_files))
    return refuse(EIO, fmt::format("cannot write into {}: is its file system full?", fresh));
  if (renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) != 0 &&
      rename(fresh.c_str(), folder.c_str()) != 0) {
    return refuse_errno("cannot rename " + fresh);
  }
  fs::remove_all(fresh);
  return {};
}

}  // namespace

Result<void> HostView::show(const protocol::HostDescription& host, std::vector<HostFile> counters) {
  std::vector<HostFile> files = files_of(host);
  std::ranges::move(counters, std::back_inserter(files));
  try {
    const bool is_changed = has_same_paths(files) && write_changes(host, files);
    if (!is_changed) {
      auto written = write_folder(folder_, host, files, issm_files_);
      if (!written) return written;
    }
  } catch (const fs::filesystem_error& error) {
    return refuse(error.code().value(), error.what());
  }
  shown_ = std::move(files);
  return {};
}

std::string HostView::description_file() const {
  return device_folder(folder_, kDeviceName) / kDescriptionFile;
}

bool HostView::has_same_paths(const std::vector<HostFile>& files) const {
  return std::ranges::equal(files, shown_, {}, &HostFile::path, &HostFile::path);
}

/// A port's state is the first of its files and is written last: who waits for it finds the others.
bool HostView::write_changes(const protocol::HostDescription& host,
                             const std::vector<HostFile>& files) const {
  const fs::path device = device_folder(folder_, protocol::text_of(host.device));
  const fs::path fresh = fs::path(folder_) / "file.new";  // Outside of what readers list.
  for (std::size_t i = files.size(); i-- > 0;) {
    if (files[i] == shown_[i]) continue;
    if (!write_file(fresh, files[i].content, files[i].path)) return false;
    if (!replace_file(fresh, device / files[i].path)) return false;
  }
  return true;
}

}  // namespace verbatim::fabric
