#include "fabric/management/training.h"

#include "wire/subnet/link_speed.h"

namespace verbatim::fabric {
namespace {

bool enables(const wire::PortInfo& port, LinkSpeed speed) {
  const wire::LinkSpeedCodes& codes = wire::codes_of(speed);
  // Larger values are no mask: 30 turns extended speeds off.
  const bool has_mask = port.speed_extended_enabled < 16;
  if (codes.extended2 != 0) return (port.speed_extended2_enabled & codes.extended2) != 0;
  if (codes.extended != 0) return has_mask && (port.speed_extended_enabled & codes.extended) != 0;
  return (port.speed_enabled & codes.speed) != 0;
}

/// FDR10 needs a cable of FDR10: its bits are those of QDR.
std::optional<LinkSpeed> common_speed(LinkSpeed fastest, const wire::PortInfo& a,
                                      const wire::PortInfo& b) {
  for (auto i = static_cast<int>(fastest); i >= 0; --i) {
    const auto speed = static_cast<LinkSpeed>(i);
    if (speed == LinkSpeed::fdr10 && fastest != LinkSpeed::fdr10) continue;
    if (enables(a, speed) && enables(b, speed)) return speed;
  }
  return std::nullopt;
}

std::optional<LinkWidth> common_width(LinkWidth widest, const wire::PortInfo& a,
                                      const wire::PortInfo& b) {
  std::optional<LinkWidth> best;
  for (const LinkWidth width : kLinkWidths) {
    const bool is_enabled = (a.width_enabled & b.width_enabled & raw(width)) != 0;
    if (!is_enabled || lanes_of(width) > lanes_of(widest)) continue;
    if (!best || lanes_of(width) > lanes_of(*best)) best = width;
  }
  return best;
}

}  // namespace

std::optional<Rate> trained_rate(Rate cable, const wire::PortInfo& a, const wire::PortInfo& b) {
  using wire::PhysicalState;
  if (a.physical_state != PhysicalState::polling) return std::nullopt;
  if (b.physical_state != PhysicalState::polling) return std::nullopt;
  const auto width = common_width(cable.width, a, b);
  const auto speed = common_speed(cable.speed, a, b);
  if (!width || !speed) return std::nullopt;
  return Rate{*width, *speed};
}

}  // namespace verbatim::fabric
