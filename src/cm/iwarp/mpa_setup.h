#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "wire/iwarp/mpa.h"

/// How two ends of a TCP connection agree on an RDMAP stream (RFC 5044, section 7; RFC 6581): one
/// Request, one Reply. Pure: bytes in, bytes out.
namespace verbatim::cm {

/// What a side wishes or can do.
struct MpaOffer {
  std::uint8_t revision = 2;  // 1: without the depths, and the first message is the initiator's.
  bool wants_markers = false;
  bool wants_crc = true;
  bool peer_to_peer = true;          // Of an initiator: it says first that it is ready.
  std::uint16_t inbound_reads = 0;   // READs and atomics of the peer's: IRD.
  std::uint16_t outbound_reads = 0;  // Own ones: ORD.
};

/// Words, separated by commas: `no-crc`, where the peer wants none either; `markers`, in what
/// comes. EINVAL.
Result<MpaOffer> parse_mpa_options(std::string_view list);

/// A Request or a Reply that has come whole.
struct MpaMessage {
  wire::MpaFrame frame;
  std::optional<wire::MpaEnhanced> enhanced;
  ByteSpan private_data;  // Without what revision 2 has before it.
  std::size_t bytes = 0;  // Of the stream.
};

/// The message that `stream` begins with, where all of it has come.
std::expected<std::optional<MpaMessage>, wire::WireError> parse_mpa(ByteSpan stream);

/// What the two have agreed on, as one side sees it.
struct MpaParameters {
  bool sends_markers = false;
  bool receives_markers = false;
  bool has_crc = true;
  std::uint16_t inbound_reads = 0;
  std::uint16_t outbound_reads = 0;
  /// What the initiator sends first, and the other side waits for.
  enum class RtrMessage : std::uint8_t { nothing, write, read };
  RtrMessage ready = RtrMessage::nothing;
  friend bool operator==(const MpaParameters&, const MpaParameters&) = default;
};

/// How many bytes of private data go into a message: the caller has checked.
constexpr std::size_t mpa_private_data_max(std::uint8_t revision) {
  return wire::MpaFrame::kPrivateDataMax - (revision >= 2 ? wire::MpaEnhanced::kSize : 0);
}

std::vector<std::byte> compose_mpa_request(const MpaOffer& offer, ByteSpan private_data);

/// Of who accepts: the Reply, and what both go by then. In words where the Request cannot be
/// served.
struct MpaAcceptance {
  std::vector<std::byte> reply;
  MpaParameters agreement;
};
std::expected<MpaAcceptance, std::string> accept_mpa(const MpaMessage& request,
                                                     const MpaOffer& offer, ByteSpan private_data);
std::vector<std::byte> refuse_mpa(const MpaMessage& request, ByteSpan private_data);

/// Of the initiator: what both go by now that this Reply, which is no rejection, has come. In words
/// where it does not fit the Request.
std::expected<MpaParameters, std::string> negotiate_mpa(const MpaOffer& offer,
                                                        const MpaMessage& reply);

}  // namespace verbatim::cm
