// What becomes of frames: from a port, by the switch, to ports and to the driver.
#include <algorithm>
#include <span>

#include "offload/card/burst.h"
#include "offload/card/card.h"

namespace verbatim::offload {

std::size_t Card::serve_port(std::uint16_t p) {
  Port& port = ports_[p];
  std::size_t count = 0;
  // Large frames: what was read is written again while it is in the processor's cache.
  for (std::size_t bytes = 0; count < Switch::kBatch && bytes < kBytesInABurst; ++count) {
    FrameNote& note = burst_->notes[count];
    const std::size_t size =
        port.visit([&](auto& end) { return end.read(burst_->room(count), note); });
    if (size == 0) {
      port.is_ready = false;
      break;
    }
    bytes += size;
    const ByteSpan frame = burst_->room(count).first(size);
    Arrival& arrival = burst_->arrivals[count];
    arrival = {.frame = frame, .port = p, .packets = 1, .bytes = size};
    if (note.kind != LargeKind::kNone) {
      if (const auto segments = Segments::of(frame, note)) {
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
    handle(arrival, verdict, burst_->room(i).first(arrival.frame.size()), burst_->notes[i]);
  }
  return count;
}

void Card::handle(const Arrival& arrival, const Verdict& verdict, MutableByteSpan frame,
                  const FrameNote& note) {
  if (verdict.rule == kNoRule) return to_driver(arrival.port, verdict, frame, note);
  const bool is_metered = verdict.actions.front().kind == ActionKind::kMeter;
  if (note.is_plain() || !has_to_be_cut(arrival, verdict)) {
    return carry_out(verdict, frame, note, is_metered && !note.is_plain());
  }
  auto segments = Segments::of(frame, note);
  if (!segments) return;
  const MutableByteSpan room = burst_->packet_room();
  while (const std::size_t size = segments->next(room)) {
    carry_out(verdict, room.first(size), {}, false);
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
void Card::carry_out(const Verdict& verdict, MutableByteSpan frame, const FrameNote& note,
                     bool has_met_meter) {
  std::optional<EditedFrame> edited;
  for (const Action& action : verdict.actions.subspan(has_met_meter ? 1 : 0)) {
    const ByteSpan now = edited ? edited->frame() : frame;
    if (action.kind == ActionKind::kOutput) {
      output(action.port, now, edited ? edited->note() : note);
    } else if (action.kind == ActionKind::kMeter) {
      const bool passes = ask_meter(action.value, [&](MeterCount& count) {
        return meters_.pass(action.value, now.size(), now_, count);
      });
      if (!passes) return;
    } else if (is_edit(action.kind)) {
      if (!edited) edited.emplace(frame, note, verdict.hash);
      if (edited->apply(action)) continue;
      ++unedited_drops_;
      return;
    }
  }
}

void Card::output(std::uint16_t port, ByteSpan frame, const FrameNote& note) {
  const bool is_taken = ports_[port].visit([&](auto& end) { return end.write(frame, note); });
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
