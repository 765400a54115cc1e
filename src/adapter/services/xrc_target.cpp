#include "adapter/services/xrc_target.h"

#include "adapter/direct/execute.h"
#include "base/overloaded.h"

namespace verbatim::adapter::services {
namespace {

using Copied = MappedTarget::Copied;

/// Calls `copy` until the owner does not move its memory. The proxy target stays locked, so the
/// owner gives up soon.
template <typename Copy>
bool copies_all(MappedTarget& owner, Copy copy) {
  TimeNs end_of_waits = 0;
  Copied copied = copy();
  while (copied == Copied::later && owner.wait_while_memory_moves(end_of_waits)) copied = copy();
  return copied == Copied::all;
}

/// Payload of a SEND. Returns false also if the queue has been destroyed since the message began.
bool place_at(MappedTarget& owner, const transport::PlaceReceive& place,
              const LocalMemory& payload) {
  if (!owner.target().holds_receive) return false;
  return place.payload.empty() || copies_all(owner, [&] {
           return owner.copy_to_receive(payload, 0, place.payload.size(), place.offset);
         });
}

bool write_at(MappedTarget& owner, const transport::PlaceWrite& write, Qpn qpn) {
  const auto region =
      owner.find_locked(write.key, write.address, write.payload.size(), region::kRemoteWrite, qpn);
  if (!region) return false;
  auto* const payload = const_cast<std::byte*>(write.payload.data());  // Only read.
  return copies_all(owner, [&] {
    return owner.copy_plain(**region, address_in(**region, write.address), payload,
                            write.payload.size(), true);
  });
}

/// The receives of the other program's queue that a packet names.
class OwnerReceives final : public transport::ReceiveSource {
 public:
  OwnerReceives(MappedTarget& owner, SrqNumber number) : owner_(owner), number_(number) {}
  bool take(const wire::Packet&, transport::Receive& out) override {
    if (!owner_.take_receive()) return false;
    out = {.ticket = 0, .capacity_bytes = owner_.target().receive.capacity_bytes};
    return true;
  }
  std::optional<PdNumber> domain_of(SrqNumber number) override {
    if (number != number_) return std::nullopt;
    return owner_.target().pd;
  }

 private:
  MappedTarget& owner_;
  const SrqNumber number_;
};

}  // namespace

bool XrcTarget::on_packet(const wire::Packet& packet) {
  const SrqNumber number = packet.headers.xrc_eth.srq;
  MappedTarget* const owner = direct_.queue_owner_of(number);
  if (owner == nullptr) return false;
  DirectTarget& proxy = owner->target();
  if (!owner->lock_soon()) return true;  // As if the packet had been lost.
  const TargetLock target_lock(proxy, std::adopt_lock);
  if (proxy.qpn != core_.number.value()) return false;
  const XrcQueue& queue = owner->peer().xrc_queue(number);
  if (!proxy.enter(queue, number, core_.options.xrc_file)) return false;
  OwnerReceives receives(*owner, number);
  transport::ResponderEffects effects;
  responder_.on_packet(packet, receives, owner->peer().regions(), effects);
  drain(effects, responder_, [&](const transport::ResponderEffect& effect) {
    if (const auto there = carry_out_there(*owner, effect)) return *there;
    return carry_out(core_, effect, responder_, {responder_.config().pd, core_.number});
  });
  return true;
}

/// Nothing: the effect does not concern the other program.
std::optional<Refused> XrcTarget::carry_out_there(MappedTarget& owner,
                                                  const transport::ResponderEffect& effect) {
  const auto answer = [&](std::optional<std::uint64_t> original) {
    if (original) responder_.on_atomic_result(*original);
    return refused_unless(original.has_value(), Refused::region);
  };
  using Result = std::optional<Refused>;
  return std::visit(
      Overloaded{[&](const transport::PlaceReceive& place) -> Result {
                   const LocalMemory payload{.regions = core_.regions,
                                             .segments = {},
                                             .inlined = place.payload,
                                             .cache = core_.local_key};
                   return refused_unless(place_at(owner, place, payload), Refused::receive_memory);
                 },
                 [&](const transport::PlaceWrite& write) -> Result {
                   return refused_unless(write_at(owner, write, core_.number), Refused::region);
                 },
                 [&](const transport::ExecuteAtomic& atomic) -> Result {
                   return answer(execute_at(owner, atomic, core_.number));
                 },
                 [&](const transport::ExecuteAtomicWrite& write) -> Result {
                   return answer(execute_at(owner, write, core_.number));
                 },
                 // Windows of type 2 are bound by queue pairs of their program: none is this one's.
                 [](const transport::InvalidateKey&) -> Result { return Refused::region; },
                 [&](const transport::CompleteReceive& receive) -> Result {
                   complete_receive(owner, receive);
                   return Refused::nothing;
                 },
                 [](const auto&) -> Result { return std::nullopt; }},
      effect);
}

void XrcTarget::complete_receive(MappedTarget& owner, const transport::CompleteReceive& receive) {
  const DirectTarget& proxy = owner.target();
  if (!proxy.holds_receive) return;
  const Completion completion = core_.completion_of(receive, proxy.receive.wr_id);
  if (owner.end_receive(completion, receive.solicited) == MappedTarget::Ended::without_room)
    core_.fatal = true;
}

bool XrcTarget::append(port::Burst& burst, const transport::PayloadSource& payload) {
  MappedTarget* const owner = direct_.known_queue_owner(payload.srq);
  if (owner == nullptr) return false;
  DirectTarget& proxy = owner->target();
  const TargetLock target_lock(proxy);
  if (proxy.qpn != core_.number.value()) return false;
  region::KeyCache unused;
  const auto region =
      owner->peer().regions().find_locked(payload.key, payload.address, payload.length,
                                          region::kRemoteRead, {payload.pd, core_.number}, unused);
  if (!region) return false;
  return burst.append_filled(payload.length, [&](MutableByteSpan room) {
    return copies_all(*owner, [&] {
      return owner->copy_plain(**region, address_in(**region, payload.address), room.data(),
                               room.size(), false);
    });
  });
}

}  // namespace verbatim::adapter::services
