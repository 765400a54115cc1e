#include "adapter/queues/xrc_domains.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "adapter/limits.h"
#include "base/os/peer_copies.h"

namespace verbatim::adapter {
namespace {

/// Time that one program may take to open a file's domain.
constexpr TimeNs kOpeningPatience = 10 * kSecond;

/// A domain belongs to a node.
std::string name_of(const XrcFile& file, std::uint64_t node_guid) {
  return fmt::format("XRC domain {:x}/{:x}/{:x}", node_guid, file.device, file.inode);
}

/// Waits for its turn: one program at a time opens the domain of a file. EBUSY after ten seconds.
Result<UniqueFd> enter_opening(const NameLocks& locks, const std::string& name) {
  auto alone = locks.take("opening " + name, NameLocks::Kind::exclusive, kOpeningPatience);
  if (alone || alone.error().code != EWOULDBLOCK) return alone;
  return refuse(EBUSY, fmt::format("another program has been opening the file's XRC domain for "
                                   "ten seconds; it is stopped, perhaps: {}",
                                   alone.error().text));
}

/// Keeps the file's inode number from being reused, without touching the program's locks on the
/// file: closing another kind of descriptor would release them (fcntl(2)).
Result<UniqueFd> keep_file(int fd) {
  const std::string path = fmt::format("/proc/self/fd/{}", fd);
  UniqueFd own(open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!own) own.reset(fcntl(fd, F_DUPFD_CLOEXEC, 0));  // Without /proc.
  if (!own) return refuse_errno("XRC domain: keeping its file");
  return own;
}

Result<XrcFile> identify(int fd) {
  if (fd < 0) return XrcFile{};
  struct stat info{};
  if (fstat(fd, &info) != 0) return refuse(EBADF, fmt::format("descriptor {} is not open", fd));
  return XrcFile{.device = info.st_dev, .inode = info.st_ino};
}

std::unexpected<Error> refuse_existing() {
  return refuse(EINVAL, "the file has an XRC domain already, and O_EXCL was asked for");
}

/// Takes a lock that shows other programs that this one has the domain. Requires the lock of
/// `enter_opening`.
Result<UniqueFd> claim(const NameLocks& locks, const std::string& name, const XrcOpening& opening) {
  const auto exists = locks.is_held(name);
  if (!exists) return std::unexpected(exists.error());
  if (*exists && opening.create && opening.exclusive) return refuse_existing();
  if (!*exists && !opening.create) {
    return refuse(EAGAIN, "the file has no XRC domain, and O_CREAT was not given");
  }
  return locks.take(name, NameLocks::Kind::shared);
}

}  // namespace

Result<XrcDomain> XrcDomains::open(const XrcOpening& opening) {
  const auto file = identify(opening.fd);
  if (!file) return std::unexpected(file.error());
  if (!file->exists() && !opening.create) {
    return refuse(EINVAL, "without a file and O_CREAT there is nothing to open");
  }
  if (!file->exists()) return add({.file = {}, .handles = 1, .kept_file = {}, .claim = {}});
  auto known = open_known(opening, *file);
  if (!known) return std::unexpected(known.error());
  if (*known) return **known;
  // Without lock_, which other calls of the program need while this one waits.
  const std::string name = name_of(*file, node_guid_);
  const auto alone = enter_opening(locks_, name);
  if (!alone) return std::unexpected(alone.error());
  known = open_known(opening, *file);  // Another thread has opened it meanwhile.
  if (!known) return std::unexpected(known.error());
  if (*known) return **known;
  auto kept = keep_file(opening.fd);
  if (!kept) return std::unexpected(kept.error());
  auto claimed = claim(locks_, name, opening);
  if (!claimed) return std::unexpected(claimed.error());
  let_peers_copy();  // For programs whose requests name this program's queues.
  return add(
      {.file = *file, .handles = 1, .kept_file = std::move(*kept), .claim = std::move(*claimed)});
}

/// Returns another handle of the file's domain, if this program has the domain.
Result<std::optional<XrcDomain>> XrcDomains::open_known(const XrcOpening& opening,
                                                        const XrcFile& file) {
  const std::lock_guard guard(lock_);
  const auto found =
      std::ranges::find(domains_, file, [](const auto& entry) { return entry.second.file; });
  if (found == domains_.end()) return std::nullopt;
  if (opening.create && opening.exclusive) return refuse_existing();
  ++found->second.handles;
  return found->first;
}

Result<XrcDomain> XrcDomains::add(Domain created) {
  const std::lock_guard guard(lock_);
  if (domains_.size() >= Limits::xrc_domains) {
    return refuse(ENOMEM, fmt::format("there are {} XRC domains already", domains_.size()));
  }
  const XrcDomain number{++last_};
  domains_.emplace(number, std::move(created));
  return number;
}

Result<void> XrcDomains::close(XrcDomain domain) {
  const std::lock_guard guard(lock_);
  const auto found = domains_.find(domain);
  if (found == domains_.end()) return refuse(EINVAL, "no such XRC domain");
  Domain& xrc = found->second;
  if (xrc.handles == 1 && xrc.users > 0) {
    return refuse(
        EBUSY,
        fmt::format("{} queue pairs or shared receive queues are in the XRC domain", xrc.users));
  }
  if (--xrc.handles == 0) domains_.erase(found);
  return {};
}

Result<XrcFile> XrcDomains::enter(XrcDomain domain) {
  const std::lock_guard guard(lock_);
  const auto found = domains_.find(domain);
  if (found == domains_.end()) return refuse(EINVAL, "no such XRC domain");
  ++found->second.users;
  return found->second.file;
}

void XrcDomains::leave(XrcDomain domain) {
  const std::lock_guard guard(lock_);
  --domains_[domain].users;
}

XrcFile XrcDomains::file_of(XrcDomain domain) {
  const std::lock_guard guard(lock_);
  const auto found = domains_.find(domain);
  return found != domains_.end() ? found->second.file : XrcFile{};
}

}  // namespace verbatim::adapter
