#include "adapter/adapter.h"
#include "adapter/direct/execute.h"
#include "adapter/queue_pair/queue_pair.h"
#include "base/log.h"
#include "base/os/fence.h"
#include "base/overloaded.h"
#include "port/burst.h"

/// An XRC target whose requests name queues of other programs (xrc_queue_owners.h): packets for
/// them, and the requesters of the direct path, who ask for the host.
namespace verbatim::adapter {

namespace {

/// Payload of a SEND. False also where the queue has been destroyed since the message began.
bool place_at(MappedTarget& queue_owner, const transport::PlaceReceive& place,
              const LocalMemory& payload) {
  if (!queue_owner.target().holds_receive) return false;
  return place.payload.empty() ||
         queue_owner.copy_to_receive(payload, 0, place.payload.size(), place.offset) ==
             MappedTarget::Copied::all;
}

bool write_at(MappedTarget& queue_owner, const transport::PlaceWrite& write, Qpn qpn) {
  const auto region = queue_owner.find_locked(write.key, write.address, write.payload.size(),
                                              region::kRemoteWrite, qpn);
  if (!region) return false;
  return queue_owner.copy_plain(**region, address_in(**region, write.address),
                                const_cast<std::byte*>(write.payload.data()), write.payload.size(),
                                true);
}

}  // namespace

/// Null: no program has the queue, or it is of another domain, or its program has no guest left.
MappedTarget* QueuePair::queue_owner_of(SrqNumber number) {
  if (MappedTarget* const known = queue_owners_.find(number, number_)) return known;
  if (!options_.xrc_file.exists()) return nullptr;
  const SocketAddress& own = adapter_.port().gids()[attributes_.address.source_gid_index].address;
  auto peer = adapter_.peers().find_peer(own, Qpn(raw(number)));
  if (peer == nullptr || peer->is_own()) return nullptr;
  const XrcQueue& queue = peer->xrc_queue(number);
  const bool is_there = queue.number.load(std::memory_order_acquire) == raw(number) &&
                        queue.file == options_.xrc_file;
  if (!is_there) return nullptr;
  const auto proxy = allocate_proxy(*peer, number_);
  if (proxy) return queue_owners_.add(std::move(peer), number, *proxy);
  log(LogLevel::warn,
      "QP {:#x}: the program of XRC queue {:#x} serves {} queue pairs of others "
      "already",
      number_.value(), raw(number), kProxyTargetsMax);
  return nullptr;
}

void QueuePair::answer_allocate_proxy() {
  OwnerRequest& wanted = target_.owner_request;
  const MappedTarget* const queue_owner = queue_owner_of(SrqNumber{wanted.key});
  if (queue_owner != nullptr) wanted.original = queue_owner->local_number();
  wanted.state.store(queue_owner != nullptr ? OwnerRequest::done : OwnerRequest::refused,
                     std::memory_order_release);
}

/// The receives of a host's queue that the packet names.
class QueuePair::OwnerReceives final : public transport::ReceiveSource {
 public:
  OwnerReceives(MappedTarget& queue_owner, SrqNumber number)
      : queue_owner_(queue_owner), number_(number) {}
  bool take(const wire::Packet&, transport::Receive& out) override {
    if (!queue_owner_.take_receive()) return false;
    out = {.ticket = 0, .capacity_bytes = queue_owner_.target().receive.capacity_bytes};
    return true;
  }
  std::optional<PdNumber> domain_of(SrqNumber number) override {
    if (number != number_) return std::nullopt;
    return queue_owner_.target().pd;
  }

 private:
  MappedTarget& queue_owner_;
  const SrqNumber number_;
};

bool QueuePair::on_packet_for_queue_owner(const wire::Packet& packet) {
  const SrqNumber number = packet.headers.xrc_eth.srq;
  MappedTarget* const queue_owner = queue_owner_of(number);
  if (queue_owner == nullptr) return false;
  DirectTarget& proxy = queue_owner->target();
  const TargetLock target_lock(proxy);
  if (proxy.qpn != number_.value()) return false;
  if (!proxy.enter(queue_owner->peer().xrc_queue(number), number, options_.xrc_file)) return false;
  OwnerReceives receives(*queue_owner, number);
  transport::ResponderEffects effects;
  queue_owner_ = queue_owner;
  responder_.on_packet(packet, receives, queue_owner->peer().regions(), effects);
  drain(effects);
  queue_owner_ = nullptr;
  return true;
}

/// False: it is none that concerns the host.
bool QueuePair::apply_at_queue_owner(const transport::ResponderEffect& effect) {
  const auto check = [this](bool done, Refused refusal) {
    if (!done) responder_refused_ = refusal;
    return true;
  };
  const auto answer = [&](std::optional<std::uint64_t> original) {
    if (original) responder_.on_atomic_result(*original);
    return check(original.has_value(), Refused::region);
  };
  return std::visit(
      Overloaded{
          [&](const transport::PlaceReceive& place) {
            const LocalMemory payload{
                .regions = regions_, .segments = {}, .inlined = place.payload, .cache = local_key_};
            return check(place_at(*queue_owner_, place, payload), Refused::receive_memory);
          },
          [&](const transport::PlaceWrite& write) {
            return check(write_at(*queue_owner_, write, number_), Refused::region);
          },
          [&](const transport::ExecuteAtomic& atomic) {
            return answer(execute_at(*queue_owner_, atomic, number_));
          },
          [&](const transport::ExecuteAtomicWrite& write) {
            return answer(execute_at(*queue_owner_, write, number_));
          },
          // Windows of type 2 are bound by queue pairs of the host: none is this one's.
          [&](const transport::InvalidateKey&) { return check(false, Refused::region); },
          [&](const transport::CompleteReceive& receive) {
            complete_at_queue_owner(receive);
            return true;
          },
          [](const auto&) { return false; }},
      effect);
}

void QueuePair::complete_at_queue_owner(const transport::CompleteReceive& receive) {
  const DirectTarget& proxy = queue_owner_->target();
  if (!proxy.holds_receive) return;
  const Completion completion = completion_of(receive, proxy.receive.wr_id);
  if (!queue_owner_->end_receive(completion, receive.solicited)) fatal_ = true;
}

/// The bytes of a READ response. False: the host's memory refuses.
bool QueuePair::append_from_queue_owner(Burst& burst, const transport::PayloadSource& payload) {
  MappedTarget* const queue_owner = queue_owners_.find(payload.srq, number_);
  if (queue_owner == nullptr) return false;
  DirectTarget& proxy = queue_owner->target();
  const TargetLock target_lock(proxy);
  if (proxy.qpn != number_.value()) return false;
  const auto& regions = queue_owner->peer().regions();
  region::KeyCache unused;
  const auto region = regions.find_locked(payload.key, payload.address, payload.length,
                                          region::kRemoteRead, {payload.pd, number_}, unused);
  if (!region) return false;
  return burst.append_filled(payload.length, [&](MutableByteSpan room) {
    return queue_owner->copy_plain(**region, address_in(**region, payload.address), room.data(),
                                   room.size(), false);
  });
}

}  // namespace verbatim::adapter
