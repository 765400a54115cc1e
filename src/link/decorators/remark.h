#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace verbatim::link {

/// What fault injection has done to a packet.
enum class Remark : std::uint8_t {
  none,
  lost,
  overflowed,
  delayed,
  duplicated,
  reordered,
  corrupted,
};

/// As a comment of a capture; empty for none.
inline constexpr std::array<std::string_view, 7> kRemarkTexts = {
    "",
    "fault: lost, not on the wire",
    "fault: lost, since too many packets are being delayed",
    "fault: delayed",
    "fault: duplicate",
    "fault: reordered",
    "fault: corrupted",
};

}  // namespace verbatim::link
