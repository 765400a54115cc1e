#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace verbatim::link {

/// What fault injection did to a packet.
enum class Remark : std::uint8_t {
  none,
  lost,
  overflowed,
  delayed,
  duplicated,
  reordered,
  corrupted,
};

/// Text of a comment in a capture; empty for none.
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
