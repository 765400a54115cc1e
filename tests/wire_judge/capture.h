#pragma once

#include <array>
#include <cstdint>
#include <fstream>
#include <vector>

#include "wire/ib/packet.h"
#include "wire/net/icrc.h"
#include "wire/net/ip.h"

/// Complete RoCE v2 datagrams from our encoders, and captures of them.
namespace verbatim::judge {

using namespace verbatim::wire;  // NOLINT: for programs of one file.

inline constexpr std::uint32_t kLinkTypeRawIp = 101;

inline std::vector<std::byte> counting_payload(std::size_t bytes) {
  std::vector<std::byte> payload(bytes);
  for (std::size_t i = 0; i < bytes; ++i) payload[i] = static_cast<std::byte>(i * 3 + 1);
  return payload;
}

inline IpFlow flow(bool ipv4) {
  IpFlow flow{.source_port = 0xc350, .traffic_class = 0x1a, .flow_label = 0x54321};
  if (ipv4) {
    flow.source.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
    flow.destination.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2};
  } else {
    flow.source.bytes = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    flow.destination.bytes = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  }
  return flow;
}

/// Returns a complete IP packet; its ICRC is computed over separate pieces, as a sender does.
inline std::vector<std::byte> datagram(const IpFlow& flow, std::uint16_t identification,
                                       const Headers& headers, std::vector<std::byte> payload) {
  std::array<std::byte, kHeadersMaxBytes> encoded;
  const ByteSpan head = ByteSpan(encoded).first(encode_headers(headers, encoded));
  const std::size_t payload_bytes = payload.size();
  payload.resize(payload_bytes + headers.bth.pad_count);
  const auto udp_length =
      static_cast<std::uint16_t>(kUdpHeaderBytes + head.size() + payload.size() + kIcrcBytes);
  Icrc icrc = IcrcSeed(flow).start(udp_length, identification, head);
  icrc.update(ByteSpan(payload).first(payload_bytes));
  icrc.update(ByteSpan(payload).subspan(payload_bytes));

  std::vector<std::byte> bytes(kIpUdpMaxBytes);
  bytes.resize(encode_ip_udp(
      {.flow = flow, .udp_length = udp_length, .identification = identification}, bytes));
  bytes.insert(bytes.end(), head.begin(), head.end());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  std::array<std::byte, kIcrcBytes> trailer;
  store_icrc(icrc.value(), trailer);
  bytes.insert(bytes.end(), trailer.begin(), trailer.end());
  return bytes;
}

inline void append(std::ofstream& file, std::uint32_t value) {
  file.write(reinterpret_cast<const char*>(&value), sizeof value);
}

/// The classic capture format, in this machine's byte order, which readers see by its magic number.
inline void write_capture(const char* path, const std::vector<std::vector<std::byte>>& packets) {
  std::ofstream file(path, std::ios::binary);
  for (const std::uint32_t word : {0xa1b2c3d4u, 0x00040002u, 0u, 0u, 65535u, kLinkTypeRawIp}) {
    append(file, word);
  }
  std::uint32_t seconds = 0;
  for (const auto& packet : packets) {
    const auto size = static_cast<std::uint32_t>(packet.size());
    for (const std::uint32_t word : {seconds++, 0u, size, size}) append(file, word);
    file.write(reinterpret_cast<const char*>(packet.data()), static_cast<std::streamsize>(size));
  }
}

}  // namespace verbatim::judge
