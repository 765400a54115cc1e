#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "arena/xrc_queue.h"
#include "base/error.h"
#include "base/os/name_locks.h"
#include "base/os/unique_fd.h"
#include "base/types.h"

namespace verbatim::adapter {

using namespace arena;

struct XrcOpening {
  int fd = -1;             // Of the domain's file, borrowed; -1: none.
  bool create = false;     // O_CREAT
  bool exclusive = false;  // O_EXCL
};

/// XRC domains (IBA annex A14). One that is made for a file is that of every program of the node
/// that opens the same file. Any thread.
class XrcDomains {
 public:
  /// `locks`: between programs; they outlive it. A domain is the node's.
  XrcDomains(const NameLocks& locks, std::uint64_t node_guid)
      : locks_(locks), node_guid_(node_guid) {}

  /// `ibv_open_xrcd`: EAGAIN for a file without a domain, EINVAL for one that has it (with
  /// `exclusive`), EBUSY where another program has been opening it for ten seconds. Other calls do
  /// not wait for one that waits here.
  Result<XrcDomain> open(const XrcOpening& opening);
  /// EBUSY while queue pairs or shared receive queues are in it.
  Result<void> close(XrcDomain domain);

  /// Something more is in the domain, whose file it answers with, or less. EINVAL where there is
  /// none.
  Result<XrcFile> enter(XrcDomain domain);
  void leave(XrcDomain domain);
  /// None: the domain has no file, or is none.
  XrcFile file_of(XrcDomain domain);

 private:
  struct Domain {
    XrcFile file;  // None: the domain is this program's alone.
    std::uint32_t handles = 0;
    std::uint32_t users = 0;
    UniqueFd kept_file;
    UniqueFd claim;  // Says to other programs that the file has a domain.
  };
  Result<std::optional<XrcDomain>> open_known(const XrcOpening& opening, const XrcFile& file);
  Result<XrcDomain> add(Domain created);

  const NameLocks& locks_;
  const std::uint64_t node_guid_;
  std::mutex lock_;  // Guards what follows. A leaf.
  std::map<XrcDomain, Domain> domains_;
  std::uint32_t last_ = 0;
};

}  // namespace verbatim::adapter
