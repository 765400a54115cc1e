#pragma once

#include <span>

#include "fabric/data/shared_fabric.h"
#include "mad/sma/node_tables.h"

namespace verbatim::fabric {

/// The tables of one node of the topology as its subnet management agent writes them: in the shared
/// memory, where movers read them with the next packet. An adapter has a station for each port.
class SharedNodeTables final : public mad::NodeTables {
 public:
  SharedNodeTables(SharedFabric& fabric, Mover& mover, std::uint32_t topology_node)
      : fabric_(fabric), mover_(mover), topology_node_(topology_node) {}

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
  bool is_switch() const;

  SharedFabric& fabric_;
  Mover& mover_;
  const std::uint32_t topology_node_;
};

}  // namespace verbatim::fabric
