#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "arena/xrc_queue.h"
#include "base/error.h"
#include "base/files/name_locks.h"
#include "base/os/unique_fd.h"
#include "base/types.h"

namespace verbatim::adapter {

using namespace arena;

struct XrcOpening {
  int fd = -1;             // The domain's file, borrowed; -1: none.
  bool create = false;     // O_CREAT
  bool exclusive = false;  // O_EXCL
};

/// XRC domains (IBA annex A14). A domain of a file is shared by all programs of the node that open
/// the same file. Any thread.
class XrcDomains {
 public:
  /// `locks`: among programs; must outlive this object. A domain belongs to a node.
  XrcDomains(const NameLocks& locks, std::uint64_t node_guid)
      : locks_(locks), node_guid_(node_guid) {}

  /// `ibv_open_xrcd`: EAGAIN if the file has no domain, EINVAL if it has one (with `exclusive`),
  /// EBUSY if another program takes more than ten seconds to open it. Other calls do not wait for
  /// one that waits here.
  Result<XrcDomain> open(const XrcOpening& opening);
  /// EBUSY while it has queue pairs or shared receive queues.
  Result<void> close(XrcDomain domain);

  /// Counts a user of the domain and returns its file, or removes a user. EINVAL if there is no
  /// such domain.
  Result<XrcFile> enter(XrcDomain domain);
  void leave(XrcDomain domain);
  /// Returns no file if the domain has none, or does not exist.
  XrcFile file_of(XrcDomain domain);

 private:
  struct Domain {
    XrcFile file;  // None: the domain is private to this program.
    std::uint32_t handles = 0;
    std::uint32_t users = 0;
    UniqueFd kept_file;
    UniqueFd claim;  // Shows other programs that the file has a domain.
  };
  Result<std::optional<XrcDomain>> open_known(const XrcOpening& opening, const XrcFile& file);
  Result<XrcDomain> add(Domain created);

  const NameLocks& locks_;
  const std::uint64_t node_guid_;
  std::mutex lock_;  // Protects the members below. A leaf.
  std::map<XrcDomain, Domain> domains_;
  std::uint32_t last_ = 0;
};

}  // namespace verbatim::adapter
