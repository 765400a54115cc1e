#include "mad/sma/plain_tables.h"

#include <algorithm>

#include "mad/sma/initial_tables.h"

namespace verbatim::mad {
namespace {

constexpr std::array<std::uint16_t, 1> kDefaultPKeys{raw(kDefaultPKey)};

/// A switch starts without any route.
wire::LinearForwardingTable no_routes() {
  wire::LinearForwardingTable table;
  table.ports.fill(wire::LinearForwardingTable::kNoPort);
  return table;
}

template <typename T>
T& grown_at(std::vector<T>& values, std::size_t index, const T& filler) {
  if (index >= values.size()) values.resize(index + 1, filler);
  return values[index];
}

}  // namespace

PlainTables::PlainTables(unsigned ports, bool is_switch)
    : ports_(ports), positions_(ports / 16 + 1), is_switch_(is_switch), p_keys_(ports + 1) {
  // Programs look at the whole table of a host's port.
  for (unsigned port = 1; port <= ports && !is_switch; ++port) {
    p_keys_[port].resize(kPortPKeys);
    p_keys_[port][0] = raw(kDefaultPKey);
  }
}

std::uint8_t PlainTables::output_port(Lid lid) const {
  const std::size_t block = raw(lid) / wire::LinearForwardingTable::kEntries;
  if (block >= linear_.size()) return wire::LinearForwardingTable::kNoPort;
  return linear_[block].ports[raw(lid) % wire::LinearForwardingTable::kEntries];
}

wire::LinearForwardingTable PlainTables::linear(unsigned block) const {
  return block < linear_.size() ? linear_[block] : no_routes();
}

void PlainTables::set_linear(unsigned block, const wire::LinearForwardingTable& table) {
  grown_at(linear_, block, no_routes()) = table;
}

wire::MulticastForwardingTable PlainTables::multicast(unsigned block, unsigned position) const {
  const std::size_t index = multicast_index(block, position);
  return index < multicast_.size() ? multicast_[index] : wire::MulticastForwardingTable{};
}

void PlainTables::set_multicast(unsigned block, unsigned position,
                                const wire::MulticastForwardingTable& table) {
  grown_at(multicast_, multicast_index(block, position), {}) = table;
}

wire::SlToVlMappingTable PlainTables::sl_to_vl(unsigned input, unsigned output) const {
  return sl_to_vl_.empty() ? initial_lanes(output) : sl_to_vl_[sl_to_vl_index(input, output)];
}

void PlainTables::set_sl_to_vl(unsigned input, unsigned output,
                               const wire::SlToVlMappingTable& table) {
  const std::size_t inputs = is_switch_ ? ports_ + 1 : 1;
  for (std::size_t i = sl_to_vl_.size(); i < inputs * (ports_ + 1); ++i) {
    sl_to_vl_.push_back(initial_lanes(static_cast<unsigned>(i % (ports_ + 1))));
  }
  sl_to_vl_[sl_to_vl_index(input, output)] = table;
}

wire::VlArbitrationTable PlainTables::vl_arbitration(unsigned port, unsigned block) const {
  return vl_arbitration_.empty() ? initial_arbitration(block) : vl_arbitration_[port][block - 1];
}

void PlainTables::set_vl_arbitration(unsigned port, unsigned block,
                                     const wire::VlArbitrationTable& table) {
  if (vl_arbitration_.empty()) {
    vl_arbitration_.resize(ports_ + 1, {initial_arbitration(1), initial_arbitration(2),
                                        initial_arbitration(3), initial_arbitration(4)});
  }
  vl_arbitration_[port][block - 1] = table;
}

std::span<const std::uint16_t> PlainTables::p_keys(unsigned port) const {
  if (p_keys_[port].empty()) return kDefaultPKeys;
  return p_keys_[port];
}

void PlainTables::set_p_keys(unsigned port, unsigned block, const wire::PKeyTable& table) {
  auto& keys = p_keys_[port];
  const std::size_t first = std::size_t{block} * wire::PKeyTable::kEntries;
  if (keys.empty()) keys.push_back(raw(kDefaultPKey));
  keys.resize(std::max(keys.size(), first + wire::PKeyTable::kEntries));
  std::ranges::transform(table.keys, keys.begin() + static_cast<std::ptrdiff_t>(first),
                         [](PKey key) { return raw(key); });
}

void PlainTables::set_port(unsigned /*port*/, const wire::PortInfo& /*info*/) {}
void PlainTables::set_switch(const wire::SwitchInfo& /*info*/) {}

}  // namespace verbatim::mad
