#include "agent/protocol/claims.h"

#include <array>

#include <fcntl.h>

namespace verbatim::agent {
namespace {

std::string owner_in(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 64> name{};
  const ssize_t length = read(fd.get(), name.data(), name.size());
  return length > 0 ? std::string(name.data(), static_cast<std::size_t>(length)) : "(unknown)";
}

}  // namespace

Result<void> Claims::take(const std::string& what) {
  auto lock = LockFile::take(folder_.claim(what), 0);
  if (!lock) return std::unexpected(lock.error());
  if (ftruncate(lock->fd(), 0) != 0 ||
      pwrite(lock->fd(), node_.data(), node_.size(), 0) != static_cast<ssize_t>(node_.size())) {
    return refuse_errno("cannot write " + folder_.claim(what));
  }
  held_.push_back(std::move(*lock));
  return {};
}

Result<void> Claims::take_address(const SocketAddress& address) {
  auto taken = take(address.ip_text());
  if (taken || taken.error().code != EWOULDBLOCK) return taken;
  return refuse(EADDRINUSE, fmt::format("{} is already the address of node '{}'", address.ip_text(),
                                        owner_in(folder_.claim(address.ip_text()))));
}

bool Claims::take_interface(const std::string& name) { return take(name).has_value(); }

bool Claims::take_new_addresses(const std::string& interface) {
  if (!has_new_addresses_) has_new_addresses_ = take(interface + "-new").has_value();
  return has_new_addresses_;
}

void Claims::release_last() {
  held_.back().remove();
  held_.pop_back();
}

Result<std::string> node_with_address(const RuntimeFolder& folder, const SocketAddress& address) {
  const std::string path = folder.claim(address.ip_text());
  if (access(path.c_str(), R_OK) != 0) return refuse_errno(address.ip_text());
  return owner_in(path);
}

void Claims::release() {
  for (LockFile& lock : held_) lock.remove();
  held_.clear();
}

}  // namespace verbatim::agent
