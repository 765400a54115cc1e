#include "adapter/xrc_hosts.h"

#include <algorithm>

namespace verbatim::adapter {
namespace {

/// Numbers of queue pairs and queues tell whose they are.
std::uint32_t program_of(SrqNumber number) { return raw(number) / kProgramQueuePairsMax; }

DirectTarget& guest_of(const DirectPeer& host, std::uint32_t index) {
  return host.target(kProgramQueuePairsMax + index);
}

/// `use(local_number, guest)` for each that may be in use.
template <typename Use>
void for_each_guest(const DirectPeer& host, Use use) {
  const std::uint32_t count = host.header().guest_count.load(std::memory_order_seq_cst);
  for (std::uint32_t i = 0; i < std::min(count, kGuestsMax); ++i) {
    DirectTarget& guest = guest_of(host, i);
    if (guest.qpn.load(std::memory_order_acquire) != 0) use(kProgramQueuePairsMax + i, guest);
  }
}

/// It takes nothing any more. Under its lock.
void detach(DirectTarget& guest) {
  guest.receives = {};
  guest.receive_cq = {};
  guest.receive_srq = {};
}

/// Under its lock.
void vacate(const DirectPeer& host, std::uint32_t local_number, DirectTarget& guest) {
  settle(guest, host.base());
  if (guest.holds_receive && guest.receive_cq) {
    host.end_receive(local_number,
                     {.wr_id = guest.receive.wr_id,
                      .status = transport::Status::flushed,
                      .opcode = CompletionOpcode::receive,
                      .qpn = guest.qpn},
                     false);
  }
  guest.holds_receive = false;
  detach(guest);
  guest.qpn.store(0, std::memory_order_release);
}

}  // namespace

std::optional<std::uint32_t> take_guest(const DirectPeer& host, Qpn qpn) {
  std::atomic<std::uint32_t>& count = host.header().guest_count;
  for (std::uint32_t i = 0; i < kGuestsMax; ++i) {
    // Before the guest is visited: the host looks at so many.
    for (auto seen = count.load(); seen <= i && !count.compare_exchange_weak(seen, i + 1);) {
    }
    DirectTarget& guest = guest_of(host, i);
    const TargetVisit visit(guest);
    // One of its own is what a former program had at this number.
    if (guest.qpn == qpn.value()) vacate(host, kProgramQueuePairsMax + i, guest);
    if (guest.qpn != 0) continue;
    detach(guest);
    guest.guest_of = own_process_token();
    guest.assist.state.store(Assist::none, std::memory_order_relaxed);
    guest.reach.state.store(Reach::none, std::memory_order_relaxed);
    guest.news.store(0, std::memory_order_relaxed);
    guest.holds_receive = false;
    guest.qpn.store(qpn.value(), std::memory_order_release);
    return kProgramQueuePairsMax + i;
  }
  return std::nullopt;
}

void leave_guest(const DirectPlace& guest, Qpn qpn) {
  DirectTarget& target = guest.target();
  const TargetVisit visit(target);
  if (target.qpn == qpn.value()) vacate(guest.peer(), guest.local_number(), target);
}

void drop_guests(const DirectPeer& own, ProcessToken ended) {
  for_each_guest(own, [&](std::uint32_t local_number, DirectTarget& guest) {
    const TargetVisit visit(guest);
    if (guest.qpn != 0 && guest.guest_of == ended) vacate(own, local_number, guest);
  });
}

void forget_queue(const DirectPeer& own, SrqNumber number) {
  for_each_guest(own, [&](std::uint32_t, DirectTarget& guest) {
    const TargetVisit visit(guest);
    if (guest.receive_srq != number) return;
    settle(guest, own.base());
    guest.holds_receive = false;
    detach(guest);
  });
}

DirectPlace* XrcHosts::find(SrqNumber number, Qpn target) {
  const auto found = std::ranges::find(hosts_, program_of(number), &Host::program);
  if (found == hosts_.end()) return nullptr;
  const DirectPlace& place = *found->place;
  if (!place.peer().is_gone() && place.target().qpn == target.value()) return found->place.get();
  hosts_.erase(found);
  return nullptr;
}

DirectPlace* XrcHosts::add(std::shared_ptr<DirectPeer> host, SrqNumber number,
                           std::uint32_t guest) {
  hosts_.push_back({program_of(number), std::make_unique<DirectPlace>(std::move(host), guest)});
  return hosts_.back().place.get();
}

void XrcHosts::leave(Qpn target) {
  for (const Host& host : hosts_) leave_guest(*host.place, target);
  hosts_.clear();
}

void XrcHosts::forget(const DirectPeer& host) {
  std::erase_if(hosts_, [&host](const Host& one) { return &one.place->peer() == &host; });
}

}  // namespace verbatim::adapter
