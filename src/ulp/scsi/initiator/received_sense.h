#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "ulp/scsi/sense.h"

namespace verbatim::ulp::scsi {

/// What of sense data an initiator acts on.
struct ReceivedSense {
  SenseKey key{};
  std::uint16_t code = 0;  // A `SenseCode`, or one of other targets.
};

/// Sense data has two forms (SPC-4, 4.5). None: it is in neither.
inline std::optional<ReceivedSense> read_sense(ByteSpan sense) {
  if (sense.size() < 4) return {};
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint8_t>(sense[i]); };
  const std::uint8_t form = byte(0) & 0x7f;
  if (form == 0x72 || form == 0x73)
    return ReceivedSense{SenseKey{static_cast<std::uint8_t>(byte(1) & 0xf)},
                         load_be<std::uint16_t>(&sense[2])};
  if (form != 0x70 && form != 0x71) return {};
  return ReceivedSense{SenseKey{static_cast<std::uint8_t>(byte(2) & 0xf)},
                       sense.size() < 14 ? std::uint16_t{0} : load_be<std::uint16_t>(&sense[12])};
}

}  // namespace verbatim::ulp::scsi
