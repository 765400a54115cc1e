#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "offload/switch/frames/segmentation.h"

/// Frames for tests.
namespace verbatim::offload {

struct FrameShape {
  bool is_ipv6 = false;
  int vlan = -1;  // The tag's id; -1: none.
  std::uint8_t protocol = 17;
  std::uint8_t last_of_source = 1;  // Of both the MAC's and the address's bytes.
  std::uint8_t last_of_destination = 2;
  std::uint8_t hop_limit = 64;
  std::uint16_t source_port = 1000;
  std::uint16_t destination_port = 2000;
  std::uint16_t fragment = 0;  // IPv4: flags and offset.
  std::uint8_t extension = 0;  // IPv6: an extension header of eight bytes before the transport.
  std::size_t payload = 0;
};

inline void append(std::vector<std::byte>& to, std::initializer_list<unsigned> bytes) {
  for (const unsigned byte : bytes) to.push_back(static_cast<std::byte>(byte));
}

inline std::size_t transport_header_bytes(std::uint8_t protocol) { return protocol == 6 ? 20 : 8; }

/// Returns the frame, without a transport checksum.
inline std::vector<std::byte> make_frame(const FrameShape& shape) {
  std::vector<std::byte> frame;
  append(frame, {2, 0, 0, 0, 0, shape.last_of_destination, 2, 0, 0, 0, 0, shape.last_of_source});
  if (shape.vlan >= 0) {
    append(frame, {0x81, 0, unsigned(shape.vlan) >> 8, unsigned(shape.vlan) & 255});
  }
  const std::size_t header = transport_header_bytes(shape.protocol);
  const std::size_t rest = header + shape.payload + (shape.extension != 0 ? 8 : 0);
  if (shape.is_ipv6) {
    const unsigned next = shape.extension != 0 ? shape.extension : shape.protocol;
    append(frame, {0x86, 0xdd, 0x60, 0, 0, 0, unsigned(rest >> 8), unsigned(rest & 255), next,
                   shape.hop_limit});
    append(frame, {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, shape.last_of_source});
    append(frame, {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, shape.last_of_destination});
    if (shape.extension != 0) append(frame, {shape.protocol, 0, 1, 4, 0, 0, 0, 0});
  } else {
    const unsigned size = unsigned(rest) + 20;
    append(frame, {8, 0, 0x45, 0, size >> 8, size & 255, 0x12, 0xfe});
    append(frame, {unsigned{shape.fragment} >> 8, unsigned{shape.fragment} & 255, shape.hop_limit});
    append(frame, {shape.protocol, 0, 0, 10, 9, 0, shape.last_of_source, 10, 9, 0});
    append(frame, {shape.last_of_destination});
    std::byte* const ip = frame.data() + frame.size() - 20;
    store_be(ip + 10, static_cast<std::uint16_t>(~fold(add_words(ByteSpan(ip, 20)))));
  }
  append(frame, {unsigned{shape.source_port} >> 8, unsigned{shape.source_port} & 255});
  append(frame, {unsigned{shape.destination_port} >> 8, unsigned{shape.destination_port} & 255});
  const unsigned udp = unsigned(header + shape.payload);
  if (shape.protocol == 6) {
    append(frame, {0, 0, 0, 9, 0, 0, 0, 1, 0x50, 0x19, 1, 0, 0, 0, 0, 0});
  } else {
    append(frame, {udp >> 8, udp & 255, 0, 0});
  }
  for (std::size_t i = 0; i < shape.payload; ++i) frame.push_back(static_cast<std::byte>(i * 7));
  return frame;
}

}  // namespace verbatim::offload
