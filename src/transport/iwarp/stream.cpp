#include "transport/iwarp/stream.h"

#include "wire/iwarp/mpa_markers.h"

namespace verbatim::transport::iwarp {

static_assert(kFpduBytesMax >= wire::fpdu_bytes(0xffff) + wire::kMarkerBytes * (0xffff / 500));

std::expected<std::optional<FpduReader::Found>, wire::WireError> FpduReader::next(
    MutableByteSpan stream) {
  const bool begins_with_marker = options_.has_markers && position_ % wire::kMarkerInterval == 0;
  const std::size_t length_at = begins_with_marker ? wire::kMarkerBytes : 0;
  if (stream.size() < length_at) return std::nullopt;
  const auto fpdu_bytes = wire::next_fpdu_bytes(stream.subspan(length_at));
  if (!fpdu_bytes) return std::nullopt;
  const std::size_t bytes =
      options_.has_markers ? wire::marked_bytes(position_, *fpdu_bytes) : *fpdu_bytes;
  if (stream.size() < bytes) return std::nullopt;
  const MutableByteSpan taken = stream.first(bytes);
  if (options_.has_crc && !wire::has_right_crc(taken)) {
    return std::unexpected(wire::WireError::mpa_crc);
  }
  if (options_.has_markers && !wire::remove_markers(taken, position_)) {
    return std::unexpected(wire::WireError::mpa_marker);
  }
  position_ += bytes;
  return Found{bytes, wire::segment_of(taken.first(*fpdu_bytes))};
}

std::size_t FpduWriter::bytes_of(std::size_t segment_bytes) const {
  const std::size_t bytes = wire::fpdu_bytes(segment_bytes);
  return options_.has_markers ? wire::marked_bytes(position_, bytes) : bytes;
}

void FpduWriter::write(MutableByteSpan out, std::size_t segment_bytes) {
  const std::size_t bytes = wire::fpdu_bytes(segment_bytes);
  wire::enclose_fpdu(out.first(bytes), segment_bytes);
  if (options_.has_markers) wire::insert_markers(out, position_, bytes);
  if (options_.has_crc) wire::set_crc(out);
  position_ += out.size();
}

void FpduWriter::write_around(MutableByteSpan front, std::size_t payload_bytes,
                              MutableByteSpan end) {
  wire::enclose_fpdu(front, front.size() - wire::kFpduLengthBytes + payload_bytes, end);
  position_ += front.size() + payload_bytes + end.size();
}

}  // namespace verbatim::transport::iwarp
