#include "adapter/adapter.h"
#include "adapter/burst.h"
#include "adapter/execute.h"
#include "adapter/queue_pair.h"
#include "base/fence.h"
#include "base/log.h"
#include "base/overloaded.h"

/// An XRC target whose requests name queues of other programs (xrc_hosts.h): packets for them, and
/// the requesters of the direct path, who ask for the host.
namespace verbatim::adapter {

namespace {

/// Payload of a SEND. False also where the queue has been destroyed since the message began.
bool place_at(DirectPlace& host, const transport::PlaceReceive& place, const LocalMemory& payload) {
  if (!host.target().holds_receive) return false;
  return place.payload.empty() || host.copy_to_receive(payload, 0, place.payload.size(),
                                                       place.offset) == DirectPlace::Copied::all;
}

bool write_at(DirectPlace& host, const transport::PlaceWrite& write, Qpn qpn) {
  const auto region =
      host.visit(write.key, write.address, write.payload.size(), region::kRemoteWrite, qpn);
  if (!region) return false;
  return host.copy_plain(**region, address_in(**region, write.address),
                         const_cast<std::byte*>(write.payload.data()), write.payload.size(), true);
}

}  // namespace

/// Null: no program has the queue, or it is of another domain, or its program has no guest left.
DirectPlace* QueuePair::host_of(SrqNumber number) {
  if (DirectPlace* const known = hosts_.find(number, number_)) return known;
  if (!options_.xrc_file.exists()) return nullptr;
  const SocketAddress& own = adapter_.node().gids[attributes_.address.source_gid_index].address;
  auto peer = adapter_.find_peer(own, Qpn(raw(number)));
  if (peer == nullptr || peer->is_own()) return nullptr;
  const XrcQueue& queue = peer->xrc_queue(number);
  const bool is_there = queue.number.load(std::memory_order_acquire) == raw(number) &&
                        queue.file == options_.xrc_file;
  if (!is_there) return nullptr;
  const auto guest = take_guest(*peer, number_);
  if (guest) return hosts_.add(std::move(peer), number, *guest);
  log(LogLevel::warn,
      "QP {:#x}: the program of XRC queue {:#x} serves {} queue pairs of others "
      "already",
      number_.value(), raw(number), kGuestsMax);
  return nullptr;
}

void QueuePair::tell_host() {
  Assist& wanted = target_.assist;
  const DirectPlace* const host = host_of(SrqNumber{wanted.key});
  if (host != nullptr) wanted.original = host->local_number();
  wanted.state.store(host != nullptr ? Assist::done : Assist::refused, std::memory_order_release);
}

/// The receives of a host's queue that the packet names.
class QueuePair::HostReceives final : public transport::ReceiveSource {
 public:
  HostReceives(DirectPlace& host, SrqNumber number) : host_(host), number_(number) {}
  bool take(const wire::Packet&, transport::Receive& out) override {
    if (!host_.take_receive()) return false;
    out = {.ticket = 0, .capacity_bytes = host_.target().receive.capacity_bytes};
    return true;
  }
  std::optional<PdNumber> domain_of(SrqNumber number) override {
    if (number != number_) return std::nullopt;
    return host_.target().pd;
  }

 private:
  DirectPlace& host_;
  const SrqNumber number_;
};

bool QueuePair::on_packet_for_host(const wire::Packet& packet) {
  const SrqNumber number = packet.headers.xrc_eth.srq;
  DirectPlace* const host = host_of(number);
  if (host == nullptr) return false;
  DirectTarget& guest = host->target();
  const TargetVisit visit(guest);
  if (guest.qpn != number_.value()) return false;
  if (!guest.enter(host->peer().xrc_queue(number), number, options_.xrc_file)) return false;
  HostReceives receives(*host, number);
  transport::ResponderEffects effects;
  host_ = host;
  responder_.on_packet(packet, receives, host->peer().regions(), effects);
  drain(effects);
  host_ = nullptr;
  return true;
}

/// False: it is none that concerns the host.
bool QueuePair::apply_at_host(const transport::ResponderEffect& effect) {
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
            return check(place_at(*host_, place, payload), Refused::receive_memory);
          },
          [&](const transport::PlaceWrite& write) {
            return check(write_at(*host_, write, number_), Refused::region);
          },
          [&](const transport::ExecuteAtomic& atomic) {
            return answer(execute_at(*host_, atomic, number_));
          },
          [&](const transport::ExecuteAtomicWrite& write) {
            return answer(execute_at(*host_, write, number_));
          },
          // Windows of type 2 are bound by queue pairs of the host: none is this one's.
          [&](const transport::InvalidateKey&) { return check(false, Refused::region); },
          [&](const transport::CompleteReceive& receive) {
            complete_at_host(receive);
            return true;
          },
          [](const auto&) { return false; }},
      effect);
}

void QueuePair::complete_at_host(const transport::CompleteReceive& receive) {
  const DirectTarget& guest = host_->target();
  if (!guest.holds_receive) return;
  const Completion completion = completion_of(receive, guest.receive.wr_id);
  if (!host_->end_receive(completion, receive.solicited)) fatal_ = true;
}

/// The bytes of a READ response. False: the host's memory refuses.
bool QueuePair::append_from_host(Burst& burst, const transport::PayloadSource& payload) {
  DirectPlace* const host = hosts_.find(payload.srq, number_);
  if (host == nullptr) return false;
  DirectTarget& guest = host->target();
  const TargetVisit visit(guest);
  if (guest.qpn != number_.value()) return false;
  const auto& regions = host->peer().regions();
  region::KeyCache unused;
  const auto region = regions.visit(payload.key, payload.address, payload.length,
                                    region::kRemoteRead, {payload.pd, number_}, unused);
  if (!region) return false;
  return burst.append_filled(payload.length, [&](MutableByteSpan room) {
    return host->copy_plain(**region, address_in(**region, payload.address), room.data(),
                            room.size(), false);
  });
}

}  // namespace verbatim::adapter
