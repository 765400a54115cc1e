#include "ulp/rdma/windows.h"

#include <fmt/format.h>

namespace verbatim::ulp::rdma {

Result<Windows> Windows::create(const Device& device, const Region& pool, std::uint32_t count) {
  Windows windows;
  windows.region_ = pool.get();
  if (!device.limits().has_windows) return windows;
  for (std::uint32_t i = 0; i < count; ++i) {
    windows.windows_.emplace_back(ibv_alloc_mw(device.domain(), IBV_MW_TYPE_2));
    if (windows.windows_.back() == nullptr)
      return refuse_errno(fmt::format("ibv_alloc_mw of window {} of {}", i + 1, count));
    windows.free_.push_back(i);
  }
  return windows;
}

Result<Windows::Bound> Windows::bind(Connection& connection, const Slice& bytes, bool peer_writes) {
  Bound bound{.range = {reinterpret_cast<std::uint64_t>(bytes.data), bytes.bytes,
                        MemoryKey{region_->rkey}}};
  if (!exist()) return bound;
  if (free_.empty())
    return refuse(ENOBUFS, fmt::format("all {} windows are bound", windows_.size()));
  bound.window = free_.back();
  ibv_mw* const window = windows_[bound.window].get();
  // The key's last byte is ours: each binding has another (IBA 10.6.7.2.4).
  bound.range.remote_key = MemoryKey{ibv_inc_rkey(window->rkey)};
  if (const auto reason = connection.carry_out(Bind{.window = window,
                                                    .region = region_,
                                                    .bytes = bytes,
                                                    .key = bound.range.remote_key,
                                                    .peer_writes = peer_writes}))
    return refuse(EIO, *reason);
  free_.pop_back();
  window->rkey = raw(bound.range.remote_key);
  bound.invalidatable = true;
  return bound;
}

void Windows::unbind(Connection& connection, const Bound& bound, bool peer_has_ended_it) {
  if (!bound.invalidatable) return;
  if (!peer_has_ended_it) static_cast<void>(connection.carry_out(EndKey{bound.range.remote_key}));
  free_.push_back(bound.window);
}

}  // namespace verbatim::ulp::rdma
