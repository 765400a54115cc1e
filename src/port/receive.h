#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/net/path.h"
#include "base/time.h"
#include "base/types.h"
#include "link/link.h"
#include "observe/counters.h"
#include "port/receiver.h"
#include "wire/ib/packet.h"
#include "wire/net/icrc.h"

namespace verbatim::port {

/// Makes whole packets of what a port's links receive: checks ICRCs, decodes headers, compares the
/// partition key, and hands what is left to the receiver. One thread at a time.
class Decapsulation {
 public:
  /// `port`: its number. `receiver` and `counters` outlive it. `interface_index`: scope of
  /// link-local addresses.
  Decapsulation(std::uint8_t port, Receiver& receiver, observe::PortCounters& counters,
                std::uint32_t interface_index)
      : port_(port), receiver_(receiver), counters_(counters), interface_index_(interface_index) {}

  /// `from`: the properties of the link that the packets come from.
  void on_packets(const link::Received& packets, const link::Properties& from, TimeNs now) {
    switch (from.first_header) {
      case link::FirstHeader::bth:
        return on_transport_packets(packets, &seed_of(*packets.from, *packets.to), now);
      case link::FirstHeader::grh:
        return on_frame(packets, now);
      case link::FirstHeader::lrh:
        return on_infiniband_packets(packets, from.checks_integrity, now);
    }
  }
  void on_room() { receiver_.on_room(); }

 private:
  /// A packet of those that came together, and whose ICRC is right.
  struct Arrival {
    ByteSpan bytes;
    bool is_response = false;
  };
  static constexpr std::size_t kPacketsMax = 64;

  void on_frame(const link::Received& frame, TimeNs now);
  void on_infiniband_packets(const link::Received& packets, bool checks_icrc, TimeNs now);
  /// `seed`: null if the packets have no ICRC.
  void on_transport_packets(const link::Received& packets, const wire::IcrcSeed* seed, TimeNs now);
  const wire::IcrcSeed& seed_of(const Path& from, const Path& to);
  bool is_good(ByteSpan bytes, const wire::IcrcSeed* seed, std::uint16_t& identification);
  void deliver(std::span<const Arrival> arrivals, const link::Received& origin, TimeNs now);
  bool decode(ByteSpan bytes, wire::Packet& packet);

  /// The addresses that packets came with last, and what all their ICRCs begin with.
  struct Flow {
    SocketAddress source;
    SocketAddress destination;
    wire::IcrcSeed seed;
  };

  const std::uint8_t port_;
  Receiver& receiver_;
  observe::PortCounters& counters_;
  const std::uint32_t interface_index_;
  std::optional<Flow> last_;
  std::array<wire::Packet, kPacketsMax> packets_;  // On their way to the receiver.
};

}  // namespace verbatim::port
