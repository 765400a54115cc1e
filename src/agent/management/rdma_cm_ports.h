#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "agent/protocol/node.h"
#include "base/error.h"

/// Assigns ports of rdma_cm's port spaces, and other InfiniBand services, to the programs of a
/// node. Without I/O.
namespace verbatim::agent {

/// The rules are those of Linux's rdma_cm (man rdma_bind_addr, rdma_set_option):
///  - An address with a port is one binding's, and a wildcard is every address of its family (and
///    of both families, for [::] that is not restricted to its own);
///  - bindings that all may reuse addresses share one, until one of them listens: a listener has
///    its address to itself;
///  - bindings of service ids that are no ports conflict in the same way if their ranges overlap.
class PortTable {
 public:
  /// The caller chooses a number for each program.
  using ProgramId = int;
  struct Listener {
    ProgramId program = 0;
    std::uint64_t handle = 0;
  };

  /// Returns the port; 0 for services that are no port. EADDRINUSE, EADDRNOTAVAIL (as in the
  /// kernel: a wildcard conflicts with another binding; no port is free), EACCES for a port below
  /// 1024 without `privileged`, EEXIST for a handle that is in use.
  Result<std::uint16_t> bind(ProgramId program, const PortBinding& binding, bool privileged);
  /// EINVAL for an unknown handle, EADDRINUSE if others share the address.
  Result<void> listen(ProgramId program, std::uint64_t handle);
  /// Returns the binding; nothing for an unknown handle.
  std::optional<PortBinding> release(ProgramId program, std::uint64_t handle);
  /// The program has ended.
  void release_all(ProgramId program);
  /// Adds a binding that an earlier agent has granted, without checks.
  void restore(ProgramId program, const PortBinding& binding);

  /// Returns the listener for this address: an exact binding before a wildcard.
  std::optional<Listener> find(ServiceId service, const SocketAddress& destination) const;
  std::vector<PortBinding> of(ProgramId program) const;
  std::size_t size() const { return owners_.size(); }

 private:
  struct Entry {
    ProgramId program = 0;
    PortBinding binding;
  };
  using Entries = std::multimap<ServiceRange, Entry>;
  /// Those that have a service of the range.
  std::vector<const Entry*> overlapping(const ServiceRange& services) const;
  Result<void> check(const Entry& wanted, bool may_reuse) const;
  Result<std::uint16_t> free_port(PortSpace space);
  void add(ProgramId program, const PortBinding& binding);

  Entries entries_;
  std::map<std::pair<ProgramId, std::uint64_t>, Entries::iterator> owners_;
  std::uint16_t last_port_ = 0;
};

bool is_wildcard(const SocketAddress& address);

}  // namespace verbatim::agent
