#include <array>
#include <string_view>

#include <fmt/format.h>

#include "cli/doctor/checks.h"

/// Checks limits on memory, descriptors and processes.
namespace verbatim::cli::doctor {
namespace {

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;
/// A program's arena (arena/arena.h) is a sparse file that is mapped as a whole; so are those of
/// its peers.
constexpr std::uint64_t kArenaBytes = std::uint64_t{64} << 30;
/// Least address space: the smallest mapping of an arena, and the program's own.
constexpr std::uint64_t kAddressSpaceMin = std::uint64_t{5} << 30;
/// Registered memory is moved into one sparse file (region/adoption/memory_file.h).
constexpr std::uint64_t kMemoryFileBytes = std::uint64_t{1} << 62;
/// An agent needs this many for itself and its first eight slots, as does a program: with fewer
/// they cannot start.
constexpr std::uint64_t kOpenFilesMin = 64;
/// Enough for several dozen programs.
constexpr std::uint64_t kOpenFilesGood = 1024;
constexpr std::uint64_t kFreeMemoryGood = 256 * kMebibyte;
constexpr std::uint64_t kFreeMemoryMin = 16 * kMebibyte;
/// A program has one background thread; its agent is a process.
constexpr std::uint64_t kTasksNeeded = 4;

}  // namespace

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits{"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 10 * 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return fmt::format("{} {}", bytes, kUnits[unit]);
}

Findings check_address_space(const Machine& machine) {
  constexpr const char* kSubject = "address space";
  if (!machine.address_space) return {ok(kSubject, "unlimited")};
  const std::string text = fmt::format(
      "limited to {} (ulimit -v); each program maps {} for itself "
      "and for each peer on this machine, mostly untouched",
      size_text(*machine.address_space), size_text(kArenaBytes));
  constexpr const char* kAdvice = "lift the limit: ulimit -v unlimited";
  if (*machine.address_space < kAddressSpaceMin) {
    return {fault(kSubject, text + ": no program can open the device", kAdvice)};
  }
  if (*machine.address_space < 2 * kArenaBytes) {
    return {note(kSubject, text + ": with less, programs take the wire", kAdvice)};
  }
  return {note(kSubject, text, kAdvice)};
}

Findings check_file_size(const Machine& machine) {
  constexpr const char* kSubject = "file size";
  if (!machine.file_size || *machine.file_size >= kMemoryFileBytes) {
    return {ok(kSubject, "unlimited")};
  }
  constexpr const char* kAdvice = "lift the limit: ulimit -f unlimited";
  const std::string limit = fmt::format("limited to {} (ulimit -f)", size_text(*machine.file_size));
  if (*machine.file_size < kArenaBytes) {
    return {fault(kSubject, limit + ": no program can open the device, which needs a sparse file",
                  kAdvice)};
  }
  return {note(kSubject,
               limit + ": the direct path needs a larger sparse file, so that programs "
                       "take the wire everywhere",
               kAdvice)};
}

Findings check_open_files(const Machine& machine) {
  constexpr const char* kSubject = "open files";
  if (!machine.open_files) return {ok(kSubject, "unlimited")};
  const std::uint64_t limit = *machine.open_files;
  const std::string text = fmt::format("at most {} descriptors a process (ulimit -Hn)", limit);
  constexpr const char* kAdvice =
      "start the node's first program with a higher limit: ulimit -n 4096 (as root, or in "
      "/etc/security/limits.conf, if the hard limit is lower)";
  if (limit < kOpenFilesMin) {
    return {fault(kSubject, text + ", which is too few for an agent and its programs", kAdvice)};
  }
  if (limit < kOpenFilesGood) {
    return {note(kSubject,
                 fmt::format("{}: an agent needs 5 for each program of its node, and one for each "
                             "address and program",
                             text),
                 kAdvice)};
  }
  if (machine.open_files_soft && *machine.open_files_soft < kOpenFilesMin) {
    return {note(kSubject,
                 fmt::format("programs may have {} (ulimit -n); agents raise theirs to {}",
                             *machine.open_files_soft, limit),
                 "raise it before a program with many connections: ulimit -n 4096")};
  }
  return {ok(kSubject, text)};
}

Findings check_processes(const Machine& machine) {
  constexpr const char* kSubject = "processes";
  Findings findings;
  const auto is_short = [](const Quota& quota) {
    return quota.limit && quota.used + kTasksNeeded > *quota.limit;
  };
  const Quota user{machine.processes, machine.processes_of_user};
  // The kernel does not limit root.
  if (machine.uid != 0 && is_short(user)) {
    findings.push_back(
        fault(kSubject,
              fmt::format("user {} has {} threads and may have {} (ulimit -u): an agent and a "
                          "program's background thread find no room",
                          machine.user, user.used, *user.limit),
              "end some programs, or raise the limit: ulimit -u"));
  }
  if (is_short(machine.group_tasks)) {
    findings.push_back(
        fault(kSubject,
              fmt::format("the control group has {} tasks and may have {} (pids.max)",
                          machine.group_tasks.used, *machine.group_tasks.limit),
              "raise the limit of the container or unit (docker run --pids-limit, TasksMax=)"));
  }
  if (findings.empty()) findings.push_back(ok(kSubject, "room for more"));
  return findings;
}

Findings check_memory(const Machine& machine) {
  constexpr const char* kSubject = "memory";
  std::uint64_t free = machine.free_memory_bytes;
  std::string whose = "of this machine";
  const Quota& group = machine.group_memory;
  if (group.limit) {
    const std::uint64_t left = *group.limit > group.used ? *group.limit - group.used : 0;
    if (left < free) {
      free = left;
      whose = fmt::format("of the control group's {} (memory.max)", size_text(*group.limit));
    }
  }
  const std::string text = fmt::format("{} {} free", size_text(free), whose);
  constexpr const char* kAdvice =
      "end some programs, or give the container more memory; queues and registered memory count "
      "as shared memory of the program";
  if (free < kFreeMemoryMin) return {fault(kSubject, text, kAdvice)};
  if (free < kFreeMemoryGood) return {note(kSubject, text, kAdvice)};
  return {ok(kSubject, text)};
}

Findings check_locked_memory(const Machine& machine) {
  constexpr const char* kSubject = "locked memory";
  if (!machine.locked_memory) return {ok(kSubject, "unlimited")};
  if (machine.node && machine.node->enforces_memlock) {
    return {
        note(kSubject,
             fmt::format("node {} enforces ulimit -l, as a kernel does: a program may register {}",
                         machine.node->name, size_text(*machine.locked_memory)),
             "raise it (ulimit -l unlimited), or say 'memlock = no' in the node's file: "
             "'verbatim config' shows it")};
  }
  return {ok(kSubject, fmt::format("limited to {} (ulimit -l), which Verbatim does not ask for: "
                                   "registered memory is not locked. A real card does",
                                   size_text(*machine.locked_memory)))};
}

Findings check_shared_memory_folder(const Machine& machine) {
  constexpr const char* kSubject = "/dev/shm";
  constexpr const char* kOwn = "Verbatim itself does not use it, but Open MPI and UCX do";
  const SharedMemoryFolder& folder = machine.shared_memory;
  if (!folder.is_present) {
    return {note(kSubject, fmt::format("is missing. {}", kOwn),
                 "as root: mkdir /dev/shm && mount -t tmpfs -o mode=1777 shm /dev/shm")};
  }
  if (!folder.is_writable) {
    return {note(kSubject, fmt::format("user {} may not write there. {}", machine.user, kOwn),
                 "as root: mount -o remount,rw /dev/shm && chmod 1777 /dev/shm")};
  }
  if (!folder.is_tmpfs) {
    return {note(kSubject, fmt::format("is no tmpfs but lies on a disk, which is slow. {}", kOwn),
                 "as root: mount -t tmpfs -o mode=1777 shm /dev/shm")};
  }
  constexpr std::uint64_t kRoomGood = 128 * kMebibyte;
  if (folder.free_bytes < kRoomGood) {
    return {note(kSubject, fmt::format("{} are free. {}", size_text(folder.free_bytes), kOwn),
                 "give it more: docker run --shm-size=1g, or as root: "
                 "mount -o remount,size=1g /dev/shm")};
  }
  return {ok(kSubject, fmt::format("tmpfs, writable, {} free", size_text(folder.free_bytes)))};
}

}  // namespace verbatim::cli::doctor
