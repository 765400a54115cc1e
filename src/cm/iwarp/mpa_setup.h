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

/// Negotiation of an RDMAP stream over a TCP connection (RFC 5044, section 7; RFC 6581): one
/// Request, one Reply. Pure functions: bytes in, bytes out.
namespace verbatim::cm {

/// What a side requests or supports.
struct MpaOffer {
  std::uint8_t revision = 2;  // 1: without read depths; the initiator sends first.
  bool wants_markers = false;
  bool wants_crc = true;
  bool peer_to_peer = true;          // Initiator: it sends an RTR message first.
  std::uint16_t inbound_reads = 0;   // READs and atomics of the peer: IRD.
  std::uint16_t outbound_reads = 0;  // Of this side: ORD.
};

/// Parses comma-separated words: `no-crc` (no CRC if the peer does not want one either), `markers`
/// (in what this side receives). EINVAL for others.
Result<MpaOffer> parse_mpa_options(std::string_view list);

/// A complete Request or Reply.
struct MpaMessage {
  wire::MpaFrame frame;
  std::optional<wire::MpaEnhanced> enhanced;
  ByteSpan private_data;  // Without the additional fields of revision 2.
  std::size_t bytes = 0;  // In the stream.
};

/// Returns the message at the start of `stream`, if it is complete.
std::expected<std::optional<MpaMessage>, wire::WireError> parse_mpa(ByteSpan stream);

/// The negotiated parameters, as one side sees them.
struct MpaParameters {
  bool sends_markers = false;
  bool receives_markers = false;
  bool has_crc = true;
  std::uint16_t inbound_reads = 0;
  std::uint16_t outbound_reads = 0;
  /// The RTR message (RFC 6581): what the initiator sends first.
  enum class RtrMessage : std::uint8_t { nothing, write, read };
  RtrMessage ready = RtrMessage::nothing;
  friend bool operator==(const MpaParameters&, const MpaParameters&) = default;
};

/// Returns how many bytes of private data a message can have. The caller has checked the revision.
constexpr std::size_t mpa_private_data_max(std::uint8_t revision) {
  return wire::MpaFrame::kPrivateDataMax - (revision >= 2 ? wire::MpaEnhanced::kSize : 0);
}

std::vector<std::byte> compose_mpa_request(const MpaOffer& offer, ByteSpan private_data);

/// For the accepting side: the Reply, and the negotiated parameters. A text if the Request cannot
/// be served.
struct MpaAcceptance {
  std::vector<std::byte> reply;
  MpaParameters agreement;
};
std::expected<MpaAcceptance, std::string> accept_mpa(const MpaMessage& request,
                                                     const MpaOffer& offer, ByteSpan private_data);
std::vector<std::byte> refuse_mpa(const MpaMessage& request, ByteSpan private_data);

/// For the initiator: the parameters after a Reply that is no rejection. A text if it does not
/// match the Request.
std::expected<MpaParameters, std::string> negotiate_mpa(const MpaOffer& offer,
                                                        const MpaMessage& reply);

}  // namespace verbatim::cm
