#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "adapter/adapter.h"
#include "adapter/memory.h"

/// XRC domains (IBA annex A14). One that is made for a file is that of every program of the node
/// that opens the same file.
namespace verbatim::adapter {
namespace {

std::unexpected<Error> refuse_errno(const char* what) {
  return refuse(errno, fmt::format("XRC domain: {}: {}", what, std::strerror(errno)));
}

/// Programs that have the domain of a file hold a lock for reading on one byte of it, far behind
/// whatever is in it, by a description of their own: it goes with them, however they end. Each node
/// has a byte.
struct flock lock_of(short type, std::uint64_t node_guid) {
  constexpr off_t kFirst = off_t{1} << 62;
  constexpr std::uint64_t kNodes = std::uint64_t{1} << 48;
  return {.l_type = type,
          .l_whence = SEEK_SET,
          .l_start = kFirst + static_cast<off_t>(node_guid % kNodes),
          .l_len = 1,
          .l_pid = 0};
}

/// Whether another program has it. `fd` is a description of this one's.
Result<bool> is_claimed(int fd, std::uint64_t node_guid) {
  struct flock others = lock_of(F_WRLCK, node_guid);
  if (fcntl(fd, F_OFD_GETLK, &others) != 0) return refuse_errno("looking at its file's locks");
  return others.l_type != F_UNLCK;
}

/// One program at a time opens the domain of a file: an abstract socket name goes with its owner,
/// too. EBUSY after ten seconds.
Result<UniqueFd> enter_opening(const XrcFile& file, std::uint64_t node_guid) {
  UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return refuse_errno("socket");
  const std::string name =
      fmt::format("verbatim-xrc/{:x}/{:x}/{:x}", node_guid, file.device, file.inode);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  std::ranges::copy(name, address.sun_path + 1);  // The zero before it makes it abstract.
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  constexpr timespec kPause{.tv_sec = 0, .tv_nsec = static_cast<long>(kMillisecond)};
  for (int tries = 0; tries < 10'000; ++tries) {
    if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0) return fd;
    if (errno != EADDRINUSE) return refuse_errno("bind");
    nanosleep(&kPause, nullptr);
  }
  return refuse(EBUSY, "XRC domain: another program has been opening it for ten seconds");
}

/// A description of the file's, for locks alone.
Result<UniqueFd> reopen(int fd) {
  const std::string path = fmt::format("/proc/self/fd/{}", fd);
  UniqueFd own(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!own) return refuse_errno("opening its file for reading");
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

/// What says to other programs that this one has the domain.
Result<UniqueFd> claim(const XrcOpening& opening, const XrcFile& file, std::uint64_t node_guid) {
  auto own = reopen(opening.fd);
  if (!own) return own;
  const auto alone = enter_opening(file, node_guid);
  if (!alone) return std::unexpected(alone.error());
  const auto exists = is_claimed(own->get(), node_guid);
  if (!exists) return std::unexpected(exists.error());
  if (*exists && opening.create && opening.exclusive) return refuse_existing();
  if (!*exists && !opening.create) {
    return refuse(EAGAIN, "the file has no XRC domain, and O_CREAT was not given");
  }
  struct flock lock = lock_of(F_RDLCK, node_guid);
  if (fcntl(own->get(), F_OFD_SETLK, &lock) != 0) return refuse_errno("locking its file");
  return own;
}

}  // namespace

Result<XrcDomain> Adapter::open_xrc_domain(const XrcOpening& opening) {
  const auto file = file_of(opening.fd);
  if (!file) return std::unexpected(file.error());
  const std::lock_guard guard(lock_);
  const auto found = std::ranges::find_if(xrc_domains_, [&](const auto& entry) {
    return file->exists() && entry.second.file == *file;
  });
  if (found != xrc_domains_.end()) {
    if (opening.create && opening.exclusive) return refuse_existing();
    ++found->second.handles;
    return found->first;
  }
  if (!file->exists() && !opening.create) {
    return refuse(EINVAL, "without a file and O_CREAT there is nothing to open");
  }
  if (xrc_domains_.size() >= Limits::xrc_domains) {
    return refuse(ENOMEM, fmt::format("there are {} XRC domains already", xrc_domains_.size()));
  }
  Xrc created{.file = *file, .handles = 1};
  if (file->exists()) {
    auto claimed = claim(opening, *file, node().guid);
    if (!claimed) return std::unexpected(claimed.error());
    created.claim = std::move(*claimed);
    let_peers_copy();  // Those whose requests name queues of this program.
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

/// An XRC target of another program, in a domain that this one has as well. Under lock_.
bool Adapter::is_target_elsewhere(Qpn qpn, XrcDomain domain) {
  const XrcFile& file = xrc_domains_[domain].file;
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
  const std::lock_guard guard(lock_);
  QueuePair* const found = find(qpn);
  if (found == nullptr && is_target_elsewhere(qpn, domain)) {
    return refuse(EOPNOTSUPP, fmt::format("QP {:#x} belongs to another program, and ends with it: "
                                          "it serves the domain's queues without being opened",
                                          qpn.value()));
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
