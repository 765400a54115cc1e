#include "agent/identity/view.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "agent/protocol/device_files.h"
#include "base/files/dapl_registry.h"
#include "base/files/login_files.h"
#include "base/files/replace_file.h"

namespace verbatim::agent {
namespace {

namespace fs = std::filesystem;

/// The device in /sys's device tree; links in the class folders refer to it.
constexpr const char* kDevice = "sys/devices/virtual/verbatim";

/// Nobody writes into them: nothing would come of it.
constexpr auto kReadOnly = fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read;

/// Returns false if the file cannot be written; the caller checks all results together.
bool write_file(const fs::path& path, const std::string& content) {
  fs::create_directories(path.parent_path());
  std::ofstream file(path);
  file << content << '\n';
  fs::permissions(path, kReadOnly);
  return bool(file.flush());
}

void link(const fs::path& path, const fs::path& target) {
  fs::create_directories(path.parent_path());
  fs::create_symlink(target, path);
}

/// Returns a mask with one bit per CPU: groups of 32, highest first.
std::string processor_mask() {
  const auto processors = static_cast<unsigned>(std::max(1L, sysconf(_SC_NPROCESSORS_CONF)));
  std::string mask;
  for (unsigned first = (processors - 1) / 32 * 32;; first -= 32) {
    const unsigned here = std::min(32u, processors - first);
    mask += fmt::format("{}{:08x}", mask.empty() ? "" : ",", ~0u >> (32 - here));
    if (first == 0) return mask;
  }
}

bool write_device(const fs::path& root, const Node& node, const PortTotals& totals) {
  const fs::path device = root / kDevice;
  const fs::path adapter = device / "infiniband" / node.device.view();
  const fs::path uverbs = device / "infiniband_verbs" / kCharacterDeviceName;
  const auto processors = sysconf(_SC_NPROCESSORS_CONF);
  bool written = write_file(device / "numa_node", "-1");  // As where the kernel knows no node.
  written &= write_file(device / "local_cpus", processor_mask());
  written &= write_file(device / "local_cpulist",
                        processors > 1 ? fmt::format("0-{}", processors - 1) : "0");
  for (const auto& file : device_files(node)) {
    written &= write_file(adapter / file.path, file.content);
  }
  for (const auto& file : counter_files(totals)) {
    written &= write_file(adapter / file.path, file.content);
  }
  for (const auto& file : character_device_files(node)) {
    written &= write_file(uverbs / file.path, file.content);
  }
  fs::create_directories(device / "drivers/verbatim");
  link(device / "driver", "drivers/verbatim");
  link(device / "net" / node.interface.view(), fs::path("/sys/class/net") / node.interface.view());
  link(adapter / "device", "../..");
  link(uverbs / "device", "../..");
  return written;
}

bool write_classes(const fs::path& root, const Node& node) {
  const std::string_view name = node.device;
  const fs::path up = fs::path("../../..") / kDevice;
  link(root / "sys/class/infiniband" / name, up / "infiniband" / name);
  link(root / "sys/class/infiniband_verbs" / kCharacterDeviceName,
       up / "infiniband_verbs" / kCharacterDeviceName);
  // Programs only check that it is a character device which they may read and write; their verbs
  // come from our library. There is no rdma_cm file, because programs hang on one that does not
  // answer.
  link(root / "dev/infiniband" / kCharacterDeviceName, "/dev/null");
  if (!write_login_files(root, name, 1) ||
      !write_dapl_registry(root, name, 1, node.addresses.front().ip_text(), !node.is_iwarp())) {
    return false;
  }
  return write_file(root / "sys/class/infiniband_verbs/abi_version", "6");
}

}  // namespace

Result<void> write_view(const std::string& folder, const Node& node, const PortTotals& totals) {
  const std::string fresh = folder + ".new";
  try {
    fs::remove_all(fresh);
    if (!write_device(fresh, node, totals) || !write_classes(fresh, node)) {
      return refuse(EIO, fmt::format("cannot write into {}", fresh));
    }
  } catch (const fs::filesystem_error& error) {
    return refuse(error.code().value(), error.what());
  }
  if (renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) != 0 &&
      rename(fresh.c_str(), folder.c_str()) != 0) {
    return refuse_errno("cannot rename " + fresh);
  }
  remove_view(fresh);
  return {};
}

Result<void> link_view(const std::string& view, const std::string& target) {
  const std::string fresh = view + ".new";
  remove_view(fresh);
  if (symlink(target.c_str(), fresh.c_str()) != 0 || rename(fresh.c_str(), view.c_str()) != 0) {
    return refuse_errno("cannot link " + view);
  }
  return {};
}

void show_counters(const std::string& folder, const Node& node, const PortTotals& before,
                   const PortTotals& totals) {
  const fs::path adapter = fs::path(folder) / kDevice / "infiniband" / node.device.view();
  const fs::path fresh =
      fs::path(folder) / "counter.new";  // Outside of the folder that readers list.
  std::error_code ignored;
  const auto files = counter_files(totals), shown = counter_files(before);
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i].content == shown[i].content) continue;
    std::ofstream out(fresh);
    out << files[i].content << '\n';
    out.close();
    fs::permissions(fresh, kReadOnly, ignored);
    if (out) replace_file(fresh, adapter / files[i].path);
  }
}

void remove_view(const std::string& folder) {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

}  // namespace verbatim::agent
