#include "adapter/adapter.h"
#include "adapter/progress.h"
#include "adapter/queue_pair.h"
#include "wire/ip.h"
#include "wire/packet.h"

/// From received datagrams to queue pairs.
namespace verbatim::adapter {

void Progress::on_datagrams(const mover::ReceivedDatagrams& datagrams, const Source& source,
                            TimeNs now) {
  const wire::IcrcSeed seed({.source = gid_of(datagrams.source),
                             .destination = gid_of(datagrams.destination),
                             .source_port = datagrams.source.port(),
                             .destination_port = datagrams.destination.port()});
  std::uint16_t identification = 0;
  for (std::size_t at = 0; at < datagrams.bytes.size(); at += datagrams.segment_size) {
    const std::size_t length = std::min(datagrams.segment_size, datagrams.bytes.size() - at);
    on_datagram(datagrams.bytes.subspan(at, length), seed, identification, datagrams, source, now);
  }
}

/// `identification` is what this datagram's IP header probably says; it becomes the next one's.
void Progress::on_datagram(ByteSpan bytes, const wire::IcrcSeed& seed,
                           std::uint16_t& identification, const mover::ReceivedDatagrams& origin,
                           const Source& source, TimeNs now) {
  auto& counters = adapter_.arena().header().port_counters;
  counters.packets_received.add_exclusive();
  counters.bytes_received.add_exclusive(bytes.size());
  if (bytes.size() < wire::Bth::kSize + wire::kIcrcBytes) return counters.malformed.add();
  const auto found = wire::verify_icrc(seed, bytes, identification);
  if (!found) return counters.icrc_errors.add();
  identification = static_cast<std::uint16_t>(*found + 1);
  const auto packet = wire::decode_packet(bytes.first(bytes.size() - wire::kIcrcBytes));
  if (!packet) return counters.malformed.add();
  const wire::Bth& bth = packet->headers.bth;
  // IBA 10.9.3: the lower 15 bits match, and one of the two is a full member.
  if ((raw(bth.pkey) & 0x7fff) != (raw(kDefaultPKey) & 0x7fff))
    return counters.pkey_violations.add();
  const auto deliver = [&](QueuePair& queue_pair) {
    if (queue_pair.on_packet(*packet, origin.source, origin.destination, now)) {
      note_output(queue_pair);
    }
  };
  if (bth.dest_qp == kMulticastQpn) {
    for (QueuePair* member : adapter_.members(source.group)) deliver(*member);
  } else if (QueuePair* queue_pair = adapter_.find(bth.dest_qp)) {
    deliver(*queue_pair);
  } else {
    counters.dropped_no_qp.add();
  }
}

}  // namespace verbatim::adapter
