#include "adapter/direct/xrc_queue_owners.h"

#include <algorithm>

namespace verbatim::adapter {
namespace {

/// The numbers of queue pairs and queues identify the process.
std::uint32_t program_of(SrqNumber number) { return raw(number) / kProgramQueuePairsMax; }

DirectTarget& proxy_at(const DirectPeer& queue_owner, std::uint32_t index) {
  return queue_owner.target(kProgramQueuePairsMax + index);
}

/// Calls `use(local_number, proxy)` for each proxy target that may be in use.
template <typename Use>
void for_each_proxy(const DirectPeer& queue_owner, Use use) {
  const std::uint32_t count = queue_owner.header().proxy_count.load(std::memory_order_seq_cst);
  for (std::uint32_t i = 0; i < std::min(count, kProxyTargetsMax); ++i) {
    DirectTarget& proxy = proxy_at(queue_owner, i);
    if (proxy.qpn.load(std::memory_order_acquire) != 0) use(kProgramQueuePairsMax + i, proxy);
  }
}

/// Detaches it from its queue: it takes no further receives. Requires its lock.
void detach(DirectTarget& proxy) {
  proxy.receives = {};
  proxy.receive_cq = {};
  proxy.receive_srq = {};
}

/// Requires its lock.
void vacate(const DirectPeer& queue_owner, std::uint32_t local_number, DirectTarget& proxy) {
  recover_target(proxy, queue_owner.base());
  if (proxy.holds_receive && proxy.receive_cq) {
    queue_owner.end_receive(local_number,
                            {.wr_id = proxy.receive.wr_id,
                             .status = CompletionStatus::flushed,
                             .opcode = CompletionOpcode::receive,
                             .qpn = proxy.qpn},
                            false);
  }
  proxy.holds_receive = false;
  detach(proxy);
  proxy.qpn.store(0, std::memory_order_release);
}

}  // namespace

std::optional<std::uint32_t> allocate_proxy(const DirectPeer& queue_owner, Qpn qpn) {
  std::atomic<std::uint32_t>& count = queue_owner.header().proxy_count;
  for (std::uint32_t i = 0; i < kProxyTargetsMax; ++i) {
    // Before the proxy's first use: the queue owner visits only this many.
    for (auto seen = count.load(); seen <= i && !count.compare_exchange_weak(seen, i + 1);) {
    }
    DirectTarget& proxy = proxy_at(queue_owner, i);
    if (!lock_soon(proxy)) continue;
    const TargetLock target_lock(proxy, std::adopt_lock);
    // An entry of this process belonged to an earlier queue pair with this number.
    const bool is_left = proxy.qpn == qpn.value() || (proxy.qpn != 0 && proxy.proxy_for == 0);
    if (is_left) vacate(queue_owner, kProgramQueuePairsMax + i, proxy);
    if (proxy.qpn != 0) continue;
    detach(proxy);
    proxy.proxy_for = own_process_token();
    proxy.owner_request.state.store(OwnerRequest::none, std::memory_order_relaxed);
    proxy.notifications.store(0, std::memory_order_relaxed);
    proxy.holds_receive = false;
    proxy.qpn.store(qpn.value(), std::memory_order_release);
    return kProgramQueuePairsMax + i;
  }
  return std::nullopt;
}

void release_proxy(MappedTarget& proxy, Qpn qpn) {
  DirectTarget& target = proxy.target();
  if (target.qpn != qpn.value()) return;
  target.proxy_for = 0;
  if (!proxy.lock_soon()) return;  // `allocate_proxy` frees it later.
  const TargetLock target_lock(target, std::adopt_lock);
  if (target.qpn == qpn.value()) vacate(proxy.peer(), proxy.local_number(), target);
}

void release_proxies_of(const DirectPeer& own, ProcessToken ended) {
  for_each_proxy(own, [&](std::uint32_t local_number, DirectTarget& proxy) {
    if (proxy.proxy_for != ended) return;
    proxy.proxy_for = 0;
    if (!lock_soon(proxy)) return;  // `allocate_proxy` frees it later.
    const TargetLock target_lock(proxy, std::adopt_lock);
    if (proxy.qpn != 0 && proxy.proxy_for == 0) vacate(own, local_number, proxy);
  });
}

void forget_queue(const DirectPeer& own, SrqNumber number) {
  for_each_proxy(own, [&](std::uint32_t, DirectTarget& proxy) {
    const TargetLock target_lock(proxy);
    if (proxy.receive_srq != number) return;
    recover_target(proxy, own.base());
    proxy.holds_receive = false;
    detach(proxy);
  });
}

MappedTarget* XrcQueueOwners::find(SrqNumber number, Qpn target) {
  const auto found = std::ranges::find(queue_owners_, program_of(number), &Owner::program);
  if (found == queue_owners_.end()) return nullptr;
  const MappedTarget& place = *found->target;
  if (!place.peer().is_gone() && place.target().qpn == target.value()) return found->target.get();
  queue_owners_.erase(found);
  return nullptr;
}

MappedTarget* XrcQueueOwners::add(std::shared_ptr<DirectPeer> queue_owner, SrqNumber number,
                                  std::uint32_t proxy) {
  queue_owners_.push_back(
      {program_of(number), std::make_unique<MappedTarget>(std::move(queue_owner), proxy)});
  return queue_owners_.back().target.get();
}

void XrcQueueOwners::leave(Qpn target) {
  for (const Owner& queue_owner : queue_owners_) release_proxy(*queue_owner.target, target);
  queue_owners_.clear();
}

void XrcQueueOwners::forget(const DirectPeer& queue_owner) {
  std::erase_if(queue_owners_,
                [&queue_owner](const Owner& one) { return &one.target->peer() == &queue_owner; });
}

}  // namespace verbatim::adapter
