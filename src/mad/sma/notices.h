#pragma once

#include <cstdint>

#include "mad/sma/subnet_node.h"
#include "wire/subnet/notice.h"
#include "wire/subnet/smp.h"

/// What the traps of an agent say (IBA 14.2.5.1).
namespace verbatim::mad {

/// Trap 128: a port of the switch came up or went down.
wire::Notice link_state_notice(const SubnetNode& node);
/// Trap 129: too many packets come to `port` damaged.
wire::Notice link_integrity_notice(const SubnetNode& node, std::uint8_t port);
/// Trap 144: the capabilities of `port` are others.
wire::Notice capabilities_notice(const SubnetNode& node, std::uint8_t port);
/// Trap 144: the node has another description.
wire::Notice description_notice(const SubnetNode& node, std::uint8_t port);
/// Trap 256: `smp` came to `port` from `source` without the right M_Key.
wire::Notice bad_m_key_notice(const SubnetNode& node, std::uint8_t port, const wire::Smp& smp,
                              Lid source);
/// Trap 257 or 258: `details` came to `port`.
wire::Notice bad_key_notice(const SubnetNode& node, std::uint8_t port, wire::TrapNumber trap,
                            const wire::BadKeyDetails& details);
/// Trap 259: `details` was to pass a port of the switch.
wire::Notice switch_bad_p_key_notice(const SubnetNode& node,
                                     const wire::SwitchBadPKeyDetails& details);

}  // namespace verbatim::mad
