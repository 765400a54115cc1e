#pragma once

#include <array>
#include <cstdint>
#include <string_view>

/// Widths and speeds of InfiniBand links (IBA volume 2, chapters 5 and 6).
namespace verbatim {

/// Lanes of a link. The enumerators' values are those of LinkWidthActive (IBA 14.2.5.6).
enum class LinkWidth : std::uint8_t { x1 = 1, x4 = 2, x8 = 4, x12 = 8, x2 = 16 };

inline constexpr std::array kLinkWidths{LinkWidth::x1, LinkWidth::x2, LinkWidth::x4, LinkWidth::x8,
                                        LinkWidth::x12};

/// Returns 0 for a value that names no single width.
constexpr unsigned lanes_of(LinkWidth width) {
  switch (width) {
    case LinkWidth::x1:
      return 1;
    case LinkWidth::x2:
      return 2;
    case LinkWidth::x4:
      return 4;
    case LinkWidth::x8:
      return 8;
    case LinkWidth::x12:
      return 12;
  }
  return 0;
}

/// Speeds of a lane, slowest first. FDR10 is Mellanox's: FDR's coding at QDR's signalling.
enum class LinkSpeed : std::uint8_t { sdr, ddr, qdr, fdr10, fdr, edr, hdr, ndr, xdr };

/// A lane at one speed: of `coded_bits` on the wire, `data_bits` are data.
struct LinkSpeedFacts {
  std::string_view name;
  std::uint64_t signalling_bps;
  std::uint32_t data_bits;
  std::uint32_t coded_bits;
};

/// In the order of `LinkSpeed`. HDR and above: 256b/257b, then Reed-Solomon (544, 514).
inline constexpr std::array<LinkSpeedFacts, 9> kLinkSpeeds{{
    {"SDR", 2'500'000'000, 8, 10},
    {"DDR", 5'000'000'000, 8, 10},
    {"QDR", 10'000'000'000, 8, 10},
    {"FDR10", 10'312'500'000, 64, 66},
    {"FDR", 14'062'500'000, 64, 66},
    {"EDR", 25'781'250'000, 64, 66},
    {"HDR", 53'125'000'000, 256 * 514, 257 * 544},
    {"NDR", 106'250'000'000, 256 * 514, 257 * 544},
    {"XDR", 212'500'000'000, 256 * 514, 257 * 544},
}};

constexpr const LinkSpeedFacts& facts_of(LinkSpeed speed) {
  return kLinkSpeeds[static_cast<std::size_t>(speed)];
}

/// Returns the bits of packets that a link carries in a second: the signalling rate less the
/// coding.
constexpr std::uint64_t effective_rate_bps(LinkWidth width, LinkSpeed speed) {
  const LinkSpeedFacts& lane = facts_of(speed);
  return lane.signalling_bps * lanes_of(width) * lane.data_bits / lane.coded_bits;
}

}  // namespace verbatim
