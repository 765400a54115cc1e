#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "base/bytes.h"
#include "base/net/link_rate.h"

/// The UDP datagrams of a trunk, as values.
namespace verbatim::fabric::trunk {

inline constexpr std::size_t kDataLanes = 15;
/// From the LRH to the end of the ICRC, around 4,096 bytes of payload.
inline constexpr std::size_t kPacketBytesMax = 4224;

/// What a port could link with: its PortInfo's masks, and what the cable would carry. Both sides
/// compute the same rate from both offers.
struct Offer {
  LinkWidth width = LinkWidth::x4;
  LinkSpeed speed = LinkSpeed::sdr;
  std::uint8_t width_enabled = 0;
  std::uint8_t speed_enabled = 0;
  std::uint8_t speed_extended_enabled = 0;
  std::uint8_t speed_extended2_enabled = 0;
  friend bool operator==(const Offer&, const Offer&) = default;
};

/// Blocks of 64 bytes that the peer may send on each data lane, counted from the session's begin:
/// FCCL (IBA 7.9), but of 32 bits. Modulo 2^32.
using Limits = std::array<std::uint32_t, kDataLanes>;

/// "My session is `from`." Sent until both know each other's number.
struct Hello {
  std::uint64_t from = 0;
  std::uint64_t node_guid = 0;
  std::uint8_t port = 0;
  Offer offer;
  friend bool operator==(const Hello&, const Hello&) = default;
};

/// The cable is out, or the port does not look for a peer: the session ends.
struct Bye {
  friend bool operator==(const Bye&, const Bye&) = default;
};

/// Acknowledges all packets before `next`, and tells the limits.
struct Status {
  std::uint32_t next = 0;
  bool is_gap = false;  // The packet `next` is missing: to be sent again, with all that follow.
  Limits limits{};
  friend bool operator==(const Status&, const Status&) = default;
};

/// An InfiniBand packet, LRH to ICRC.
struct Packet {
  std::uint32_t sequence = 0;
  bool is_management = false;  // It takes no credits.
  ByteSpan bytes;              // Borrowed.
};

/// Byte order is big-endian; reserved bytes are sent as zero and ignored.
///
///     byte   0-3      4         5      6-7        8-15
///          +--------+---------+------+----------+------------+-- ... --+---------+
///          | "VbTk" | version | kind | reserved | to session |  body   | CRC32c  |
///          +--------+---------+------+----------+------------+-- ... --+---------+
///
///     Hello   from (8) | node GUID (8) | port | width | speed | 4 masks
///     Bye     -
///     Status  next (4) | flags (4): bit 0 is_gap | 15 limits (4 each)
///     Packet, management packet: sequence (4) | the packet
///
/// The CRC stands in the place of the VCRC: it takes a tenth of the time, and covers the header.
struct Datagram {
  static constexpr std::uint8_t kVersion = 1;
  std::uint64_t to = 0;  // The receiver's session; 0: not known yet.
  std::variant<Hello, Bye, Status, Packet> body;
};

inline constexpr std::size_t kHeaderBytes = 16;
inline constexpr std::size_t kCrcBytes = 4;
inline constexpr std::size_t kPacketOverhead = kHeaderBytes + 4 + kCrcBytes;
inline constexpr std::size_t kDatagramBytesMax = kPacketOverhead + kPacketBytesMax;
/// Of all but packets.
inline constexpr std::size_t kControlBytesMax = kHeaderBytes + 8 + 4 * kDataLanes + kCrcBytes;

/// Nothing if it is damaged, or no datagram of a trunk of this version.
std::optional<Datagram> decode(ByteSpan bytes);
/// Returns the size. `out` has kDatagramBytesMax, or kControlBytesMax for what is no packet; a
/// packet has at most kPacketBytesMax.
std::size_t encode(const Datagram& datagram, MutableByteSpan out);

}  // namespace verbatim::fabric::trunk
