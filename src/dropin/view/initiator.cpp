#include "dropin/view/initiator.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbatim::view {
namespace {

constexpr const char* kFabrics = "/dev/nvme-fabrics";
/// Where files that may be written are the daemon's.
constexpr const char* kWritten[] = {"/sys/class/infiniband_srp", "/sys/class/srp_remote_ports",
                                    "/sys/class/nvme"};

const char* skip_digits(const char* at) {
  const char* const from = at;
  while (*at >= '0' && *at <= '9') ++at;
  return at == from ? nullptr : at;
}

/// nvme0 and ng0n1 are character devices, nvme0n1 is a block device.
Opened device_of(const char* name) {
  const bool is_generic = std::strncmp(name, "ng", 2) == 0;
  if (!is_generic && std::strncmp(name, "nvme", 4) != 0) return Opened::nothing;
  const char* at = skip_digits(name + (is_generic ? 2 : 4));
  if (at == nullptr) return Opened::nothing;
  if (*at == '\0') return is_generic ? Opened::nothing : Opened::character_device;
  if (*at != 'n') return Opened::nothing;
  at = skip_digits(at + 1);
  if (at == nullptr || *at != '\0') return Opened::nothing;
  return is_generic ? Opened::character_device : Opened::block_device;
}

/// Starts the daemon: `verbatim disk up`, which returns when it serves.
bool start_daemon() {
  const char* const program = std::getenv("VERBATIM_PROGRAM");
  if (program == nullptr) return false;
  char name[] = "verbatim", group[] = "disk", command[] = "up";
  char* const words[] = {name, group, command, nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, program, nullptr, nullptr, words, environ) != 0) return false;
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return true;  // If it has failed, its files are not there.
}

}  // namespace

Opened kind_of_path(const char* path, bool writes) {
  if (path == nullptr || *path != '/' || initiator_root() == nullptr) return Opened::nothing;
  if (std::strcmp(path, kFabrics) == 0) return writes ? Opened::attribute : Opened::nothing;
  if (std::strncmp(path, "/dev/", 5) == 0) {
    const Opened kind = device_of(path + 5);
    return kind != Opened::nothing && Redirected(path).is_ours() ? kind : Opened::nothing;
  }
  if (!writes) return Opened::nothing;
  for (const char* const folder : kWritten) {
    const int before = errno;
    const bool is_one = lies_in(path, folder) && !refuses_writing(Redirected(path));
    errno = before;
    if (is_one) return Opened::attribute;
  }
  return Opened::nothing;
}

int open_of_initiator(const char* path, int flags, Opened kind) {
  const int fd = open_at(Daemon::initiator, path, flags, kind);
  if (fd >= 0 || errno != ENOENT || !start_daemon()) return fd;
  return open_at(Daemon::initiator, path, flags, kind);
}

void mark_device(Opened kind, mode_t& mode) {
  constexpr mode_t kRights = 0600;
  if (kind == Opened::character_device) mode = S_IFCHR | kRights;
  if (kind == Opened::block_device) mode = S_IFBLK | kRights;
}

}  // namespace verbatim::view
