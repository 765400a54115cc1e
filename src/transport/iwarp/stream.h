#pragma once

#include <cstdint>
#include <expected>
#include <optional>

#include "base/bytes.h"
#include "wire/error.h"
#include "wire/iwarp/mpa.h"

/// FPDUs in one direction of a TCP stream, from the first byte after set-up on.
namespace verbatim::transport::iwarp {

struct StreamOptions {
  bool has_crc = true;
  bool has_markers = false;
};

/// The longest FPDU, markers included.
inline constexpr std::size_t kFpduBytesMax = 66'560;

class FpduReader {
 public:
  explicit FpduReader(const StreamOptions& options = {}) : options_(options) {}

  struct Found {
    std::size_t bytes = 0;  // Of the stream.
    ByteSpan segment;
  };
  /// The FPDU that `stream` begins with, where all of it has come. Its markers are taken out in
  /// place, so the caller goes on behind it.
  std::expected<std::optional<Found>, wire::WireError> next(MutableByteSpan stream);

 private:
  StreamOptions options_;
  std::uint64_t position_ = 0;
};

class FpduWriter {
 public:
  explicit FpduWriter(const StreamOptions& options = {}) : options_(options) {}

  /// What a segment of `segment_bytes` takes of the stream.
  std::size_t bytes_of(std::size_t segment_bytes) const;
  /// The segment lies at `kFpduLengthBytes` of `out`, which has bytes_of() it: encloses it.
  void write(MutableByteSpan out, std::size_t segment_bytes);
  /// Whether the FPDU is only put around the segment, neither marked nor summed up: then the
  /// segment's payload may lie elsewhere.
  bool may_write_around() const { return !options_.has_crc && !options_.has_markers; }
  /// `front` is the FPDU up to the payload, with the segment's header in its place; `end` is what
  /// follows the payload.
  void write_around(MutableByteSpan front, std::size_t payload_bytes, MutableByteSpan end);

 private:
  StreamOptions options_;
  std::uint64_t position_ = 0;
};

}  // namespace verbatim::transport::iwarp
