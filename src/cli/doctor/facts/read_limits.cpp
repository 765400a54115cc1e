#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cli/doctor/facts/machine.h"

namespace verbatim::cli::doctor {
namespace {

namespace fs = std::filesystem;

Limit number_in(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failure == std::errc() ? Limit(number) : std::nullopt;
}

Limit limit_of(rlim_t value) { return value == RLIM_INFINITY ? std::nullopt : Limit(value); }

rlimit limits_of(__rlimit_resource resource) {
  rlimit limit{};
  getrlimit(resource, &limit);
  return limit;
}

/// Returns the value in a line "NAME: VALUE kB" of a /proc file.
std::uint64_t field_of(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name + ":")) continue;
    std::uint64_t value = 0;
    std::istringstream(line.substr(name.size() + 1)) >> value;
    return value;
  }
  return 0;
}

/// Counts the user's threads, as RLIMIT_NPROC does.
std::uint64_t threads_of(uid_t uid) {
  std::uint64_t threads = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (!std::ranges::all_of(name, [](unsigned char c) { return isdigit(c) != 0; })) continue;
    const std::string status = entry.path() / "status";
    if (field_of(status, "Uid") == uid) threads += field_of(status, "Threads");
  }
  return threads;
}

/// Returns the tightest limit from the process's control group up to the root; nothing under
/// version 1, where the folder can be anywhere.
Quota read_quota(const std::string& limit_file, const std::string& used_file) {
  Quota tightest;
  std::string line = first_line("/proc/self/cgroup");
  if (!line.starts_with("0::")) return tightest;
  for (fs::path group = line.substr(3);; group = group.parent_path()) {
    const std::string folder = "/sys/fs/cgroup" + (group == "/" ? "" : group.string());
    const Limit limit = number_in(first_line(fmt::format("{}/{}", folder, limit_file)));
    const Limit used = number_in(first_line(fmt::format("{}/{}", folder, used_file)));
    const auto room = [](const Quota& quota) {
      return *quota.limit - std::min(*quota.limit, quota.used);
    };
    const Quota own{limit, used.value_or(0)};
    if (limit && (!tightest.limit || room(own) < room(tightest))) tightest = own;
    if (group == "/" || group.empty()) return tightest;
  }
}

SharedMemoryFolder read_shared_memory() {
  SharedMemoryFolder folder;
  struct statfs info{};
  if (statfs("/dev/shm", &info) != 0) return folder;
  folder.is_present = true;
  folder.is_tmpfs = info.f_type == TMPFS_MAGIC;
  folder.is_writable = access("/dev/shm", W_OK | X_OK) == 0;
  folder.free_bytes = info.f_bavail * static_cast<std::uint64_t>(info.f_bsize);
  // A tmpfs without a size reports no blocks.
  if (folder.is_tmpfs && info.f_blocks == 0) folder.free_bytes = ~std::uint64_t{0} >> 1;
  return folder;
}

}  // namespace

void read_limits(Machine& machine) {
  constexpr std::uint64_t kKibibyte = 1024;
  machine.address_space = limit_of(limits_of(RLIMIT_AS).rlim_cur);
  machine.file_size = limit_of(limits_of(RLIMIT_FSIZE).rlim_cur);
  machine.open_files = limit_of(limits_of(RLIMIT_NOFILE).rlim_max);
  machine.open_files_soft = limit_of(limits_of(RLIMIT_NOFILE).rlim_cur);
  machine.processes = limit_of(limits_of(RLIMIT_NPROC).rlim_cur);
  machine.locked_memory = limit_of(limits_of(RLIMIT_MEMLOCK).rlim_cur);
  machine.processes_of_user = machine.processes ? threads_of(getuid()) : 0;
  machine.free_memory_bytes = field_of("/proc/meminfo", "MemAvailable") * kKibibyte;
  machine.group_memory = read_quota("memory.max", "memory.current");
  machine.group_tasks = read_quota("pids.max", "pids.current");
  machine.shared_memory = read_shared_memory();
  const Limit scope = number_in(first_line("/proc/sys/kernel/yama/ptrace_scope"));
  machine.ptrace_scope = static_cast<int>(scope.value_or(0));
  machine.receive_buffer_max = number_in(first_line("/proc/sys/net/core/rmem_max")).value_or(0);
  constexpr const char* kTracking = "/proc/sys/net/netfilter/nf_conntrack_";
  machine.tracked_connections = {
      number_in(first_line(fmt::format("{}max", kTracking))),
      number_in(first_line(fmt::format("{}count", kTracking))).value_or(0)};
}

}  // namespace verbatim::cli::doctor
