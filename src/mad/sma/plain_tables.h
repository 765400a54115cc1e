#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "mad/sma/node_tables.h"

namespace verbatim::mad {

/// A node's tables in plain memory, which grows only with what a manager writes: a fabric of ten
/// thousand nodes is small until then.
class PlainTables final : public NodeTables {
 public:
  /// `ports`: physical ones.
  PlainTables(unsigned ports, bool is_switch);

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
  /// Nothing in plain memory reads these: packets pass elsewhere.
  void set_port(unsigned port, const wire::PortInfo& info) override;
  void set_switch(const wire::SwitchInfo& info) override;

 private:
  std::size_t multicast_index(unsigned block, unsigned position) const {
    return std::size_t{block} * positions_ + position;
  }
  std::size_t sl_to_vl_index(unsigned input, unsigned output) const {
    return std::size_t{input} * (ports_ + 1) + output;
  }

  unsigned ports_;
  unsigned positions_;  // Of 16 ports each, port 0 included.
  bool is_switch_;
  std::vector<wire::LinearForwardingTable> linear_;
  std::vector<wire::MulticastForwardingTable> multicast_;
  std::vector<wire::SlToVlMappingTable> sl_to_vl_;                       // All, or none.
  std::vector<std::array<wire::VlArbitrationTable, 4>> vl_arbitration_;  // All ports, or none.
  std::vector<std::vector<std::uint16_t>> p_keys_;
};

}  // namespace verbatim::mad
