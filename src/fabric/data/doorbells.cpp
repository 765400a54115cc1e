#include "fabric/data/doorbells.h"

#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace verbatim::fabric {
namespace {

sockaddr_un address_of(std::string_view path) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

Result<UniqueFd> make_socket() {
  UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return refuse_errno("a doorbell's socket");
  return fd;
}

}  // namespace

Result<Doorbells> Doorbells::open(const std::string& folder) {
  Doorbells doorbells;
  doorbells.folder_ = folder;
  const std::string longest = doorbells.path_of(std::numeric_limits<std::uint32_t>::max());
  if (longest.size() >= sizeof(sockaddr_un::sun_path)) {
    doorbells.folder_fd_.reset(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!doorbells.folder_fd_) return refuse_errno(folder);
    doorbells.folder_ = fmt::format("/proc/self/fd/{}", doorbells.folder_fd_.get());
  }
  auto sender = make_socket();
  if (!sender) return std::unexpected(std::move(sender.error()));
  doorbells.sender_ = std::move(*sender);
  return doorbells;
}

std::string Doorbells::path_of(std::uint32_t end) const {
  return fmt::format("{}/bell-{}", folder_, end);
}

Result<UniqueFd> Doorbells::listen(std::uint32_t end) const {
  auto fd = make_socket();
  if (!fd) return fd;
  const std::string path = path_of(end);
  unlink(path.c_str());
  const sockaddr_un address = address_of(path);
  if (bind(fd->get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return refuse_errno(path);
  }
  return fd;
}

void Doorbells::ring(std::uint32_t end) const noexcept {
  std::array<char, sizeof(sockaddr_un::sun_path)> path{};
  fmt::format_to_n(path.data(), path.size() - 1, "{}/bell-{}", folder_, end);
  const sockaddr_un address = address_of(path.data());
  // A full socket is readable already; one that is missing belongs to a program that has ended.
  sendto(sender_.get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL,
         reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

void Doorbells::silence(int listener) noexcept {
  std::array<char, 8> ignored;
  while (recv(listener, ignored.data(), ignored.size(), MSG_DONTWAIT) > 0) {
  }
}

void Doorbells::remove(std::uint32_t end) const noexcept { unlink(path_of(end).c_str()); }

}  // namespace verbatim::fabric
