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

namespace verbatim::inline v1::detail {

struct Party;
struct SharedReceives;

/// A device and one of its ports.
struct DeviceHandle {
  ibv_context* context = nullptr;  // Owned by rdma_cm.
  DeviceInfo info;
  PortInfo port;
  std::uint8_t gid_index = 0;
};

/// A memory region, and its memory if the library allocated it.
struct Registration {
  ~Registration();

  std::shared_ptr<DomainHandle> domain;
  ibv_mr* region = nullptr;
  void* allocated = nullptr;  // From aligned_alloc; null if the memory belongs to the caller.
  Access rights = Access::local_read;
};

/// A protection domain, and the buffers that outlive their owners because requests may use them.
struct DomainHandle : std::enable_shared_from_this<DomainHandle> {
  explicit DomainHandle(Context of) : context(std::move(of)) {}
  ~DomainHandle();

  void add(Party& party);
  void remove(Party& party);
  void add(SharedReceives& receives);
  void remove(SharedReceives& receives);

  /// Frees the buffer now, or after all outstanding requests.
  void retire(std::unique_ptr<Registration> registration);
  /// Frees buffers that no request can use any more.
  void reclaim();

  const Context context;
  ibv_pd* domain = nullptr;

 private:
  /// Requests up to these numbers may use the memory.
  struct Until {
    const void* user;  // Party or SharedReceives; it may be destroyed by then.
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

/// Converts a refused call of the C interface, from errno or its return value.
Failure refused(Call call, int code, const char* detail);

}  // namespace verbatim::inline v1::detail
