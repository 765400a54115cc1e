// What becomes of frames: from a port, by the switch, to ports and to the driver.
#include <algorithm>
#include <span>

#include "offload/card/burst.h"
#include "offload/card/card.h"

namespace verbatim::offload {

/// Returns the size of the next frame; 0: there is none.
std::size_t Card::Port::read(MutableByteSpan room, ArrivedFrame& frame) {
  frame = {};
  const std::size_t size =
      tap() != nullptr ? tap()->read(room, frame.note) : rings()->read(room, frame.rest);
  frame.bytes = room.first(size);
  return size;
}

std::size_t Card::serve_port(std::uint16_t p) {
  Port& port = ports_[p];
  std::size_t count = 0;
  // Large frames: what was read is written again while it is in the processor's cache.
  for (std::size_t bytes = 0; count < Switch::kBatch && bytes < kBytesInABurst; ++count) {
    ArrivedFrame& frame = burst_->frames[count];
    const std::size_t size = port.read(burst_->room(count), frame);
    if (size == 0) {
      port.is_ready = false;
      break;
    }
    bytes += size;
    Arrival& arrival = burst_->arrivals[count];
    arrival = {.frame = frame.bytes, .port = p, .packets = 1, .bytes = size};
    if (frame.note.kind != LargeKind::kNone) {
      if (const auto segments = Segments::of(frame.bytes, frame.note)) {
        arrival.packets = segments->count();
        arrival.bytes = segments->bytes();
      }
      arrival.is_plain = false;
    }
    burst_->verdicts[count] = {};
  }
  const std::span arrivals = std::span(burst_->arrivals).first(count);
  switch_->decide(arrivals, burst_->verdicts, [&](std::uint32_t id, const Arrival& arrival) {
    vnic_counter& counter = driver_->counter(id);
    offload::count(counter.packets, arrival.packets);
    offload::count(counter.bytes, arrival.bytes);
  });
  for (std::size_t i = 0; i < count; ++i) {
    const Arrival& arrival = arrivals[i];
    const Verdict& verdict = burst_->verdicts[i];
    if (verdict.rule != kNoRule) {
      port.counters.offloaded_packets += arrival.packets;
      port.counters.offloaded_bytes += arrival.bytes;
    }
    handle(arrival, verdict, burst_->frames[i]);
  }
  if (count != 0) publish_to_members();
  return count;
}

void Card::handle(const Arrival& arrival, const Verdict& verdict, ArrivedFrame& frame) {
  if (verdict.rule == kNoRule) {
    frame.complete();
    return to_driver(arrival.port, verdict, frame.bytes, frame.note);
  }
  const bool is_metered = verdict.actions.front().kind == ActionKind::kMeter;
  if (frame.note.is_plain() || !has_to_be_cut(arrival, verdict)) {
    return carry_out(verdict, frame, is_metered && !frame.note.is_plain());
  }
  auto segments = Segments::of(frame.bytes, frame.note);
  if (!segments) return;
  const MutableByteSpan room = burst_->packet_room();
  while (const std::size_t size = segments->next(room)) {
    ArrivedFrame packet{.bytes = room.first(size), .rest = {}, .note = {}};
    carry_out(verdict, packet, false);
  }
}

/// A large frame: tunnels need packets; a meter does, too, unless it is the first action and lets
/// all of them pass, which it has counted then.
bool Card::has_to_be_cut(const Arrival& arrival, const Verdict& verdict) {
  const auto is = [](auto of) { return [of](const Action& action) { return of(action.kind); }; };
  const auto meter = [](ActionKind kind) { return kind == ActionKind::kMeter; };
  if (std::ranges::any_of(verdict.actions, is(is_tunnel))) return true;
  const auto meters = std::ranges::count_if(verdict.actions, is(meter));
  const Action& first = verdict.actions.front();
  if (meters == 0) return false;
  return meters != 1 || !meter(first.kind) || !ask_meter(first.value, [&](MeterCount& count) {
           return meters_.pass_whole(first.value, arrival.packets, arrival.bytes, now_, count);
         });
}

/// Adds what the meter has counted to what the driver sees.
template <typename Ask>
bool Card::ask_meter(std::uint32_t id, Ask ask) {
  MeterCount met;
  const bool passes = ask(met);
  if (id >= meters_.max()) return passes;
  vnic_meter_counter& counter = driver_->meter_counter(id);
  for (std::size_t color = 0; color < VNIC_COLORS; ++color) {
    offload::count(counter.packets[color], met.packets[color]);
    offload::count(counter.bytes[color], met.bytes[color]);
  }
  offload::count(counter.dropped_packets, met.dropped_packets);
  offload::count(counter.dropped_bytes, met.dropped_bytes);
  return passes;
}

/// `has_met_meter`: the first action, a meter, has been asked.
void Card::carry_out(const Verdict& verdict, ArrivedFrame& frame, bool has_met_meter) {
  std::optional<EditedFrame> edited;
  for (const Action& action : verdict.actions.subspan(has_met_meter ? 1 : 0)) {
    const ByteSpan now = edited ? edited->frame() : frame.bytes;
    if (action.kind == ActionKind::kOutput) {
      if (edited) {
        output(action.port, now, {}, edited->note());
      } else {
        output(action.port, frame.head(), frame.rest, frame.note);
      }
    } else if (action.kind == ActionKind::kMeter) {
      const bool passes = ask_meter(action.value, [&](MeterCount& count) {
        return meters_.pass(action.value, now.size(), now_, count);
      });
      if (!passes) return;
    } else if (is_edit(action.kind)) {
      frame.complete();
      if (!edited) edited.emplace(frame.bytes, frame.note, verdict.hash);
      if (edited->apply(action)) continue;
      ++unedited_drops_;
      return;
    }
  }
}

void Card::output(std::uint16_t port, ByteSpan head, ByteSpan rest, const FrameNote& note) {
  const bool is_taken = ports_[port].visit([&](auto& end) { return end.write(head, rest, note); });
  if (!is_taken) ++ports_[port].counters.egress_dropped;
}

/// Software gets what would be on the wire: packets with their checksums.
void Card::to_driver(std::uint16_t port, const Verdict& verdict, ByteSpan frame,
                     const FrameNote& note) {
  vnic_port_counters& counters = ports_[port].counters;
  auto segments = Segments::of(frame, note);
  if (driver_ == nullptr || !driver_->is_started(port) || !segments) {
    ++undecided_drops_;
    return;
  }
  for (std::uint32_t i = 0; i < segments->count(); ++i) {
    std::size_t size = 0;
    const bool is_delivered = driver_->deliver(port, verdict.hash, verdict.mark, [&](auto room) {
      size = segments->next(room);
      return size;
    });
    has_delivered_ |= is_delivered;
    if (is_delivered) {
      ++counters.missed_packets;
      counters.missed_bytes += size;
    } else {
      ++counters.no_buffer_dropped;
    }
  }
}

}  // namespace verbatim::offload
