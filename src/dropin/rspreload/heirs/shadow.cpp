#include "dropin/rspreload/heirs/shadow.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <dirent.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "dropin/rspreload/fd_table.h"

// Calls in this file go to libc, by `Inside`.
namespace verbatim::rspreload {
namespace {

constexpr std::string_view kName("\0verbatim stream ", 17);  // Abstract: it is in no folder.

/// Of a shadow's owner's end: its name, both of the connection's, and what nobody else has.
struct Address {
  std::array<char, kName.size()> name;
  std::array<sockaddr_in6, 2> names;  // Local, peer; or those of IPv4.
  std::array<std::byte, 8> unique;
};

std::optional<UniqueFd> bound_to(UniqueFd end, const Names& names) {
  Address address{};
  std::ranges::copy(kName, address.name.begin());
  std::memcpy(&address.names[0], &names.local, sizeof address.names[0]);
  std::memcpy(&address.names[1], &names.peer, sizeof address.names[1]);
  if (getrandom(address.unique.data(), address.unique.size(), 0) < 0) return std::nullopt;
  sockaddr_un place{};
  place.sun_family = AF_UNIX;
  static_assert(sizeof address <= sizeof place.sun_path);
  std::memcpy(place.sun_path, &address, sizeof address);
  const socklen_t length = offsetof(sockaddr_un, sun_path) + sizeof address;
  if (bind(end.get(), reinterpret_cast<const sockaddr*>(&place), length) != 0) return std::nullopt;
  return end;
}

}  // namespace

std::optional<Shadow> make_shadow(const Names& names) {
  std::array<int, 2> ends;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return std::nullopt;
  Shadow shadow{.programs = UniqueFd(ends[0]), .owners = UniqueFd(ends[1])};
  auto bound = bound_to(std::move(shadow.owners), names);
  const char guard = 0;
  if (!bound || send(ends[0], &guard, kGuardBytes, 0) != kGuardBytes) return std::nullopt;
  shadow.owners = std::move(*bound);
  return shadow;
}

UniqueFd make_lost() {
  auto shadow = make_shadow({});
  return shadow ? std::move(shadow->programs) : UniqueFd();
}

std::optional<Names> names_of_shadow(int fd) {
  const Inside mark;
  sockaddr_un place{};
  socklen_t length = sizeof place;
  Address address{};
  constexpr socklen_t kLength = offsetof(sockaddr_un, sun_path) + sizeof address;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&place), &length) != 0) return std::nullopt;
  if (place.sun_family != AF_UNIX || length != kLength) return std::nullopt;
  std::memcpy(&address, place.sun_path, sizeof address);
  if (!std::ranges::equal(address.name, kName)) return std::nullopt;
  Names names{};
  std::memcpy(&names.local, &address.names[0], sizeof address.names[0]);
  std::memcpy(&names.peer, &address.names[1], sizeof address.names[1]);
  return names;
}

void close_shadows() {
  DIR* const folder = opendir("/proc/self/fd");
  while (const dirent* const entry = folder != nullptr ? readdir(folder) : nullptr) {
    const int fd = std::atoi(entry->d_name);
    if (entry->d_name[0] == '.' || fd == dirfd(folder)) continue;
    if (names_of_shadow(fd)) close(fd);
  }
  if (folder != nullptr) closedir(folder);
}

bool shadow_option(int fd, int level, int option, void* value, socklen_t* length) {
  const bool is_general = level == SOL_SOCKET && (option == SO_DOMAIN || option == SO_PROTOCOL);
  if (!is_general && level != IPPROTO_TCP && level != IPPROTO_IP && level != IPPROTO_IPV6) {
    return false;
  }
  const auto names = names_of_shadow(fd);
  if (!names) return false;
  if (length == nullptr) return true;
  const int answer = !is_general           ? 0
                     : option == SO_DOMAIN ? names->local.ss_family
                                           : int{IPPROTO_TCP};
  *length = std::min<socklen_t>(*length, sizeof answer);
  std::memcpy(value, &answer, *length);
  return true;
}

}  // namespace verbatim::rspreload
