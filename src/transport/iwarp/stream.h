#pragma once

#include <cstdint>
#include <expected>
#include <optional>

#include "base/bytes.h"
#include "wire/error.h"
#include "wire/iwarp/mpa.h"

/// FPDUs in one direction of a TCP stream, from the first byte after connection set-up on.
namespace verbatim::transport::iwarp {

struct StreamOptions {
  bool has_crc = true;
  bool has_markers = false;
};

/// Size of the longest FPDU, with markers.
inline constexpr std::size_t kFpduBytesMax = 66'560;

class FpduReader {
 public:
  explicit FpduReader(const StreamOptions& options = {}) : options_(options) {}

  struct Found {
    std::size_t bytes = 0;  // In the stream.
    ByteSpan segment;
  };
  /// Returns the first FPDU of `stream`, if it is complete. Removes its markers in place, so the
  /// caller continues after it.
  std::expected<std::optional<Found>, wire::WireError> next(MutableByteSpan stream);

 private:
  StreamOptions options_;
  std::uint64_t position_ = 0;
};

class FpduWriter {
 public:
  explicit FpduWriter(const StreamOptions& options = {}) : options_(options) {}

  /// Returns the number of bytes in the stream for a segment of `segment_bytes`.
  std::size_t bytes_of(std::size_t segment_bytes) const;
  /// Makes an FPDU of the segment at `kFpduLengthBytes` of `out`, which has bytes_of() it.
  void write(MutableByteSpan out, std::size_t segment_bytes);
  /// Returns true if the FPDU has neither markers nor a CRC: then its payload may stay in another
  /// place.
  bool may_write_around() const { return !options_.has_crc && !options_.has_markers; }
  /// `front`: the FPDU up to the payload, which has the segment's header; `end`: the bytes after
  /// the payload.
  void write_around(MutableByteSpan front, std::size_t payload_bytes, MutableByteSpan end);

 private:
  StreamOptions options_;
  std::uint64_t position_ = 0;
};

}  // namespace verbatim::transport::iwarp
