#include "ulp/rpcrdma/gateway/doorkeeper.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/net/address.h"

namespace verbatim::ulp::rpcrdma {
namespace {

bool write_file(const char* path, const std::string& text) {
  const UniqueFd file(open(path, O_WRONLY | O_CLOEXEC));
  return file && write(file.get(), text.data(), text.size()) == std::ssize(text);
}

/// Without root it takes a user namespace, in which this user is who it is outside. The rights that
/// it has there end with exec.
bool enter_own_network() {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (user != 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0 || !write_file("/proc/self/setgroups", "deny") ||
        !write_file("/proc/self/uid_map", fmt::format("{0} {0} 1", user)) ||
        !write_file("/proc/self/gid_map", fmt::format("{0} {0} 1", group)))
      return false;
  } else if (unshare(CLONE_NEWNET) != 0) {
    return false;
  }
  const UniqueFd any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq loopback{.ifr_ifrn = {"lo"}, .ifr_ifru = {}};
  loopback.ifr_flags = IFF_UP;
  return ioctl(any.get(), SIOCSIFFLAGS, &loopback) == 0;
}

UniqueFd start(char** command) {
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    execv(command[0], command);
    _exit(127);
  }
  return UniqueFd(process < 0 ? -1 : static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
}

Result<void> tell(service::Channel& door, DoorMessage type, int code, std::span<const int> beside) {
  return door.send_and_wait(static_cast<std::uint16_t>(type), std::as_bytes(std::span(&code, 1)),
                            beside);
}

Result<void> answer(service::Channel& door, const SocketAddress& server) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const bool is_made =
      socket && (connect(socket.get(), server.data(), server.size()) == 0 || errno == EINPROGRESS);
  const int code = is_made ? 0 : errno, fd = socket.get();
  return tell(door, DoorMessage::answer, code, {&fd, is_made ? 1u : 0u});
}

/// Until either side has ended.
void serve(service::Channel& door, const UniqueFd& program, const SocketAddress& server) {
  for (;;) {
    pollfd watched[] = {{door.fd(), POLLIN, 0}, {program.get(), POLLIN, 0}};
    if (poll(watched, 2, -1) < 0 && errno != EINTR) return;
    if (watched[1].revents != 0) return;
    if (watched[0].revents != 0 && (!door.receive() || !answer(door, server))) return;
  }
}

}  // namespace

int run_nfs_doorkeeper(int argc, char** argv) {
  if (argc < 4) return fmt::print(stderr, "'verbatim-ulpd nfs-serve' starts it\n"), 2;
  service::Channel door(UniqueFd(kDoorDescriptor), kDoorProtocol);
  fcntl(door.fd(), F_SETFD, FD_CLOEXEC);
  prctl(PR_SET_NAME, "nfs-doorkeeper");
  const bool has_network = argv[1] != std::string_view("own") || enter_own_network();
  const int code = has_network ? 0 : errno;
  if (!tell(door, DoorMessage::report, code, {}) || !has_network) return 1;
  const UniqueFd program = start(argv + 3);
  if (!program) return 1;
  const auto port = static_cast<std::uint16_t>(std::atoi(argv[2]));
  serve(door, program, SocketAddress::ipv4({127, 0, 0, 1}, port));
  return 1;
}

}  // namespace verbatim::ulp::rpcrdma
