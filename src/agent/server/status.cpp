#include "agent/server/status.h"

#include <array>
#include <memory>

#include <nlohmann/json.hpp>

#include "agent/protocol/arena_header.h"
#include "arena/queue_pair_record.h"
#include "arena/target.h"
#include "observe/counters.h"

namespace verbatim::agent {
namespace {

using Json = nlohmann::ordered_json;

Json node_json(const Node& node) {
  Json json;
  json["node"] = node.name.view();
  json["guid"] = fmt::format("{:016x}", node.guid);
  json["agent_pid"] = node.agent_pid;
  json["version"] = VERBATIM_VERSION;
  json["device"] = node.device.view();
  json["profile"] = node.profile.view();
  json["protocol"] = name_of(node.protocol);
  if (node.is_infiniband()) {
    json["fabric"] = node.fabric.view();
    json["host"] = node.host.view();
    json["lid"] = raw(node.network.infiniband.front().lid);
  }
  json["interface"] = node.interface.view();
  json["mac"] = mac_text(node.mac);
  json["interface_mtu_bytes"] = node.network.interface_mtu_bytes;
  json["active_mtu_bytes"] = bytes_of(active_mtu(node));
  json["port_state"] = node.network.is_active ? "ACTIVE" : "DOWN";
  json["addresses"] = Json::array();
  for (const auto& address : node.addresses) json["addresses"].push_back(address.ip_text());
  json["gids"] = Json::array();
  for (const auto& entry : node.gids) {
    json["gids"].push_back({{"gid", gid_text(entry.gid)}, {"address", entry.address.ip_text()}});
  }
  return json;
}

template <typename Counters, std::size_t N>
Json counters_json(const Counters& counters,
                   const std::array<observe::CounterName<Counters>, N>& names) {
  Json json;
  for (const auto& [name, member] : names) json[name] = (counters.*member).value();
  return json;
}

Json queue_pair_json(const arena::QueuePairRecord& record, std::uint32_t qpn) {
  Json json;
  json["qpn"] = qpn;
  json["type"] = arena::name_of(arena::QpType{record.type.load(std::memory_order_relaxed)});
  json["state"] = arena::name_of(arena::QpState{record.state.load(std::memory_order_relaxed)});
  json["dest_qpn"] = record.dest_qpn.load(std::memory_order_relaxed);
  json["dest_gid"] = gid_text(record.dest_gid);
  const auto lid = record.dest_lid.load(std::memory_order_relaxed);
  if (lid != 0) json["dest_lid"] = lid;
  json["counters"] = counters_json(record.counters, observe::kQueuePairCounters);
  return json;
}

/// Nothing where no fault was injected, as most often.
void add_faults(Json& json, const FaultTotals& totals) {
  if (totals == FaultTotals()) return;
  for (std::size_t i = 0; i < totals.counts.size(); ++i) {
    json["faults"][observe::kFaultCounters[i].name] = totals.counts[i];
  }
}

struct DirectTraffic {
  std::uint64_t messages_sent = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t bytes_received = 0;

  void add(const DirectTraffic& more) {
    messages_sent += more.messages_sent;
    bytes_sent += more.bytes_sent;
    messages_received += more.messages_received;
    bytes_received += more.bytes_received;
  }
};

Json direct_json(const DirectTraffic& traffic) {
  return {{"messages_sent", traffic.messages_sent},
          {"bytes_sent", traffic.bytes_sent},
          {"messages_received", traffic.messages_received},
          {"bytes_received", traffic.bytes_received}};
}

const char* name_of(PortSpace space) {
  switch (space) {
    case PortSpace::sdp:
      return "sdp";
    case PortSpace::ipoib:
      return "ipoib";
    case PortSpace::ib:
      return "ib";
    case PortSpace::tcp:
      return "tcp";
    case PortSpace::udp:
      return "udp";
  }
  return "unknown";
}

Json bindings_json(std::span<const PortBinding> bindings) {
  Json json = Json::array();
  for (const PortBinding& binding : bindings) {
    json.push_back({{"space", name_of(binding.port_space)},
                    {"address", binding.address.ip_text()},
                    {"port", binding.address.port()},
                    {"listens", binding.listens}});
    const ServiceRange& services = binding.services;
    if (services.empty()) continue;
    json.back()["service"] = fmt::format("{:#x}", services.id);
    json.back()["service_mask"] = fmt::format("{:#x}", services.mask);
  }
  return json;
}

/// Traffic of the queue pair with this local number: what it has sent, and what peers have sent to
/// it.
DirectTraffic direct_traffic(int arena_fd, const arena::ArenaHeader& header,
                             const arena::QueuePairRecord& record, std::size_t number) {
  using arena::DirectTarget;
  const auto target = std::make_unique<DirectTarget>();
  const std::uint64_t offset = header.targets.value + number * sizeof(DirectTarget);
  if (!read_objects(arena_fd, offset, std::span(target.get(), 1))) return {};
  return {.messages_sent = record.direct_sent.messages.value(),
          .bytes_sent = record.direct_sent.bytes.value(),
          .messages_received = target->received.messages.value(),
          .bytes_received = target->received.bytes.value()};
}

}  // namespace

void append_program_details(Json& program, int arena_fd) {
  using arena::QueuePairRecord;
  const auto header = read_arena_header(arena_fd);
  if (header == nullptr) return;
  program["counters"] = counters_json(header->port_counters, observe::kPortCounters);
  add_faults(program, fault_totals(arena_fd));
  program["queue_pairs"] = Json::array();
  DirectTraffic all;
  const auto add = [&](const QueuePairRecord& record, std::size_t number) {
    const std::uint32_t qpn = record.qpn.load(std::memory_order_relaxed);
    if (qpn == 0) return;
    program["queue_pairs"].push_back(queue_pair_json(record, qpn));
    const auto direct = direct_traffic(arena_fd, *header, record, number);
    program["queue_pairs"].back()["direct"] = direct_json(direct);
    all.add(direct);
  };
  const std::uint64_t table = header->queue_pairs.value;
  if (!for_each_object<QueuePairRecord>(arena_fd, table, arena::kProgramQueuePairsMax, add)) return;
  program["direct"] = direct_json(all);
}

std::string status_text(const Node& node, std::span<const ProgramEntry> programs,
                        const FaultTotals& faults_of_the_gone) {
  Json json = node_json(node);
  FaultTotals faults = faults_of_the_gone;
  for (const ProgramEntry& entry : programs) faults += fault_totals(entry.arena_fd);
  add_faults(json, faults);
  json["programs"] = Json::array();
  for (const ProgramEntry& entry : programs) {
    Json program;
    program["pid"] = entry.pid;
    program["name"] = entry.name;
    program["slot"] = entry.slot;
    program["first_qpn"] = qpn_of(entry.slot, 0).value();
    program["since"] = entry.since;
    program["datagrams_dropped"] = entry.datagrams_dropped;
    if (!entry.bindings.empty()) program["ports"] = bindings_json(entry.bindings);
    append_program_details(program, entry.arena_fd);
    json["programs"].push_back(std::move(program));
  }
  return json.dump(2);
}

}  // namespace verbatim::agent
