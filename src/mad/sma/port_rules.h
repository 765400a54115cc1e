#pragma once

#include <cstdint>
#include <expected>

#include "wire/mad/mad.h"
#include "wire/subnet/port_info.h"

namespace verbatim::mad {

/// Which fields of PortInfo a port has (IBA 14.2.5.6): a switch's port 0 has no link, its external
/// ports have no LID. Others are read as zeros and ignored when written.
enum class PortRole : std::uint8_t { adapter, switch_port_0, switch_external };

/// What Set(PortInfo) makes of the port; or `invalid_value`, and then nothing changes.
struct PortChange {
  wire::PortInfo info;
  bool drops_link = false;  // The link goes down; it trains again if `info` says Polling.
};
std::expected<PortChange, wire::MadStatus> apply(const wire::PortInfo& current,
                                                 const wire::PortInfo& wanted, PortRole role);

}  // namespace verbatim::mad
