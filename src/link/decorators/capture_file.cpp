#include "link/decorators/capture_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/net/address.h"
#include "link/decorators/pcapng.h"
#include "wire/ib/bth.h"
#include "wire/net/grh.h"
#include "wire/net/icrc.h"

namespace verbatim::link {
namespace {

constexpr std::size_t kEthernetHeaderBytes = 14;
constexpr std::uint16_t kRoceV1EtherType = 0x8915;

MacAddress mac_of(const Gid& gid) {
  if (!gid.is_ipv4_mapped()) return {0x02};
  const auto address = resolve_gid(gid, 0);
  return address ? synthetic_mac(*address) : MacAddress{0x02};
}

/// The reconstructed headers of a packet, and whether its ICRC is right with them.
struct MadeUp {
  std::array<std::byte, wire::kIpUdpMaxBytes> headers{};
  std::size_t header_bytes = 0;
  bool has_right_icrc = false;
};

MadeUp ethernet(const CapturedPacket& packet, ByteSpan bytes) {
  MadeUp made{.header_bytes = kEthernetHeaderBytes};
  const MacAddress to = mac_of(packet.flow.destination), from = mac_of(packet.flow.source);
  std::memcpy(made.headers.data(), to.data(), to.size());
  std::memcpy(made.headers.data() + to.size(), from.data(), from.size());
  store_be(made.headers.data() + 2 * to.size(), kRoceV1EtherType);
  // Ethernet pads short frames; the GRH has the packet's length.
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  const auto parsed = wire::decode_grh_packet(copy);
  made.has_right_icrc =
      parsed && wire::verify_icrc(wire::IcrcSeed(packet.flow), parsed->packet, 0).has_value();
  return made;
}

MadeUp raw_ip(const CapturedPacket& packet, ByteSpan bytes) {
  wire::IpUdp headers{
      .flow = packet.flow,
      .udp_length = static_cast<std::uint16_t>(wire::kUdpHeaderBytes + bytes.size()),
      .identification = packet.identification};
  const auto icrc = wire::verify_icrc(wire::IcrcSeed(packet.flow), bytes, packet.identification);
  // The kernel does not show the identification of a received datagram; it is computed from the
  // ICRC.
  const bool is_own = packet.direction == Direction::send;
  if (icrc && !is_own) headers.identification = *icrc;
  MadeUp made;
  made.has_right_icrc = icrc && (!is_own || *icrc == packet.identification);
  made.header_bytes = wire::encode_ip_udp(headers, made.headers);
  return made;
}

}  // namespace

CaptureFile::CaptureFile(std::string name, std::string_view application) : name_(std::move(name)) {
  pcapng::append_section(bytes_, application);
}

std::uint32_t CaptureFile::interface_of(bool is_ethernet) {
  auto& known = interfaces_[is_ethernet ? 1 : 0];
  if (!known) {
    pcapng::append_interface(
        bytes_, {.type = is_ethernet ? pcapng::LinkType::ethernet : pcapng::LinkType::raw_ip,
                 .name = name_,
                 .description = is_ethernet ? "RoCE v1: packets of the node's programs"
                                            : "RoCE v2: packets of the node's programs"});
    known = interface_count_++;
  }
  return *known;
}

void CaptureFile::add(const CapturedPacket& packet, ByteSpan bytes) {
  const bool is_ethernet = packet.flow.has_grh();
  const std::uint32_t interface = interface_of(is_ethernet);
  const MadeUp made = is_ethernet ? ethernet(packet, bytes) : raw_ip(packet, bytes);
  pcapng::append_packet(bytes_, {.interface = interface,
                                 .time = packet.time,
                                 .direction = packet.direction,
                                 .has_wrong_crc = !made.has_right_icrc,
                                 .headers = ByteSpan(made.headers).first(made.header_bytes),
                                 .bytes = bytes,
                                 .comment = kRemarkTexts[static_cast<std::size_t>(packet.remark)]});
}

void CaptureFile::add_statistics(TimeNs time, std::uint64_t packets, std::uint64_t dropped) {
  if (interface_count_ == 0) interface_of(false);
  pcapng::append_statistics(
      bytes_, {.interface = 0, .time = time, .received = packets, .dropped = dropped});
}

}  // namespace verbatim::link
