#pragma once

#include <cstdint>

#include <isa-l/crc.h>

#include "base/bytes.h"

namespace verbatim::wire {

/// CRC32c (RFC 3385), computed over pieces in order. Of iWARP and of trunks.
class Crc32c {
 public:
  void update(ByteSpan bytes) {
    // ISA-L does not write to its input. Its length is an int, which no segment exceeds.
    auto* const start =
        const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
    value_ = crc32_iscsi(start, static_cast<int>(bytes.size()), value_);
  }
  std::uint32_t value() const { return ~value_; }

 private:
  std::uint32_t value_ = ~0U;
};

}  // namespace verbatim::wire
