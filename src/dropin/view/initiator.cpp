#include "dropin/view/initiator.h"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
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
  if (*at != 'n' || (at = skip_digits(at + 1)) == nullptr || *at != '\0') return Opened::nothing;
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

/// struct nvme_passthru_cmd, and the one with a result of 64 bits.
constexpr std::size_t kCommandBytes = 80, kAddressAt = 24, kLengthAt = 36;
constexpr std::size_t kResultAt = 68, kResult64At = 72;

struct Request {
  std::uint32_t number = 0;  // Of the ioctl: 0x41 of 'N'.
  std::uint32_t data_bytes = 0;
  unsigned char command[kCommandBytes]{};
};
struct Answer {
  int code = EIO;
  int result = 0;
  std::uint64_t value = 0;
} __attribute__((packed));

template <typename Number>
Number load(const unsigned char* from) {
  Number value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

bool exchange(int fd, Request& request, void* data, Answer& answer) {
  iovec out[] = {{&request, sizeof request}, {data, request.data_bytes}};
  msghdr message{};
  message.msg_iov = out;
  message.msg_iovlen = (request.command[0] & 1) != 0 ? 2 : 1;
  if (syscall(SYS_sendmsg, fd, &message, MSG_NOSIGNAL) < 0) return false;
  iovec in[] = {{&answer, sizeof answer}, {data, request.data_bytes}};
  message.msg_iov = in;
  message.msg_iovlen = (request.command[0] & 2) != 0 ? 2 : 1;
  long got = 0;
  do {
    got = syscall(SYS_recvmsg, fd, &message, 0);
  } while (got < 0 && errno == EINTR);
  return got >= static_cast<long>(sizeof answer.code);
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

int control_device(int fd, unsigned long request, void* argument) {
  constexpr std::uint32_t kDataMax = 64 << 10;
  const std::size_t size = _IOC_SIZE(request);
  if (_IOC_TYPE(request) != 'N' || size > kCommandBytes) return errno = ENOTTY, -1;
  Request asked{};
  asked.number = _IOC_NR(request);
  auto* const command = static_cast<unsigned char*>(argument);
  void* data = nullptr;
  if (size != 0) {
    std::memcpy(asked.command, command, size);
    data = reinterpret_cast<void*>(load<std::uint64_t>(command + kAddressAt));
    asked.data_bytes = load<std::uint32_t>(command + kLengthAt);
  }
  if (asked.data_bytes > kDataMax) return errno = EINVAL, -1;
  Answer answer;
  if (!exchange(fd, asked, data, answer)) return errno = EIO, -1;
  if (answer.code != 0) return errno = answer.code, -1;
  if (size == kCommandBytes) std::memcpy(command + kResult64At, &answer.value, 8);
  if (size > kResultAt && size < kCommandBytes) std::memcpy(command + kResultAt, &answer.value, 4);
  return answer.result;
}

void mark_device(Opened kind, mode_t& mode) {
  constexpr mode_t kRights = 0600;
  if (kind == Opened::character_device) mode = S_IFCHR | kRights;
  if (kind == Opened::block_device) mode = S_IFBLK | kRights;
}

}  // namespace verbatim::view
