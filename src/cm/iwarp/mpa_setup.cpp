#include "cm/iwarp/mpa_setup.h"

#include <algorithm>
#include <cerrno>
#include <ranges>

#include <fmt/format.h>

namespace verbatim::cm {
namespace {

using wire::MpaEnhanced;
using wire::MpaFrame;

std::vector<std::byte> compose(MpaFrame frame, const std::optional<MpaEnhanced>& enhanced,
                               ByteSpan private_data) {
  const std::size_t before = enhanced ? MpaEnhanced::kSize : 0;
  frame.is_enhanced = enhanced.has_value();
  frame.private_data_bytes = static_cast<std::uint16_t>(before + private_data.size());
  std::vector<std::byte> bytes(MpaFrame::kSize + before + private_data.size());
  encode(frame, std::span(bytes).first<MpaFrame::kSize>());
  if (enhanced) {
    encode(*enhanced, std::span(bytes).subspan<MpaFrame::kSize, MpaEnhanced::kSize>());
  }
  std::ranges::copy(private_data, bytes.end() - static_cast<std::ptrdiff_t>(private_data.size()));
  return bytes;
}

/// A depth of all ones is not negotiated (RFC 6581, section 9.1).
bool is_open(std::uint16_t depth) { return depth == MpaEnhanced::kDepthMask; }

/// Chooses an RTR message that both sides support; an empty READ is preferred, because it is
/// answered: the answer tells the initiator that the peer has received it and, on one machine,
/// whether both take the direct path.
MpaParameters::RtrMessage choose_ready(const MpaEnhanced& theirs) {
  if (theirs.ready_by_read) return MpaParameters::RtrMessage::read;
  return theirs.ready_by_write ? MpaParameters::RtrMessage::write
                               : MpaParameters::RtrMessage::nothing;
}

/// Returns the number of READs that one side may issue and the other one accepts.
std::uint16_t common_depth(std::uint16_t own, std::uint16_t theirs) {
  return is_open(theirs) ? own : std::min(own, theirs);
}

MpaParameters framing_of(const MpaOffer& offer, const MpaFrame& theirs) {
  return {.sends_markers = theirs.wants_markers,
          .receives_markers = offer.wants_markers,
          .has_crc = offer.wants_crc || theirs.wants_crc,
          .inbound_reads = offer.inbound_reads,
          .outbound_reads = offer.outbound_reads};
}

}  // namespace

Result<MpaOffer> parse_mpa_options(std::string_view list) {
  MpaOffer offer;
  for (const auto part : std::views::split(list, ',')) {
    const std::string_view word(part);
    if (word == "no-crc") {
      offer.wants_crc = false;
    } else if (word == "markers") {
      offer.wants_markers = true;
    } else {
      return refuse(EINVAL, fmt::format("'{}' is no wish of MPA's: no-crc and markers are", word));
    }
  }
  return offer;
}

std::expected<std::optional<MpaMessage>, wire::WireError> parse_mpa(ByteSpan stream) {
  if (stream.size() < MpaFrame::kSize) return std::nullopt;
  const auto frame = wire::decode_mpa_frame(stream.first<MpaFrame::kSize>());
  if (!frame) return std::unexpected(frame.error());
  MpaMessage message;
  message.frame = *frame;
  message.bytes = MpaFrame::kSize + frame->private_data_bytes;
  if (stream.size() < message.bytes) return std::nullopt;
  message.private_data = stream.subspan(MpaFrame::kSize, frame->private_data_bytes);
  if (!frame->is_enhanced) return message;
  message.enhanced = wire::decode_mpa_enhanced(message.private_data.first<MpaEnhanced::kSize>());
  message.private_data = message.private_data.subspan(MpaEnhanced::kSize);
  return message;
}

std::vector<std::byte> compose_mpa_request(const MpaOffer& offer, ByteSpan private_data) {
  const MpaFrame frame{.wants_markers = offer.wants_markers,
                       .wants_crc = offer.wants_crc,
                       .revision = offer.revision};
  std::optional<MpaEnhanced> enhanced;
  if (offer.revision >= 2) {
    // An RTR READ is answered, so that this side knows when the peer has received it.
    const std::uint16_t least = offer.peer_to_peer ? 1 : 0;
    enhanced = {.peer_to_peer = offer.peer_to_peer,
                .ready_by_read = offer.peer_to_peer,
                .inbound_reads = offer.inbound_reads,
                .outbound_reads = std::max(offer.outbound_reads, least)};
  }
  return compose(frame, enhanced, private_data);
}

std::expected<MpaAcceptance, std::string> accept_mpa(const MpaMessage& request,
                                                     const MpaOffer& offer, ByteSpan private_data) {
  MpaParameters agreement = framing_of(offer, request.frame);
  std::optional<MpaEnhanced> enhanced;
  if (request.enhanced) {
    agreement.inbound_reads = common_depth(offer.inbound_reads, request.enhanced->outbound_reads);
    agreement.outbound_reads = common_depth(offer.outbound_reads, request.enhanced->inbound_reads);
    enhanced = {.inbound_reads = offer.inbound_reads, .outbound_reads = agreement.outbound_reads};
    if (request.enhanced->peer_to_peer) {
      agreement.ready = choose_ready(*request.enhanced);
      if (agreement.ready == MpaParameters::RtrMessage::nothing) {
        return std::unexpected("it would say that it is ready by a SEND alone");
      }
      if (agreement.ready == MpaParameters::RtrMessage::read) {  // Room for the RTR READ.
        agreement.inbound_reads = std::max<std::uint16_t>(agreement.inbound_reads, 1);
        enhanced->inbound_reads = std::max<std::uint16_t>(enhanced->inbound_reads, 1);
      }
      enhanced->peer_to_peer = true;
      enhanced->ready_by_write = agreement.ready == MpaParameters::RtrMessage::write;
      enhanced->ready_by_read = agreement.ready == MpaParameters::RtrMessage::read;
    }
  }
  const MpaFrame frame{.is_reply = true,
                       .wants_markers = offer.wants_markers,
                       .wants_crc = agreement.has_crc,
                       .revision = request.frame.revision};
  return MpaAcceptance{compose(frame, enhanced, private_data), agreement};
}

std::vector<std::byte> refuse_mpa(const MpaMessage& request, ByteSpan private_data) {
  const MpaFrame frame{.is_reply = true,
                       .wants_crc = request.frame.wants_crc,
                       .is_rejection = true,
                       .revision = request.frame.revision};
  std::optional<MpaEnhanced> enhanced;
  if (request.enhanced) enhanced.emplace();
  return compose(frame, enhanced, private_data);
}

std::expected<MpaParameters, std::string> negotiate_mpa(const MpaOffer& offer,
                                                        const MpaMessage& reply) {
  if (reply.frame.revision > offer.revision) {
    return std::unexpected(fmt::format("it answers with revision {} of MPA, and was asked with {}",
                                       reply.frame.revision, offer.revision));
  }
  MpaParameters agreement = framing_of(offer, reply.frame);
  if (!reply.enhanced) return agreement;
  if (!is_open(reply.enhanced->outbound_reads) &&
      reply.enhanced->outbound_reads > offer.inbound_reads) {
    return std::unexpected(fmt::format("it would ask for {} READs at once, and may for {}",
                                       reply.enhanced->outbound_reads, offer.inbound_reads));
  }
  agreement.inbound_reads = common_depth(offer.inbound_reads, reply.enhanced->outbound_reads);
  agreement.outbound_reads = common_depth(offer.outbound_reads, reply.enhanced->inbound_reads);
  if (!offer.peer_to_peer || !reply.enhanced->peer_to_peer) return agreement;
  agreement.ready = choose_ready(*reply.enhanced);
  if (agreement.ready == MpaParameters::RtrMessage::nothing) {
    return std::unexpected("it accepts no way of saying that this side is ready");
  }
  return agreement;
}

}  // namespace verbatim::cm
