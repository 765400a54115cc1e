#include "port/receive.h"

#include <algorithm>

#include "port/encapsulation_infiniband.h"
#include "wire/net/grh.h"
#include "wire/net/ip.h"

namespace verbatim::port {
namespace {

/// Looks at the opcode before anything is checked: it only decides which packets of a merged
/// datagram come first.
bool is_response(ByteSpan bytes) {
  const auto& info = wire::info(static_cast<wire::Opcode>(bytes.front()));
  return info.known && !info.is_request;
}

}  // namespace

/// RoCE v1: the addresses are in the packet itself.
void Decapsulation::on_frame(const link::Received& frame, TimeNs now) {
  const auto packet = wire::decode_grh_packet(frame.bytes);
  if (!packet) return counters_.malformed.add();
  const auto source = resolve_gid(packet->grh.source, interface_index_);
  const auto destination = resolve_gid(packet->grh.destination, interface_index_);
  if (!source || !destination) return counters_.malformed.add();
  const Path from = roce_path(source->with_port(0));
  const Path to = roce_path(destination->with_port(0));
  on_transport_packets({.from = &from,
                        .to = &to,
                        .group = frame.group,
                        .packet_bytes = packet->packet.size(),
                        .bytes = packet->packet},
                       &seed_of(from, to), now);
}

/// Each packet says where it comes from.
void Decapsulation::on_infiniband_packets(const link::Received& packets, bool checks_icrc,
                                          TimeNs now) {
  const auto& all = packets.bytes;
  for (std::size_t at = 0; at < all.size(); at += packets.packet_bytes) {
    auto found = decapsulate(all.subspan(at, std::min(packets.packet_bytes, all.size() - at)));
    if (!found) {
      counters_.malformed.add();
      continue;
    }
    found->from.port = found->to.port = port_;
    const Path from = found->from;
    const Path to = found->to;
    std::optional<wire::IcrcSeed> seed;
    if (checks_icrc) seed.emplace(icrc_seed(found->to));
    on_transport_packets({.from = &from,
                          .to = &to,
                          .group = found->group,
                          .packet_bytes = found->packet.size(),
                          .bytes = found->packet},
                         seed ? &*seed : nullptr, now);
  }
}

const wire::IcrcSeed& Decapsulation::seed_of(const Path& from, const Path& to) {
  const SocketAddress source = address_of(from);
  const SocketAddress destination = address_of(to);
  if (!last_ || last_->source != source || last_->destination != destination) {
    last_.emplace(source, destination, wire::IcrcSeed(wire::flow_of(source, destination)));
  }
  return last_->seed;
}

/// Packets that begin with the BTH.
void Decapsulation::on_transport_packets(const link::Received& packets, const wire::IcrcSeed* seed,
                                         TimeNs now) {
  // All are checked before any is placed: placing is stores, which a checksum would wait for.
  std::array<Arrival, kPacketsMax> arrivals;
  std::size_t count = 0;
  std::uint16_t first_identification = packets.identification;
  std::uint16_t index = 0;
  const auto& all = packets.bytes;
  for (std::size_t at = 0; at < all.size(); at += packets.packet_bytes, ++index) {
    const ByteSpan bytes = all.subspan(at, std::min(packets.packet_bytes, all.size() - at));
    auto identification = static_cast<std::uint16_t>(first_identification + index);
    if (!is_good(bytes, seed, identification)) continue;
    first_identification = static_cast<std::uint16_t>(identification - index);
    arrivals[count++] = {bytes, is_response(bytes)};
    if (count < arrivals.size()) continue;
    deliver(std::span(arrivals).first(count), packets, now);
    count = 0;
  }
  deliver(std::span(arrivals).first(count), packets, now);
}

/// `identification` is what this packet's IP header probably says; it becomes what it does say.
bool Decapsulation::is_good(ByteSpan bytes, const wire::IcrcSeed* seed,
                            std::uint16_t& identification) {
  counters_.packets_received.add_exclusive();
  counters_.bytes_received.add_exclusive(bytes.size());
  if (bytes.size() < wire::Bth::kSize + wire::kIcrcBytes) {
    counters_.malformed.add();
    return false;
  }
  if (seed == nullptr) return true;
  const auto found = wire::verify_icrc(*seed, bytes, identification);
  if (!found) {
    counters_.icrc_errors.add();
    return false;
  }
  identification = *found;
  return true;
}

/// Our own sender puts an acknowledgement behind the request that rides in the same datagram; the
/// program's request completes before its peer's answer is seen, as with a card.
void Decapsulation::deliver(std::span<const Arrival> arrivals, const link::Received& origin,
                            TimeNs now) {
  std::size_t count = 0;
  for (const bool responses : {true, false}) {
    for (const Arrival& one : arrivals) {
      if (one.is_response == responses && decode(one.bytes, packets_[count])) ++count;
    }
  }
  receiver_.on_packets(std::span(packets_).first(count), *origin.from, *origin.to, origin.group,
                       now);
}

/// Returns false if the packet is dropped. One that is malformed behind its BTH goes on if a
/// responder has to refuse it.
bool Decapsulation::decode(ByteSpan bytes, wire::Packet& packet) {
  const ByteSpan content = bytes.first(bytes.size() - wire::kIcrcBytes);
  if (const auto decoded = wire::decode_packet(content)) {
    packet = *decoded;
    return true;
  }
  counters_.malformed.add();
  const auto invalid = wire::decode_invalid_request(content);
  if (invalid) packet = *invalid;
  return invalid.has_value();
}

}  // namespace verbatim::port
