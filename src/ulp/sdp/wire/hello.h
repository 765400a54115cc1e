#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>

#include "ulp/sdp/wire/message.h"

namespace verbatim::ulp::sdp {

/// An end of a connection: an IPv4 address is in the last four bytes, after zeroes.
using IpBytes = std::array<std::byte, 16>;

/// Private data of the REQ: asks for a connection. Counts as the message with MSeq 0.
///
///     byte  0-15     16        17             18    19       20-23   24-27   28-29
///          +--------+---------+------+-------+-----+--------+-------+-------+--------+
///          | Header | version | IP   | capa- | rsvd| Max-   | wanted| own   | source |
///          |        | (4, 4)  | vers.| bilit.|     | Adverts| size  | size  | port   |
///          +--------+---------+------+-------+-----+--------+-------+-------+--------+
///          30-31  32-47    48-63         64-91
///          rsvd | source | destination | rsvd
struct Hello {
  static constexpr std::size_t kSize = 92;
  std::uint16_t buffers = 0;
  bool is_ipv6 = false;
  std::uint8_t capabilities = 0;
  std::uint8_t adverts_max = 1;
  std::uint32_t wanted_bytes = 0;  // DesRemRcvSz: receives that the sender asks the peer to post.
  std::uint32_t own_bytes = 0;     // LocalRcvSz: size of the sender's receives, with the header.
  std::uint16_t source_port = 0;
  IpBytes source{};
  IpBytes destination{};
  friend bool operator==(const Hello&, const Hello&) = default;
};
/// Ignores bytes after the first 92. `wrong_version`: another major version, or no version of IP.
std::expected<Hello, WireError> decode_hello(ByteSpan private_data);
void encode(const Hello& hello, std::span<std::byte, Hello::kSize> out);

/// Private data of the REP.
///
///     byte  0-15     16        17             18    19           20-23
///          +--------+---------+------+-------+-----+------------+-----------+-------+
///          | Header | version | IP   | capa- | rsvd| MaxAdverts | real size | zeroes|
///          |        | (4, 4)  | vers.| bilit.|     |            |           |       |
///          +--------+---------+------+-------+-----+------------+-----------+-------+
struct HelloAck {
  static constexpr std::size_t kSize = 196;
  std::uint16_t buffers = 0;
  bool is_ipv6 = false;
  std::uint8_t capabilities = 0;
  std::uint8_t adverts_max = 1;
  std::uint32_t own_bytes = 0;  // ActRcvSz: size of the sender's receives, with the header.
  friend bool operator==(const HelloAck&, const HelloAck&) = default;
};
std::expected<HelloAck, WireError> decode_hello_ack(ByteSpan private_data);
void encode(const HelloAck& ack, std::span<std::byte, HelloAck::kSize> out);

}  // namespace verbatim::ulp::sdp
