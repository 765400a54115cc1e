#include "adapter/adapter.h"
#include "adapter/progress.h"
#include "adapter/queue_pair.h"
#include "wire/ip.h"
#include "wire/packet.h"

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
  Reception(Progress& progress, const mover::ReceivedDatagrams& origin, TimeNs now)
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
  const mover::ReceivedDatagrams& origin_;
  const TimeNs now_;
  QueuePair* queue_pair_ = nullptr;
  std::unique_lock<std::mutex> guard_;  // Its lock.
};

void Progress::on_datagrams(const mover::ReceivedDatagrams& datagrams, const Source& source,
                            TimeNs now) {
  const wire::IcrcSeed seed({.source = gid_of(datagrams.source),
                             .destination = gid_of(datagrams.destination),
                             .source_port = datagrams.source.port(),
                             .destination_port = datagrams.destination.port()});
  std::uint16_t first_identification = 0;
  Reception reception(*this, datagrams, now);
  const auto serve = [&](bool responses) {
    std::uint16_t index = 0;
    for (std::size_t at = 0; at < datagrams.bytes.size(); at += datagrams.segment_size, ++index) {
      const std::size_t length = std::min(datagrams.segment_size, datagrams.bytes.size() - at);
      const ByteSpan bytes = datagrams.bytes.subspan(at, length);
      if (is_response(bytes) != responses) continue;
      auto identification = static_cast<std::uint16_t>(first_identification + index);
      on_datagram(bytes, seed, identification, source, reception);
      first_identification = static_cast<std::uint16_t>(identification - index);
    }
  };
  // Our own sender puts an acknowledgement behind the request that rides in the same datagram; the
  // program's request completes before its peer's answer is seen, as with a card.
  serve(true);
  serve(false);
}

/// `identification` is what this datagram's IP header probably says; it becomes what it does say.
void Progress::on_datagram(ByteSpan bytes, const wire::IcrcSeed& seed,
                           std::uint16_t& identification, const Source& source,
                           Reception& reception) {
  auto& counters = adapter_.arena().header().port_counters;
  counters.packets_received.add_exclusive();
  counters.bytes_received.add_exclusive(bytes.size());
  if (bytes.size() < wire::Bth::kSize + wire::kIcrcBytes) return counters.malformed.add();
  const auto found = wire::verify_icrc(seed, bytes, identification);
  if (!found) return counters.icrc_errors.add();
  identification = *found;
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
