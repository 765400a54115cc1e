#include "dropin/rspreload/inherited.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/os/passed_descriptors.h"
#include "dropin/rspreload/environment.h"
#include "dropin/rspreload/heirs/heir.h"
#include "dropin/rspreload/heirs/owner.h"

namespace verbatim::rspreload {
namespace {

// Values of TCP_SYNCNT, which is for sockets that connect. An accepted socket has its listener's.
constexpr int kAcceptingSide = 9;
constexpr int kConnectingSide = 10;

void mark(int fd, int value) {
  const Inside calls;
  setsockopt(fd, IPPROTO_TCP, TCP_SYNCNT, &value, sizeof value);
}

int option_of(int fd, int level, int option) {
  int value = 0;
  socklen_t length = sizeof value;
  return getsockopt(fd, level, option, &value, &length) == 0 ? value : -1;
}

Kind kind_by_mark(int fd) {
  const Inside calls;
  const int side = option_of(fd, IPPROTO_TCP, TCP_SYNCNT);
  if (side == kConnectingSide) return Kind::active;
  if (side != kAcceptingSide) return Kind::other;
  return option_of(fd, SOL_SOCKET, SO_ACCEPTCONN) == 1 ? Kind::listening : Kind::passive;
}

bool enter(int fd) {
  const Kind kind = kind_by_mark(fd);
  return kind != Kind::other && set_kind(fd, kind);
}

ino_t inode_of(int fd) {
  const Inside calls;
  struct stat status{};
  return fstat(fd, &status) == 0 ? status.st_ino : 0;
}

/// What this program was started with.
[[gnu::constructor]] void enter_all() {
  if (!starts_as_tcp(SOCK_STREAM, 0)) return;
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return;
  std::vector<int> entered;
  while (const dirent* const entry = readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    if (entry->d_name[0] == '.' || !enter(fd)) continue;
    const auto is_same = [fd](int other) { return inode_of(other) == inode_of(fd); };
    const auto other = std::ranges::find_if(entered, is_same);
    if (other != entered.end() && is_pending(kind_of(fd))) add_twin(*other, fd);
    entered.push_back(fd);
  }
  closedir(folder);
}

}  // namespace

void mark_listening(int fd) { mark(fd, kAcceptingSide); }
void mark_active(int fd) { mark(fd, kConnectingSide); }

void become_active(int fd) {
  if (replace_kind(fd, Kind::fresh, Kind::active) ||
      replace_kind(fd, Kind::connecting, Kind::active)) {
    mark_active(fd);
  }
}

void receive_numbers(const msghdr& message) {
  if (message.msg_controllen == 0 || !starts_as_tcp(SOCK_STREAM, 0)) return;
  for_each_descriptor(message, enter);
}

bool may_send_numbers(const msghdr& message) {
  bool may = true;
  for_each_descriptor(message, [&may](int fd) {
    adopt_if_inherited(fd);
    const Kind kind = kind_of(fd);
    if (kind == Kind::rsocket && share(fd)) return;
    const bool is_in_use =
        kind == Kind::rsocket || kind == Kind::converting || awaited_of(first_of(fd)).arrival >= 0;
    if (is_in_use) may = false;
  });
  if (may) return true;
  log(LogLevel::warn,
      "rspreload: only streams that are connected can be passed to another process");
  errno = EOPNOTSUPP;
  return false;
}

}  // namespace verbatim::rspreload
