#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "adapter/adapter.h"
#include "base/os/peer_copies.h"

/// XRC domains (IBA annex A14). One that is made for a file is that of every program of the node
/// that opens the same file.
namespace verbatim::adapter {
namespace {

/// So long one program may take to open a file's domain.
constexpr TimeNs kOpeningPatience = 10 * kSecond;

/// A domain is the node's.
std::string name_of(const XrcFile& file, std::uint64_t node_guid) {
  return fmt::format("XRC domain {:x}/{:x}/{:x}", node_guid, file.device, file.inode);
}

/// One program at a time opens the domain of a file. EBUSY after ten seconds.
Result<UniqueFd> enter_opening(const NameLocks& locks, const std::string& name) {
  auto alone = locks.take("opening " + name, NameLocks::Kind::exclusive, kOpeningPatience);
  if (alone || alone.error().code != EWOULDBLOCK) return alone;
  return refuse(EBUSY, fmt::format("another program has been opening the file's XRC domain for "
                                   "ten seconds; it is stopped, perhaps: {}",
                                   alone.error().text));
}

/// Keeps the file's inode number from becoming another file's, and none of the program's locks on
/// it: to close another kind of descriptor would release them (fcntl(2)).
Result<UniqueFd> keep_file(int fd) {
  const std::string path = fmt::format("/proc/self/fd/{}", fd);
  UniqueFd own(open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!own) own.reset(fcntl(fd, F_DUPFD_CLOEXEC, 0));  // Without /proc.
  if (!own) return refuse_errno("XRC domain: keeping its file");
  return own;
}

Result<XrcFile> file_of(int fd) {
  if (fd < 0) return XrcFile{};
  struct stat info{};
  if (fstat(fd, &info) != 0) return refuse(EBADF, fmt::format("descriptor {} is not open", fd));
  return XrcFile{.device = info.st_dev, .inode = info.st_ino};
}

std::unexpected<Error> refuse_existing() {
  return refuse(EINVAL, "the file has an XRC domain already, and O_EXCL was asked for");
}

/// What says to other programs that this one has the domain. Under the lock of `enter_opening`.
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

Result<XrcDomain> Adapter::open_xrc_domain(const XrcOpening& opening) {
  const auto file = file_of(opening.fd);
  if (!file) return std::unexpected(file.error());
  if (!file->exists() && !opening.create) {
    return refuse(EINVAL, "without a file and O_CREAT there is nothing to open");
  }
  if (!file->exists())
    return add_xrc_domain({.file = {}, .handles = 1, .kept_file = {}, .claim = {}});
  auto known = open_known_domain(opening, *file);
  if (!known) return std::unexpected(known.error());
  if (*known) return **known;
  // Without lock_, which the program's other calls need while this one waits.
  const std::string name = name_of(*file, node().guid);
  const auto alone = enter_opening(membership_.locks, name);
  if (!alone) return std::unexpected(alone.error());
  known = open_known_domain(opening, *file);  // Another thread's, meanwhile.
  if (!known) return std::unexpected(known.error());
  if (*known) return **known;
  auto kept = keep_file(opening.fd);
  if (!kept) return std::unexpected(kept.error());
  auto claimed = claim(membership_.locks, name, opening);
  if (!claimed) return std::unexpected(claimed.error());
  let_peers_copy();  // Those whose requests name queues of this program.
  return add_xrc_domain(
      {.file = *file, .handles = 1, .kept_file = std::move(*kept), .claim = std::move(*claimed)});
}

/// One more handle of the file's domain, if this program has it.
Result<std::optional<XrcDomain>> Adapter::open_known_domain(const XrcOpening& opening,
                                                            const XrcFile& file) {
  const std::lock_guard guard(lock_);
  const auto found =
      std::ranges::find(xrc_domains_, file, [](const auto& entry) { return entry.second.file; });
  if (found == xrc_domains_.end()) return std::nullopt;
  if (opening.create && opening.exclusive) return refuse_existing();
  ++found->second.handles;
  return found->first;
}

Result<XrcDomain> Adapter::add_xrc_domain(Xrc created) {
  const std::lock_guard guard(lock_);
  if (xrc_domains_.size() >= Limits::xrc_domains) {
    return refuse(ENOMEM, fmt::format("there are {} XRC domains already", xrc_domains_.size()));
  }
  const XrcDomain number{++last_xrc_domain_};
  xrc_domains_.emplace(number, std::move(created));
  return number;
}

Result<void> Adapter::close_xrc_domain(XrcDomain domain) {
  const std::lock_guard guard(lock_);
  const auto found = xrc_domains_.find(domain);
  if (found == xrc_domains_.end()) return refuse(EINVAL, "no such XRC domain");
  Xrc& xrc = found->second;
  if (xrc.handles == 1 && xrc.users > 0) {
    return refuse(
        EBUSY,
        fmt::format("{} queue pairs or shared receive queues are in the XRC domain", xrc.users));
  }
  if (--xrc.handles == 0) xrc_domains_.erase(found);
  return {};
}

/// An XRC target of another program, in a domain that this one has as well. It waits for the agent.
bool Adapter::is_target_elsewhere(Qpn qpn, const XrcFile& file) {
  if (!file.exists() || has_number(SrqNumber{qpn.value()})) return false;
  const auto peer = find_peer(node().gids[0].address, qpn);
  if (peer == nullptr) return false;
  const std::uint32_t local_number = qpn.value() % kProgramQueuePairsMax;
  const QueuePairRecord& record = peer->at(peer->header().queue_pairs)[local_number];
  return record.qpn.load(std::memory_order_acquire) == qpn.value() &&
         QpType{record.type.load(std::memory_order_relaxed)} == QpType::xrc_receive;
}

Result<QueuePair*> Adapter::open_queue_pair(Qpn qpn, XrcDomain domain, AsyncEvents& events,
                                            void* owner) {
  std::unique_lock guard(lock_);
  QueuePair* const found = numbers_.find(qpn);
  if (found == nullptr) {
    const XrcFile file = xrc_domains_[domain].file;
    guard.unlock();
    if (is_target_elsewhere(qpn, file)) {
      return refuse(EOPNOTSUPP,
                    fmt::format("QP {:#x} belongs to another program, and ends with it: "
                                "it serves the domain's queues without being opened",
                                qpn.value()));
    }
  }
  if (found == nullptr || found->type() != QpType::xrc_receive) {
    return refuse(EINVAL, fmt::format("{:#x} is no XRC_RECV queue pair", qpn.value()));
  }
  if (found->options().xrc_domain != domain) {
    return refuse(EINVAL, fmt::format("QP {:#x} is in another XRC domain", qpn.value()));
  }
  found->add_listener(events, owner);
  return found;
}

void Adapter::release_queue_pair(QueuePair* queue_pair, const void* owner) {
  if (queue_pair->remove_listener(owner)) destroy_queue_pair(queue_pair);
}

}  // namespace verbatim::adapter
