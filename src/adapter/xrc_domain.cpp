#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "adapter/adapter.h"

/// XRC domains (IBA annex A14). One that is made for a file is found again by who opens the same
/// file in this program.
namespace verbatim::adapter {
namespace {

/// Holds the file's domain for this program, node-wide: an abstract socket name goes with its
/// owner, however that ends. EEXIST where another program has it.
Result<UniqueFd> claim(const NodeDescription& node, const XrcFile& file) {
  UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return refuse(errno, fmt::format("XRC domain: {}", std::strerror(errno)));
  const std::string name =
      fmt::format("verbatim-xrc/{:x}/{:x}/{:x}", node.guid, file.device, file.inode);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  std::ranges::copy(name, address.sun_path + 1);  // The zero before it makes it abstract.
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0) return fd;
  return refuse(errno == EADDRINUSE ? EEXIST : errno,
                fmt::format("XRC domain: {}", std::strerror(errno)));
}

}  // namespace

Result<XrcDomain> Adapter::open_xrc_domain(const XrcOpening& opening) {
  const std::lock_guard guard(lock_);
  if (opening.file) {
    const auto found = std::ranges::find_if(
        xrc_domains_, [&](const auto& entry) { return entry.second.file == opening.file; });
    if (found != xrc_domains_.end()) {
      if (opening.create && opening.exclusive) {
        return refuse(EINVAL, "the file has an XRC domain already, and O_EXCL was asked for");
      }
      ++found->second.handles;
      return found->first;
    }
  }
  if (!opening.create) {
    return opening.file ? refuse(EAGAIN, "the file has no XRC domain, and O_CREAT was not given")
                        : refuse(EINVAL, "without a file and O_CREAT there is nothing to open");
  }
  if (xrc_domains_.size() >= Limits::xrc_domains) {
    return refuse(ENOMEM, fmt::format("there are {} XRC domains already", xrc_domains_.size()));
  }
  Xrc created{.file = opening.file, .handles = 1};
  if (opening.file) {
    auto claimed = claim(node(), *opening.file);
    if (!claimed && claimed.error().code == EEXIST) {
      // To serve it, a message for one program would have to be placed in another's memory.
      return refuse(EOPNOTSUPP,
                    "another program of this node has the file's XRC domain open: "
                    "domains are not shared between programs");
    }
    if (!claimed) return std::unexpected(claimed.error());
    created.claim = std::move(*claimed);
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

Result<QueuePair*> Adapter::open_queue_pair(Qpn qpn, XrcDomain domain, AsyncEvents& events,
                                            void* owner) {
  const std::lock_guard guard(lock_);
  QueuePair* const found = find(qpn);
  if (found == nullptr || found->type() != QpType::xrc_receive) {
    return refuse(EINVAL,
                  fmt::format("{:#x} is no XRC_RECV queue pair of this program", qpn.value()));
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
