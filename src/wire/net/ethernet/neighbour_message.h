#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/net/address.h"

namespace verbatim::wire {

/// A question who has an IP address, or the answer, as an Ethernet frame: ARP (RFC 826) for IPv4, a
/// neighbour solicitation or advertisement (RFC 4861, sections 4.3 and 4.4) for IPv6.
struct NeighbourMessage {
  static constexpr std::size_t kSizeMax = 14 + 40 + 24 + 8;
  enum class Kind : std::uint8_t { question, answer };
  Kind kind = Kind::question;
  MacAddress sender_mac{};
  SocketAddress sender;  // Empty: the question is for an address that is not used yet.
  SocketAddress target;  // Whose MAC is asked for. Of an ARP answer: who had asked.
  MacAddress to{};       // Of an answer: the frame's destination.
  friend bool operator==(const NeighbourMessage&, const NeighbourMessage&) = default;
};

/// The answer of the node that has the target and this MAC.
NeighbourMessage answer_to(const NeighbourMessage& question, const MacAddress& mac);

/// Accepts any bytes. Nothing for other frames, and what breaks RFC 826, or RFC 4861, sections
/// 7.1.1 and 7.1.2. Addresses have port 0 and no scope.
std::optional<NeighbourMessage> decode_neighbour_message(ByteSpan frame);

/// Writes a frame and returns its size. A question goes to all (ARP), or to the solicited-node
/// group. Sender and target are of one family, neither is empty.
std::size_t encode(const NeighbourMessage& message,
                   std::span<std::byte, NeighbourMessage::kSizeMax> out);

/// Where frames to an IP multicast group go (RFC 1112, RFC 2464).
MacAddress ethernet_group(const SocketAddress& group);

}  // namespace verbatim::wire
