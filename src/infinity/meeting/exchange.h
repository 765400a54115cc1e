#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <infiniband/verbs.h>

/// Messages that the two sides exchange over TCP before they connect their queue pairs.
namespace infinity::detail {

/// Infinity's own message, which each side sends once. It is little-endian, as all machines that
/// Infinity supports.
///
///     byte   0     2       4                   8                 12               16
///          +-----+-------+-------------------+-----------------+----------------+-----------+
///          | LID | "VB"  | queue pair number | sequence number | user data size | user data |
///          +-----+-------+-------------------+-----------------+----------------+-----------+
///
/// The user data always has 1024 bytes. Infinity sends bytes 2 and 3 as zero and ignores them. A
/// side that sends "VB" there can receive an `Offer`; if both sides have sent it, an `Offer`
/// follows.
struct Greeting {
  static constexpr std::size_t kHeaderBytes = 16;
  static constexpr std::size_t kUserDataMax = 1024;
  static constexpr std::size_t kBytes = kHeaderBytes + kUserDataMax;

  std::uint16_t lid = 0;
  bool has_offer = false;
  std::uint32_t queue_pair = 0;
  std::uint32_t sequence_number = 0;
  std::vector<std::byte> user_data;
};
/// The user data has at most kUserDataMax bytes.
std::array<std::byte, Greeting::kBytes> encode(const Greeting& greeting);
/// Returns nothing if the numbers are not valid for a queue pair.
std::optional<Greeting> decode_greeting(std::span<const std::byte, Greeting::kBytes> bytes);

enum class Link : std::uint8_t { infiniband = 1, roce = 2, iwarp = 3 };
std::string_view name_of(Link link);

/// Fields that Infinity's greeting lacks. The accepting side sends its offer first, then the
/// connecting side.
///
///     byte   0        4      5     6          7       8     24     26          32        40
///          +--------+------+-----+----------+-------+-----+------+-----------+---------+
///          | "VBI1" | link | MTU | GID type | reads | GID | port | 0         | ticket  |
///          +--------+------+-----+----------+-------+-----+------+-----------+---------+
///
/// RoCE: MTU (IBA's code), GID and its type (enum ibv_gid_type). iWARP: the port at which the
/// accepting side waits for rdma_cm's connection, and the ticket by which it recognises the other
/// side there.
struct Offer {
  static constexpr std::size_t kBytes = 40;

  Link link = Link::infiniband;
  ibv_mtu mtu = IBV_MTU_1024;
  std::uint8_t gid_type = 0;
  std::uint8_t reads = 1;  // READs and atomics in flight that the device supports.
  ibv_gid gid{};
  std::uint16_t port = 0;
  std::uint64_t ticket = 0;
};
std::array<std::byte, Offer::kBytes> encode(const Offer& offer);
std::optional<Offer> decode_offer(std::span<const std::byte, Offer::kBytes> bytes);

/// The last byte from each side: its queue pair can receive.
inline constexpr std::byte kReady{1};

}  // namespace infinity::detail
