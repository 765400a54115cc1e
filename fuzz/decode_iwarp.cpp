// Any bytes as MPA's Request or Reply, as a DDP segment with RDMAP's payload, and as a stream of
// FPDUs with and without markers: the encoder writes again what decoding accepts.
#include <algorithm>
#include <array>
#include <vector>

#include "base/assert.h"
#include "cm/iwarp/mpa_setup.h"
#include "transport/iwarp/stream.h"
#include "wire/iwarp/rdmap.h"

namespace {

using namespace verbatim;

/// Decoding the encoded value gives the same value.
template <typename Value, typename Decode>
void check_again(const Value& value, Decode decode) {
  std::array<std::byte, Value::kSize> out;
  encode(value, out);
  VERBATIM_ASSERT(decode(out) == value);
}

void check_mpa(ByteSpan bytes) {
  const auto message = cm::parse_mpa(bytes);
  if (!message || !*message) return;
  const cm::MpaMessage& found = **message;
  VERBATIM_ASSERT(found.bytes <= bytes.size() && found.private_data.size() < found.bytes);
  check_again(found.frame, [](auto& out) { return *wire::decode_mpa_frame(out); });
  if (found.enhanced) check_again(*found.enhanced, wire::decode_mpa_enhanced);
  const cm::MpaOffer offer{.inbound_reads = 4, .outbound_reads = 4};
  if (found.frame.is_reply) {
    static_cast<void>(cm::negotiate_mpa(offer, found));
  } else if (const auto accepted = cm::accept_mpa(found, offer, {})) {
    const auto reply = cm::parse_mpa(accepted->reply);
    VERBATIM_ASSERT(reply && *reply && (*reply)->frame.is_reply);
  }
}

void check_segment(ByteSpan bytes) {
  const auto header = wire::decode_ddp(bytes);
  if (!header) return;
  std::array<std::byte, wire::Ddp::kUntaggedSize> out;
  encode(*header, out);
  VERBATIM_ASSERT(wire::decode_ddp(out) == header);
  static_cast<void>(wire::rdmap_opcode(*header));
  const ByteSpan payload = bytes.subspan(header->size());
  if (payload.size() < wire::RdmapAtomicRequest::kSize) return;
  check_again(wire::decode_read_request(payload.first<wire::RdmapReadRequest::kSize>()),
              wire::decode_read_request);
  check_again(wire::decode_atomic_request(payload.first<wire::RdmapAtomicRequest::kSize>()),
              wire::decode_atomic_request);
  check_again(wire::decode_atomic_response(payload.first<wire::RdmapAtomicResponse::kSize>()),
              wire::decode_atomic_response);
  check_again(wire::decode_terminate(payload.first<wire::RdmapTerminate::kSize>()),
              wire::decode_terminate);
}

/// Checks a stream of these bytes, and a stream of segments that contain them.
void check_stream(ByteSpan bytes, const transport::iwarp::StreamOptions& options) {
  std::vector<std::byte> stream(bytes.begin(), bytes.end());
  transport::iwarp::FpduReader any(options);
  for (std::size_t at = 0;;) {
    const auto found = any.next(std::span(stream).subspan(at));
    if (!found || !*found) break;
    VERBATIM_ASSERT((*found)->segment.size() < (*found)->bytes);
    at += (*found)->bytes;
  }
  transport::iwarp::FpduWriter writer(options);
  transport::iwarp::FpduReader reader(options);
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t size =
        std::min<std::size_t>(1 + std::to_integer<std::size_t>(bytes[at]) * 7, bytes.size() - at);
    std::vector<std::byte> fpdu(writer.bytes_of(size));
    std::ranges::copy(bytes.subspan(at, size), fpdu.begin() + wire::kFpduLengthBytes);
    writer.write(fpdu, size);
    const auto found = reader.next(fpdu);
    VERBATIM_ASSERT(found && *found && (*found)->bytes == fpdu.size());
    VERBATIM_ASSERT(std::ranges::equal((*found)->segment, bytes.subspan(at, size)));
    at += size;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  check_mpa(bytes);
  check_segment(bytes);
  for (const bool has_markers : {false, true}) {
    check_stream(bytes, {.has_crc = true, .has_markers = has_markers});
    check_stream(bytes, {.has_crc = false, .has_markers = has_markers});
  }
  return 0;
}
