#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "adapter/direct/execute.h"
#include "adapter/memory/scatter.h"
#include "adapter/queue_pair/core/core.h"
#include "base/os/fence.h"
#include "base/overloaded.h"
#include "region/held_memory.h"
#include "transport/effects.h"

/// How a queue pair carries out what its engines ask for. InfiniBand's engines and iWARP's ask for
/// the same.
namespace verbatim::adapter::services {

/// Carries out one effect of a requester. `refused` becomes its slot if the request's memory
/// refuses, and stays if another has refused before.
void carry_out(QueuePairCore& core, const transport::RequesterEffect& effect,
               std::optional<transport::Slot>& refused);

/// Carries out a requester's effects until none is left. `refuse(slot)` tells the requester that
/// the memory of a request has refused.
template <typename Requester, typename Refuse>
void drain(QueuePairCore& core, transport::RequesterEffects& effects, Requester& requester,
           Refuse refuse) {
  bool more = false;
  do {
    std::optional<transport::Slot> refused;
    for (const auto& effect : effects.list) carry_out(core, effect, refused);
    more |= effects.more;
    effects.list.clear();
    effects.more = false;
    if (refused) {
      refuse(*refused);  // Before what follows: a refused request must not complete as a success.
    } else if (std::exchange(more, false)) {
      requester.resume(effects);
    }
  } while (more || effects.more || !effects.list.empty());
}

/// Ends all requests that are the requester's as flushed.
template <typename Requester>
void flush(QueuePairCore& core, transport::RequesterEffects& effects, Requester& requester) {
  do {
    effects.list.clear();
    effects.more = false;
    requester.flush(effects);
    std::optional<transport::Slot> refused;
    for (const auto& effect : effects.list) carry_out(core, effect, refused);
  } while (effects.more);
  effects.list.clear();
}

/// What refused an effect of a responder.
enum class Refused : std::uint8_t { nothing, region, receive_memory };

inline Refused refused_unless(bool done, Refused refusal) {
  return done ? Refused::nothing : refusal;
}

Refused place(QueuePairCore& core, const transport::PlaceReceive& place);
Refused place(QueuePairCore& core, const transport::PlaceWrite& place,
              const region::Accessor& peer);
void fail(QueuePairCore& core, const transport::ResponderFailed& failed);

/// Carries out one effect of a responder, for a peer that is `peer` to the region table.
template <typename Responder>
Refused carry_out(QueuePairCore& core, const transport::ResponderEffect& effect,
                  Responder& responder, const region::Accessor& peer) {
  return std::visit(
      Overloaded{[&](const transport::PlaceReceive& receive) { return place(core, receive); },
                 [&](const transport::PlaceWrite& write) { return place(core, write, peer); },
                 [&](const transport::ExecuteAtomic& atomic) {
                   const auto original = execute(core.regions, atomic, peer);
                   if (original) responder.on_atomic_result(*original);
                   return refused_unless(original.has_value(), Refused::region);
                 },
                 [&](const transport::ExecuteAtomicWrite& write) {
                   const bool done = execute(core.regions, write, peer);
                   if (done) responder.on_atomic_result(0);
                   return refused_unless(done, Refused::region);
                 },
                 [&](const transport::ExecuteFlush&) {
                   // What the peer wrote is in this machine's memory when it is placed: all that a
                   // flush to global visibility asks for is its order.
                   full_fence();
                   responder.on_atomic_result(0);
                   return Refused::nothing;
                 },
                 [&](const transport::InvalidateKey& invalidate) {
                   core.placing.release();  // Else it might wait for ourselves.
                   return refused_unless(core.regions.invalidate(invalidate.key, peer).has_value(),
                                         Refused::region);
                 },
                 [&](const transport::CompleteReceive& receive) {
                   core.complete_receive(receive);
                   return Refused::nothing;
                 },
                 [&](const transport::Established&) {
                   if (core.state() == QpState::rtr) {
                     core.raise(AsyncEventType::communication_established);
                   }
                   return Refused::nothing;
                 },
                 [&](const transport::ResponderFailed& failed) {
                   fail(core, failed);
                   return Refused::nothing;
                 }},
      effect);
}

/// Carries out a responder's effects by `carry_out(effect)`, until none is left. What follows a
/// refusal does not happen: `engine` is told, and its effects take their place.
template <typename Engine, typename CarryOut>
void drain(transport::ResponderEffects& effects, Engine& engine, CarryOut carry_out) {
  for (;;) {
    Refused refused = Refused::nothing;
    for (const auto& effect : effects) {
      refused = carry_out(effect);
      if (refused != Refused::nothing) break;
    }
    effects.clear();
    if (refused == Refused::nothing) return;
    refused == Refused::region ? engine.on_region_error(effects)
                               : engine.on_receive_memory_error(effects);
  }
}

}  // namespace verbatim::adapter::services
