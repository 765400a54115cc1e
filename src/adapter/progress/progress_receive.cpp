#include "adapter/adapter.h"
#include "adapter/progress/progress.h"
#include "adapter/queue_pair/queue_pair.h"
#include "wire/ib/packet.h"
#include "wire/net/grh.h"
#include "wire/net/ip.h"

/// From received datagrams to queue pairs.
namespace verbatim::adapter {
namespace {

/// By the opcode, before anything is checked: it only decides which packets of a merged datagram
/// come first.
bool is_response(ByteSpan bytes) {
  const auto& info = wire::info(static_cast<wire::Opcode>(bytes.front()));
  return info.known && !info.is_request;
}

}  // namespace

/// Datagrams that came together, on their way to queue pairs: mostly all to one, whose lock is
/// taken once.
class Progress::Reception {
 public:
  Reception(Progress& progress, const link::ReceivedDatagrams& origin, TimeNs now)
      : progress_(progress), origin_(origin), now_(now) {}
  ~Reception() { end(); }
  Reception(const Reception&) = delete;
  Reception& operator=(const Reception&) = delete;

  void deliver(QueuePair& queue_pair, const wire::Packet& packet) {
    if (queue_pair_ != &queue_pair) {
      end();
      guard_ = std::unique_lock(queue_pair.lock_);
      queue_pair_ = &queue_pair;
    }
    queue_pair.on_packet(packet, origin_.source, origin_.destination, now_);
  }

 private:
  void end() {
    if (queue_pair_ == nullptr) return;
    const bool has_output = queue_pair_->end_reception();
    guard_.unlock();
    if (has_output) progress_.note_output(*queue_pair_);
    queue_pair_ = nullptr;
  }

  Progress& progress_;
  const link::ReceivedDatagrams& origin_;
  const TimeNs now_;
  QueuePair* queue_pair_ = nullptr;
  std::unique_lock<Mutex> guard_;  // Its lock.
};

/// RoCE v1: the addresses are in the packet itself.
void Progress::on_frame(const link::ReceivedDatagrams& frame, const Source& source, TimeNs now) {
  const auto packet = wire::decode_grh_packet(frame.bytes);
  const std::uint32_t scope = adapter_.node().interface_index;
  const auto from = packet ? resolve_gid(packet->grh.source, scope) : refuse(EPROTO, "no GRH");
  const auto to = packet ? resolve_gid(packet->grh.destination, scope) : refuse(EPROTO, "no GRH");
  if (!from || !to) return adapter_.arena().header().port_counters.malformed.add();
  on_datagrams({.source = from->with_port(0),
                .destination = to->with_port(0),
                .segment_size = packet->packet.size(),
                .bytes = packet->packet},
               source, now);
}

void Progress::on_datagrams(const link::ReceivedDatagrams& datagrams, const Source& source,
                            TimeNs now) {
  if (datagrams.source.empty()) return on_frame(datagrams, source, now);
  if (!route_ || !route_->is_of(datagrams.source, datagrams.destination)) {
    route_.emplace(datagrams.source, datagrams.destination);
  }
  // All are checked before any is placed: placing is stores, which a checksum would wait for.
  std::array<Arrival, kDatagramsMax> arrivals;
  std::size_t count = 0;
  std::uint16_t first_identification = 0;
  std::uint16_t index = 0;
  const auto& all = datagrams.bytes;
  for (std::size_t at = 0; at < all.size(); at += datagrams.segment_size, ++index) {
    const ByteSpan bytes = all.subspan(at, std::min(datagrams.segment_size, all.size() - at));
    auto identification = static_cast<std::uint16_t>(first_identification + index);
    if (!is_good(bytes, route_->seed, identification)) continue;
    first_identification = static_cast<std::uint16_t>(identification - index);
    arrivals[count++] = {bytes, is_response(bytes)};
    if (count < arrivals.size()) continue;
    deliver(std::span(arrivals).first(count), datagrams, source, now);
    count = 0;
  }
  deliver(std::span(arrivals).first(count), datagrams, source, now);
}

/// `identification` is what this datagram's IP header probably says; it becomes what it does say.
bool Progress::is_good(ByteSpan bytes, const wire::IcrcSeed& seed, std::uint16_t& identification) {
  auto& counters = adapter_.arena().header().port_counters;
  counters.packets_received.add_exclusive();
  counters.bytes_received.add_exclusive(bytes.size());
  if (bytes.size() < wire::Bth::kSize + wire::kIcrcBytes) {
    counters.malformed.add();
    return false;
  }
  const auto found = wire::verify_icrc(seed, bytes, identification);
  if (!found) {
    counters.icrc_errors.add();
    return false;
  }
  identification = *found;
  return true;
}

/// Our own sender puts an acknowledgement behind the request that rides in the same datagram; the
/// program's request completes before its peer's answer is seen, as with a card.
void Progress::deliver(std::span<const Arrival> arrivals, const link::ReceivedDatagrams& origin,
                       const Source& source, TimeNs now) {
  Reception reception(*this, origin, now);
  for (const bool responses : {true, false}) {
    for (const Arrival& one : arrivals) {
      if (one.is_response == responses) on_datagram(one.bytes, source, reception);
    }
  }
}

void Progress::on_datagram(ByteSpan bytes, const Source& source, Reception& reception) {
  auto& counters = adapter_.arena().header().port_counters;
  const auto packet = wire::decode_packet(bytes.first(bytes.size() - wire::kIcrcBytes));
  if (!packet) return counters.malformed.add();
  const wire::Bth& bth = packet->headers.bth;
  // IBA 10.9.3: the lower 15 bits match, and one of the two is a full member.
  if ((raw(bth.pkey) & 0x7fff) != (raw(kDefaultPKey) & 0x7fff))
    return counters.pkey_violations.add();
  if (bth.dest_qp == kMulticastQpn) {
    for (QueuePair* member : adapter_.members(source.group)) {
      reception.deliver(*member, *packet);
    }
  } else if (QueuePair* queue_pair = adapter_.find(bth.dest_qp)) {
    reception.deliver(*queue_pair, *packet);
  } else {
    counters.dropped_no_qp.add();
  }
}

}  // namespace verbatim::adapter
