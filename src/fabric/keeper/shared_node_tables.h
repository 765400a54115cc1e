#pragma once

#include <cstdint>
#include <span>

#include "fabric/data/shared_fabric.h"
#include "mad/sma/node_tables.h"

namespace verbatim::fabric {

/// The tables of one node of the topology as its subnet management agent writes them: in the shared
/// memory, where movers read them with the next packet. An adapter has a node there for each port.
class SharedNodeTables final : public mad::NodeTables {
 public:
  /// What has no rate of its own is as fast as the machine.
  enum class Pace : std::uint8_t { unlimited, by_link };
  SharedNodeTables(SharedFabric& fabric, Mover& mover, std::uint32_t topology_node, Pace pace);

  std::uint8_t output_port(Lid lid) const override;
  wire::LinearForwardingTable linear(unsigned block) const override;
  void set_linear(unsigned block, const wire::LinearForwardingTable& table) override;
  wire::MulticastForwardingTable multicast(unsigned block, unsigned position) const override;
  void set_multicast(unsigned block, unsigned position,
                     const wire::MulticastForwardingTable& table) override;
  wire::SlToVlMappingTable sl_to_vl(unsigned input, unsigned output) const override;
  void set_sl_to_vl(unsigned input, unsigned output,
                    const wire::SlToVlMappingTable& table) override;
  wire::VlArbitrationTable vl_arbitration(unsigned port, unsigned block) const override;
  void set_vl_arbitration(unsigned port, unsigned block,
                          const wire::VlArbitrationTable& table) override;
  std::span<const std::uint16_t> p_keys(unsigned port) const override;
  void set_p_keys(unsigned port, unsigned block, const wire::PKeyTable& table) override;
  void set_port(unsigned port, const wire::PortInfo& info) override;
  void set_switch(const wire::SwitchInfo& info) override;

 private:
  /// Where a port of the topology is in the data path.
  struct Place {
    NodeIndex node = 0;
    unsigned port = 0;
  };
  Place place_of(unsigned port) const;
  Tables tables() const { return fabric_.tables(); }
  bool is_switch() const { return kind_ == RecordKind::switch_node; }
  void set_initial_tables();

  SharedFabric& fabric_;
  Mover& mover_;
  const NodeIndex first_node_;
  const RecordKind kind_;
  const Pace pace_;
  const unsigned ports_;
};

}  // namespace verbatim::fabric
