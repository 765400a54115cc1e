#include <algorithm>
#include <vector>

#include "link/decorators/faults.h"
#include "link/decorators/faulty_packets.h"
#include "wire/net/ip.h"

/// Faults of received packets.
namespace verbatim::link {

/// Passes on, in runs, the packets that the plan does not hit.
class Faults::FaultySink final : public Sink {
 public:
  FaultySink(Faults& faults, Sink& to) : faults_(faults), to_(to) {}

  void on_packets(const Received& packets, TimeNs now) override {
    if (packets.packet_bytes == 0) return to_.on_packets(packets, now);
    if (faults_.is_infiniband_) return on_infiniband_packets(packets, now);
    if (packets.from == nullptr || packets.to == nullptr) return to_.on_packets(packets, now);
    const std::size_t count =
        (packets.bytes.size() + packets.packet_bytes - 1) / packets.packet_bytes;
    const auto packet = [&packets](std::size_t i) {
      return packet_of(packets.bytes, packets.packet_bytes, i);
    };
    const auto decisions =
        faults_.decide(Direction::receive, *packets.from, count,
                       [&](std::size_t i) { return from_bth(*packets.from, packet(i)); });
    if (decisions.empty()) return to_.on_packets(packets, now);
    std::size_t run = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (decisions[i].is_none()) continue;
      if (i > run) pass(packets, packet(run).data(), packet(i).data(), now);
      on_unlucky(packets, packet(i), decisions[i], now);
      run = i + 1;
    }
    std::byte* const end = packets.bytes.data() + packets.bytes.size();
    if (run < count) pass(packets, packet(run).data(), end, now);
  }
  void on_room() override { to_.on_room(); }

 private:
  /// What is damaged on the last cable, this port finds by its CRC.
  void on_infiniband_packets(const Received& packets, TimeNs now) {
    for (std::size_t at = 0; at < packets.bytes.size(); at += packets.packet_bytes) {
      const MutableByteSpan packet =
          packet_of(packets.bytes, packets.packet_bytes, at / packets.packet_bytes);
      const Path sender = sender_of(packet);
      const auto decisions = faults_.decide(Direction::receive, sender, 1, [&](std::size_t) {
        return from_bth(sender, ByteSpan(packet));
      });
      if (decisions.empty()) {
        pass(packets, packet.data(), packet.data() + packet.size(), now);
      } else {
        (decisions[0].lose ? faults_.counters_.lost : faults_.counters_.corrupted).add();
      }
    }
  }
  void pass(const Received& like, std::byte* begin, std::byte* end, TimeNs now) {
    Received run = like;
    run.bytes = MutableByteSpan(begin, end);
    run.packet_bytes = std::min(like.packet_bytes, run.bytes.size());
    to_.on_packets(run, now);
  }
  void on_unlucky(const Received& like, MutableByteSpan packet, const FaultDecision& decision,
                  TimeNs now) {
    Received one = like;
    one.bytes = packet;
    one.packet_bytes = packet.size();
    if (decision.lose) {
      faults_.counters_.lost.add();
      return;  // A capture has it: it was on the wire.
    }
    if (decision.corrupt) {
      faults_.counters_.corrupted.add();
      const wire::IcrcSeed seed(wire::flow_of(address_of(*like.from), address_of(*like.to)));
      corrupt(seed, from_bth(*like.from, packet), decision.random);
    }
    if (decision.duplicate) {
      // The receiver may write to the bytes.
      std::vector<std::byte> copy(packet.begin(), packet.end());
      faults_.counters_.duplicated.add();
      pass(one, copy.data(), copy.data() + copy.size(), now);
    }
    to_.on_packets(one, now);
  }

  Faults& faults_;
  Sink& to_;
};

std::size_t Faults::receive(Sink& sink, TimeNs now) {
  FaultySink faulty(*this, sink);
  return next().receive(faulty, now);
}

}  // namespace verbatim::link
