#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/net/link_rate.h"
#include "wire/subnet/port_info.h"

namespace verbatim::wire {

/// Rates in path records, multicast groups and address handles (IBA 15.2.5.16), with the values of
/// `ibv_rate`, which are not in the order of rates.
enum class RateCode : std::uint8_t {};

struct RateFacts {
  RateCode code;
  std::uint32_t mbps;
};

inline constexpr std::array<RateFacts, 23> kRates{{
    {RateCode{2}, 2'500},    {RateCode{3}, 10'000},     {RateCode{4}, 30'000},
    {RateCode{5}, 5'000},    {RateCode{6}, 20'000},     {RateCode{7}, 40'000},
    {RateCode{8}, 60'000},   {RateCode{9}, 80'000},     {RateCode{10}, 120'000},
    {RateCode{11}, 14'000},  {RateCode{12}, 56'000},    {RateCode{13}, 112'000},
    {RateCode{14}, 168'000}, {RateCode{15}, 25'000},    {RateCode{16}, 100'000},
    {RateCode{17}, 200'000}, {RateCode{18}, 300'000},   {RateCode{19}, 28'000},
    {RateCode{20}, 50'000},  {RateCode{21}, 400'000},   {RateCode{22}, 600'000},
    {RateCode{23}, 800'000}, {RateCode{24}, 1'200'000},
}};

/// Returns 0 for a code that the specification reserves.
constexpr std::uint32_t mbps_of(RateCode code) {
  for (const RateFacts& rate : kRates) {
    if (rate.code == code) return rate.mbps;
  }
  return 0;
}

/// The bit of a speed in each of PortInfo's masks. FDR10 counts as QDR there and has its own bit in
/// `MellanoxExtendedPortInfo`. `rates` are the codes for 1x, 2x, 4x, 8x and 12x; 0: no code.
struct LinkSpeedCodes {
  std::uint8_t speed;
  std::uint8_t extended;
  std::uint8_t extended2;
  std::array<std::uint8_t, 5> rates;
};

/// In the order of `LinkSpeed`. An extended speed is valid only if CapabilityMask has its bit;
/// managers that do not know it read QDR.
inline constexpr std::array<LinkSpeedCodes, 9> kLinkSpeedCodes{{
    {1, 0, 0, {2, 5, 3, 6, 4}},
    {2, 0, 0, {5, 3, 6, 7, 8}},
    {4, 0, 0, {3, 6, 7, 9, 10}},
    {4, 0, 0, {3, 6, 7, 9, 10}},
    {4, 1, 0, {11, 19, 12, 13, 14}},
    {4, 2, 0, {15, 20, 16, 17, 18}},
    {4, 4, 0, {20, 16, 17, 21, 22}},
    {4, 8, 0, {16, 17, 21, 23, 24}},
    {4, 0, 1, {17, 21, 23, 0, 0}},
}};

constexpr const LinkSpeedCodes& codes_of(LinkSpeed speed) {
  return kLinkSpeedCodes[static_cast<std::size_t>(speed)];
}

/// Returns nothing if the specification has no code for it (8x and 12x XDR).
constexpr std::optional<RateCode> rate_code(LinkWidth width, LinkSpeed speed) {
  for (std::size_t i = 0; i < 5; ++i) {
    constexpr std::array kOrder{LinkWidth::x1, LinkWidth::x2, LinkWidth::x4, LinkWidth::x8,
                                LinkWidth::x12};
    if (kOrder[i] != width || codes_of(speed).rates[i] == 0) continue;
    return RateCode{codes_of(speed).rates[i]};
  }
  return std::nullopt;
}

/// Returns the bits of packets in a second that links of this code carry; 0 for a code that the
/// specification reserves.
constexpr std::uint64_t effective_rate_bps(RateCode code) {
  for (std::size_t i = 0; i < kLinkSpeeds.size(); ++i) {
    for (const LinkWidth width : kLinkWidths) {
      const auto speed = static_cast<LinkSpeed>(i);
      if (rate_code(width, speed) == code) return verbatim::effective_rate_bps(width, speed);
    }
  }
  return 0;
}

/// Sets the active speed of the link. FDR10 reads as QDR.
constexpr void set_active_speed(PortInfo& port, LinkSpeed speed) {
  port.speed_active = codes_of(speed).speed;
  port.speed_extended_active = codes_of(speed).extended;
  port.speed_extended2_active = codes_of(speed).extended2;
}

/// What a port of Mellanox's says of FDR10 when its link runs at `active`. Ports of FDR and faster
/// support it, too.
constexpr MellanoxExtendedPortInfo mellanox_port_info(const PortInfo& port, LinkSpeed active) {
  constexpr std::uint8_t kFdr10 = MellanoxExtendedPortInfo::kFdr10;
  const bool is_active = active == LinkSpeed::fdr10;
  const bool is_supported = is_active || port.speed_extended_supported != 0;
  return {.speed_supported = is_supported ? kFdr10 : std::uint8_t{0},
          .speed_enabled = is_supported ? kFdr10 : std::uint8_t{0},
          .speed_active = is_active ? kFdr10 : std::uint8_t{0}};
}

/// Returns nothing if the link is down or a field's value is no speed.
constexpr std::optional<LinkSpeed> active_speed(const PortInfo& port) {
  for (std::size_t i = kLinkSpeedCodes.size(); i-- > 0;) {
    const LinkSpeedCodes& codes = kLinkSpeedCodes[i];
    // NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange): the table has one row a speed.
    const auto speed = static_cast<LinkSpeed>(i);
    if (speed == LinkSpeed::fdr10 || codes.extended != port.speed_extended_active ||
        codes.extended2 != port.speed_extended2_active) {
      continue;
    }
    const bool is_extended = codes.extended != 0 || codes.extended2 != 0;
    if (is_extended || codes.speed == port.speed_active) return speed;
  }
  return std::nullopt;
}

/// Sets Supported and Enabled to all speeds up to `fastest`.
constexpr void set_supported_speeds(PortInfo& port, LinkSpeed fastest) {
  port.speed_supported = port.speed_extended_supported = port.speed_extended2_supported = 0;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(fastest); ++i) {
    port.speed_supported |= kLinkSpeedCodes[i].speed;
    port.speed_extended_supported |= kLinkSpeedCodes[i].extended;
    port.speed_extended2_supported |= kLinkSpeedCodes[i].extended2;
  }
  port.speed_enabled = port.speed_supported;
  port.speed_extended_enabled = port.speed_extended_supported;
  port.speed_extended2_enabled = port.speed_extended2_supported;
}

}  // namespace verbatim::wire
