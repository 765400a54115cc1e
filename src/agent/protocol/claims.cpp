#include "agent/protocol/claims.h"

#include <array>

#include <fcntl.h>

#include "agent/protocol/protocol.h"

namespace verbatim::agent {
namespace {

std::string owner_in(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 64> name{};
  const ssize_t length = read(fd.get(), name.data(), name.size());
  return length > 0 ? std::string(name.data(), static_cast<std::size_t>(length)) : "(unknown)";
}

/// An agent takes milliseconds to begin and to leave.
constexpr TimeNs kLeavingTime = kSecond;

/// Asks the agent of a node to leave. Returns false if it stays; true if it leaves, or does not
/// listen: it is about to leave, or has only begun.
bool gives_way(const service::RuntimeFolder& folder, const std::string& node, TimeNs patience) {
  const auto connection = service::connect_to(folder.socket(node), patience);
  if (!connection) {
    return connection.error().code == ENOENT || connection.error().code == ECONNREFUSED;
  }
  if (!send(connection->get(), GiveWay{})) return true;
  const auto answer = receive(connection->get());
  return !answer && answer.error().code == kClosed;
}

}  // namespace

Result<void> Claims::take(const std::string& what, IdleOwner owner) {
  const std::string path = folder_.claim(what);
  auto lock = service::LockFile::take(path, 0);
  const auto is_held = [&lock] { return !lock && lock.error().code == EWOULDBLOCK; };
  for (const TimeNs deadline = monotonic_now() + kLeavingTime;
       owner == IdleOwner::ends && is_held() && monotonic_now() < deadline;) {
    if (!gives_way(folder_, owner_in(path), elapsed(monotonic_now(), deadline))) break;
    lock = service::LockFile::take(path, kMillisecond);
  }
  if (!lock) return std::unexpected(lock.error());
  if (ftruncate(lock->fd(), 0) != 0 ||
      pwrite(lock->fd(), node_.data(), node_.size(), 0) != static_cast<ssize_t>(node_.size())) {
    return refuse_errno("cannot write " + path);
  }
  held_.push_back(std::move(*lock));
  return {};
}

Result<void> Claims::take_address(const SocketAddress& address, IdleOwner owner) {
  auto taken = take(address.ip_text(), owner);
  if (taken || taken.error().code != EWOULDBLOCK) return taken;
  return refuse(EADDRINUSE, fmt::format("{} is already the address of node '{}'", address.ip_text(),
                                        owner_in(folder_.claim(address.ip_text()))));
}

bool Claims::take_interface(const std::string& name, IdleOwner owner) {
  return take(name, owner).has_value();
}

bool Claims::take_new_addresses(const std::string& interface) {
  if (!has_new_addresses_)
    has_new_addresses_ = take(interface + "-new", IdleOwner::keeps).has_value();
  return has_new_addresses_;
}

void Claims::release_last() {
  held_.back().remove();
  held_.pop_back();
}

Result<std::string> node_with_address(const service::RuntimeFolder& folder,
                                      const SocketAddress& address) {
  const std::string path = folder.claim(address.ip_text());
  if (access(path.c_str(), R_OK) != 0) return refuse_errno(address.ip_text());
  return owner_in(path);
}

void Claims::release() {
  for (service::LockFile& lock : held_) lock.remove();
  held_.clear();
}

}  // namespace verbatim::agent
