// What `verbatim nic show`, `flows` and `stats` print.
#include <nlohmann/json.hpp>

#include "offload/card/card.h"
#include "offload/card/rule_check.h"
#include "offload/ring/rule_text.h"

namespace verbatim::offload {
namespace {

struct CounterRow {
  const char* name;
  __u64 vnic_port_counters::* value;
};
constexpr CounterRow kRows[] = {
    {"offloaded_packets", &vnic_port_counters::offloaded_packets},
    {"offloaded_bytes", &vnic_port_counters::offloaded_bytes},
    {"missed_packets", &vnic_port_counters::missed_packets},
    {"missed_bytes", &vnic_port_counters::missed_bytes},
    {"sent_packets", &vnic_port_counters::sent_packets},
    {"sent_bytes", &vnic_port_counters::sent_bytes},
    {"no_buffer_dropped", &vnic_port_counters::no_buffer_dropped},
    {"egress_dropped", &vnic_port_counters::egress_dropped},
};

}  // namespace

std::string Card::port_title(std::size_t port) const {
  return port == 0 ? "uplink" : port_name(port);
}

nlohmann::json Card::show() const {
  nlohmann::json ports = nlohmann::json::array();
  for (std::size_t p = 0; p < ports_.size(); ++p) {
    nlohmann::json port{{"port", port_title(p)}};
    if (const auto* const tap = std::get_if<Tap>(&ports_[p].end)) {
      port["interface"] = tap->name();
    } else {
      const auto& rings = std::get<RingFunction>(ports_[p].end);
      std::uint64_t faults = 0;
      for (const auto& member : rings.members()) faults += member->faults();
      port["rings"] = {
          {"clients", rings.members().size()}, {"link", rings.link_is_up()}, {"faults", faults}};
    }
    ports.push_back(port);
  }
  nlohmann::json all{{"socket", options_.socket},
                     {"mode", options_.is_dpu ? "dpu" : "host"},
                     {"ports", ports},
                     {"rules", switch_->table().size()},
                     {"rules_max", options_.rules},
                     {"masks", switch_->table().masks()}};
  if (driver_ != nullptr) {
    all["driver"] = {{"process", driver_client_ != nullptr ? driver_client_->process() : 0},
                     {"memory_bytes", driver_->memory().bytes()},
                     {"commands_refused", driver_->commands_refused()},
                     {"faults", driver_->faults()}};
  }
  return all;
}

nlohmann::json Card::flows() const {
  nlohmann::json flows = nlohmann::json::array();
  const FlowTable& table = switch_->table();
  for (std::uint32_t id = 0; id < table.ids(); ++id) {
    if (!table.has(id)) continue;
    const vnic_counter& counter = driver_->counter(id);
    flows.push_back({{"id", id},
                     {"rule", text_of(ring_rule_of(table.rule(id)))},
                     {"packets", relaxed(counter.packets)},
                     {"bytes", relaxed(counter.bytes)}});
  }
  return {{"flows", flows}};
}

nlohmann::json Card::stats() const {
  nlohmann::json ports = nlohmann::json::array();
  for (std::size_t p = 0; p < ports_.size(); ++p) {
    nlohmann::json port{{"port", port_title(p)}};
    for (const CounterRow& row : kRows)
      port[row.name] = std::uint64_t{ports_[p].counters.*row.value};
    ports.push_back(port);
  }
  return {
      {"ports", ports}, {"undecided_drops", undecided_drops_}, {"unedited_drops", unedited_drops_}};
}

}  // namespace verbatim::offload
