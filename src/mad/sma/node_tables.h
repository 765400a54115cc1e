#pragma once

#include <cstdint>
#include <span>

#include "base/net/path.h"
#include "wire/subnet/node.h"
#include "wire/subnet/port_info.h"
#include "wire/subnet/tables.h"

namespace verbatim::mad {

/// Sizes of the tables that every emulated node has. A subnet manager reads them in NodeInfo,
/// SwitchInfo and PortInfo.
inline constexpr std::uint16_t kPortPKeys = 64;  // A host's port, a switch's external port.
inline constexpr std::uint16_t kSwitchPort0PKeys = 32;
inline constexpr std::uint16_t kLinearLids = 0xc000;  // All unicast LIDs.
inline constexpr std::uint16_t kMulticastLids = 1024;
inline constexpr Lid kFirstMulticastLid{0xc000};
inline constexpr std::uint8_t kPortGuids = 32;
inline constexpr std::uint8_t kArbitrationEntries = 8;  // Of each, the high and the low table.
inline constexpr wire::VirtualLanes kDataLanes = wire::VirtualLanes::eight;

/// What the hardware of one node reads while packets pass, and its SMA writes. The SMA has checked
/// every index. Blocks are as SMPs carry them.
class NodeTables {
 public:
  virtual ~NodeTables() = default;

  /// The port by which a switch forwards to `lid`; LinearForwardingTable::kNoPort: none.
  virtual std::uint8_t output_port(Lid lid) const = 0;
  virtual wire::LinearForwardingTable linear(unsigned block) const = 0;
  virtual void set_linear(unsigned block, const wire::LinearForwardingTable& table) = 0;

  virtual wire::MulticastForwardingTable multicast(unsigned block, unsigned position) const = 0;
  virtual void set_multicast(unsigned block, unsigned position,
                             const wire::MulticastForwardingTable& table) = 0;

  /// Of a host's port: `input` is 0.
  virtual wire::SlToVlMappingTable sl_to_vl(unsigned input, unsigned output) const = 0;
  virtual void set_sl_to_vl(unsigned input, unsigned output,
                            const wire::SlToVlMappingTable& table) = 0;

  /// `block` is 1 to 4, as in the attribute modifier.
  virtual wire::VlArbitrationTable vl_arbitration(unsigned port, unsigned block) const = 0;
  virtual void set_vl_arbitration(unsigned port, unsigned block,
                                  const wire::VlArbitrationTable& table) = 0;

  /// The whole table; entries behind its end are 0.
  virtual std::span<const std::uint16_t> p_keys(unsigned port) const = 0;
  virtual void set_p_keys(unsigned port, unsigned block, const wire::PKeyTable& table) = 0;

  /// Called with the first values, and after each change.
  virtual void set_port(unsigned port, const wire::PortInfo& info) = 0;
  virtual void set_switch(const wire::SwitchInfo& info) = 0;
};

}  // namespace verbatim::mad
