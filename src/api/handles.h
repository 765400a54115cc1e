#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <infiniband/verbs.h>

#include "verbatim/memory.h"

namespace verbatim::detail {

struct Party;
struct SharedReceives;

/// A device and one of its ports.
struct DeviceHandle {
  ibv_context* context = nullptr;  // rdma_cm's.
  DeviceInfo info;
  PortInfo port;
  std::uint8_t gid_index = 0;
};

/// A memory region, and the pages that were allocated for it.
struct Registration {
  ~Registration();

  std::shared_ptr<DomainHandle> domain;
  ibv_mr* region = nullptr;
  void* allocated = nullptr;  // From aligned_alloc; null where the memory is the caller's.
  Access rights = Access::local_read;
};

/// A protection domain, and the buffers whose owners have gone before the requests that may use
/// them.
struct DomainHandle : std::enable_shared_from_this<DomainHandle> {
  explicit DomainHandle(Context of) : context(std::move(of)) {}
  ~DomainHandle();

  void add(Party& party);
  void remove(Party& party);
  void add(SharedReceives& receives);
  void remove(SharedReceives& receives);

  /// Frees it now, or when all requests that are under way have ended.
  void retire(std::unique_ptr<Registration> registration);
  /// Frees what nothing uses any more.
  void reclaim();

  const Context context;
  ibv_pd* domain = nullptr;

 private:
  /// Requests up to these numbers may use the memory.
  struct Until {
    const void* user;  // Party or SharedReceives: by then, it may be gone.
    std::uint64_t sends;
    std::uint64_t receives;
  };
  struct Retired {
    std::unique_ptr<Registration> registration;
    std::vector<Until> until;
  };
  bool has_passed(const Until& until) const;
  void drop(const void* user);

  std::mutex mutex_;
  std::vector<Party*> parties_;
  std::vector<SharedReceives*> shared_;
  std::list<Retired> retired_;
};

/// A refused call of the C interface, from errno or the code that it returned.
Failure refused(Call call, int code, const char* detail);

}  // namespace verbatim::detail
