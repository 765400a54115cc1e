#include "link/capture_file/capture_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/net/address.h"
#include "link/capture_file/pcapng.h"
#include "wire/ib/bth.h"
#include "wire/net/grh.h"
#include "wire/net/icrc.h"
#include "wire/net/vcrc.h"

namespace verbatim::link {

/// The reconstructed headers and CRCs of a packet, and whether its ICRC is right with them.
struct CaptureFile::MadeUp {
  std::array<std::byte, wire::kIpUdpMaxBytes> headers{};
  std::size_t header_bytes = 0;
  std::array<std::byte, wire::kIcrcBytes + wire::kVcrcBytes> crcs{};
  std::size_t crc_bytes = 0;  // The ICRC is one of them, instead of that of the packet.
  bool has_right_icrc = false;
};

namespace {

using MadeUp = CaptureFile::MadeUp;

constexpr std::size_t kEthernetHeaderBytes = 14;
constexpr std::uint16_t kRoceV1EtherType = 0x8915;

MacAddress mac_of(const Gid& gid) {
  if (!gid.is_ipv4_mapped()) return {0x02};
  const auto address = resolve_gid(gid, 0);
  return address ? synthetic_mac(*address) : MacAddress{0x02};
}

/// The header of an ERF record, as Wireshark's wiretap reads it: time (32.32 bits since 1970,
/// little endian), type, flags, length of the record, lost packets, length of the packet.
constexpr std::size_t kErfHeaderBytes = 16;
constexpr std::byte kErfInfiniband{21};
constexpr std::byte kErfVaryingLength{4};

/// A damaged packet keeps its ICRC, which is that of the undamaged one, and its VCRC is wrong.
MadeUp infiniband(const CapturedPacket& packet, ByteSpan bytes) {
  MadeUp made{.header_bytes = kErfHeaderBytes};
  std::span<std::byte> crcs = made.crcs;
  const bool is_damaged = packet.remark == Remark::corrupted;
  if (const auto icrc = wire::infiniband_icrc(bytes)) {
    made.has_right_icrc = !is_damaged;
    made.crc_bytes = crcs.size();
    const auto as_sent = bytes.last<wire::kIcrcBytes>();
    wire::store_icrc(is_damaged ? wire::load_icrc(as_sent) : *icrc, crcs.first<wire::kIcrcBytes>());
    wire::Vcrc vcrc;
    vcrc.update(bytes.first(bytes.size() - wire::kIcrcBytes));
    vcrc.update(crcs.first<wire::kIcrcBytes>());
    const auto value = static_cast<std::uint16_t>(is_damaged ? ~vcrc.value() : vcrc.value());
    wire::store_vcrc(value, crcs.last<wire::kVcrcBytes>());
  }
  std::byte* const erf = made.headers.data();
  const std::uint64_t seconds = packet.time / kSecond, rest = packet.time % kSecond;
  const std::uint64_t time = seconds << 32 | (rest << 32) / kSecond;
  std::memcpy(erf, &time, sizeof time);
  erf[8] = kErfInfiniband;
  erf[9] = kErfVaryingLength;
  const std::size_t length = bytes.size() + (made.crc_bytes == 0 ? 0 : wire::kVcrcBytes);
  store_be(erf + 10, static_cast<std::uint16_t>(kErfHeaderBytes + length));
  store_be(erf + 14, static_cast<std::uint16_t>(length));
  return made;
}

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

void CaptureFile::append(std::uint32_t interface, const CapturedPacket& packet, const MadeUp& made,
                         ByteSpan bytes) {
  if (made.crc_bytes != 0) bytes = bytes.first(bytes.size() - wire::kIcrcBytes);
  pcapng::append_packet(bytes_, {.interface = interface,
                                 .time = packet.time,
                                 .direction = packet.direction,
                                 .has_wrong_crc = !made.has_right_icrc,
                                 .headers = ByteSpan(made.headers).first(made.header_bytes),
                                 .bytes = bytes,
                                 .trailer = ByteSpan(made.crcs).first(made.crc_bytes),
                                 .comment = kRemarkTexts[static_cast<std::size_t>(packet.remark)]});
}

CaptureFile::CaptureFile(std::string name, std::string_view application) : name_(std::move(name)) {
  pcapng::append_section(bytes_, application);
}

std::uint32_t CaptureFile::interface_of(Kind kind) {
  struct Text {
    pcapng::LinkType type;
    std::string_view description;
  };
  constexpr std::array<Text, kKinds> kTexts{{
      {pcapng::LinkType::raw_ip, "RoCE v2: packets of the node's programs"},
      {pcapng::LinkType::ethernet, "RoCE v1: packets of the node's programs"},
      {pcapng::LinkType::erf, "InfiniBand: packets of the host's programs"},
  }};
  const auto index = static_cast<std::size_t>(kind);
  auto& known = interfaces_[index];
  if (!known) {
    const auto& [type, description] = kTexts[index];
    pcapng::append_interface(bytes_, {.type = type, .name = name_, .description = description});
    known = interface_count_++;
  }
  return *known;
}

void CaptureFile::add(const CapturedPacket& packet, ByteSpan bytes) {
  const Kind kind = packet.is_infiniband    ? Kind::infiniband
                    : packet.flow.has_grh() ? Kind::roce_v1
                                            : Kind::roce_v2;
  const std::uint32_t interface = interface_of(kind);
  const MadeUp made = kind == Kind::infiniband ? infiniband(packet, bytes)
                      : kind == Kind::roce_v1  ? ethernet(packet, bytes)
                                               : raw_ip(packet, bytes);
  append(interface, packet, made, bytes);
}

void CaptureFile::add_on_cable(const PacketOnCable& packet) {
  auto known = ports_.find(packet.port);
  if (known == ports_.end()) {
    pcapng::append_interface(bytes_, {.type = pcapng::LinkType::erf,
                                      .name = packet.port,
                                      .description = "InfiniBand: packets that leave this port"});
    known = ports_.emplace(packet.port, interface_count_++).first;
  }
  std::vector<std::byte> bytes(packet.bytes.begin(), packet.bytes.end());
  // Switches give packets other lanes, which only the LRH tells.
  if (!bytes.empty()) {
    bytes[0] = (bytes[0] & std::byte{0x0f}) | static_cast<std::byte>(packet.lane << 4);
  }
  const CapturedPacket captured{.time = packet.time,
                                .is_infiniband = true,
                                .direction = Direction::send,
                                .remark = packet.is_damaged ? Remark::corrupted : Remark::none};
  if (const auto icrc = wire::infiniband_icrc(bytes); icrc && packet.is_damaged) {
    const auto end = std::span(bytes).last<wire::kIcrcBytes>();
    wire::store_icrc(*icrc, end);
    bytes[bytes.size() - wire::kIcrcBytes - 1] ^= std::byte{1};
  }
  append(known->second, captured, infiniband(captured, bytes), bytes);
}

void CaptureFile::add_statistics(TimeNs time, std::uint64_t packets, std::uint64_t dropped) {
  if (interface_count_ == 0) interface_of(Kind::roce_v2);
  pcapng::append_statistics(
      bytes_, {.interface = 0, .time = time, .received = packets, .dropped = dropped});
}

}  // namespace verbatim::link
