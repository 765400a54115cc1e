#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "ulp/engine/slice.h"
#include "ulp/rdma/connection.h"
#include "ulp/rdma/device.h"

namespace verbatim::ulp::rdma {

/// Keys for the peer of one connection, one a command, so that it sees no more than the command's
/// buffer, and no longer: memory windows of type 2, bound before the command's SEND on the same
/// queue pair. The peer may invalidate them (SEND with invalidate), which it must not do with a
/// region. Where the adapter has no windows (siw), the pool's own key is used and `invalidatable`
/// is false. A window's end and its next binding are ordered by the queue pair, so each connection
/// has windows of its own; they are destroyed when it is over. Device and pool outlive them.
class Windows {
 public:
  /// `pool`: registered with IBV_ACCESS_MW_BIND, and with the rights that its windows get.
  static Result<Windows> create(const Device& device, const Region& pool, std::uint32_t count);

  struct Bound {
    RemoteRange range;
    bool invalidatable = false;
    std::uint32_t window = 0;
  };
  /// ENOBUFS: all are bound. EIO: the connection must end.
  Result<Bound> bind(Connection& connection, const Slice& bytes, bool peer_writes);
  /// The command is over. Unless the peer has ended the key (`Message::invalidated`), this side
  /// does.
  void unbind(Connection& connection, const Bound& bound, bool peer_has_ended_it);

  bool exist() const { return !windows_.empty(); }
  std::uint32_t free_count() const { return static_cast<std::uint32_t>(free_.size()); }

 private:
  struct Deallocate {
    void operator()(ibv_mw* window) const { ibv_dealloc_mw(window); }
  };

  ibv_mr* region_ = nullptr;
  std::vector<std::unique_ptr<ibv_mw, Deallocate>> windows_;
  std::vector<std::uint32_t> free_;
};

}  // namespace verbatim::ulp::rdma
