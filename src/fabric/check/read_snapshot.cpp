#include "fabric/check/read_snapshot.h"

#include <cerrno>

#include <nlohmann/json.hpp>

namespace verbatim::fabric {
namespace {

using Json = nlohmann::json;

/// Numbers of `digits` hexadecimal digits each; other characters are zeros.
std::vector<std::uint8_t> numbers_of(const std::string& text, std::size_t digits) {
  std::vector<std::uint8_t> numbers(text.size() / digits);
  for (std::size_t i = 0; i < numbers.size() * digits; ++i) {
    const auto digit = std::string_view("0123456789abcdef").find(text[i]);
    const unsigned value = digit == std::string_view::npos ? 0 : static_cast<unsigned>(digit);
    numbers[i / digits] = static_cast<std::uint8_t>(numbers[i / digits] * 16U + value);
  }
  return numbers;
}

/// Other words mean a host.
NodeKind kind_of(std::string_view word) {
  for (const NodeKind kind : {NodeKind::switch_node, NodeKind::router}) {
    if (word == word_of(kind)) return kind;
  }
  return NodeKind::adapter;
}

NodeSnapshot node_of(const Json& json) {
  NodeSnapshot node;
  node.name = json.at("name").get<std::string>();
  node.guid = json.at("guid").get<std::uint64_t>();
  node.kind = kind_of(json.at("kind").get<std::string>());
  for (const Json& port : json.at("ports")) {
    node.ports.push_back({.guid = port.at("guid").get<std::uint64_t>(),
                          .lid = port.at("lid").get<std::uint16_t>(),
                          .lmc = static_cast<std::uint8_t>(port.at("lmc").get<unsigned>() & 7U),
                          .data_lanes = port.at("data_lanes").get<std::uint8_t>(),
                          .p_keys = port.at("p_keys").get<std::vector<std::uint16_t>>()});
  }
  node.forwarding = numbers_of(json.at("forwarding").get<std::string>(), 2);
  node.lanes = numbers_of(json.at("lanes").get<std::string>(), 1);
  return node;
}

PortPlace place_of(const Json& json) {
  return {json.at(0).get<std::uint32_t>(), json.at(1).get<std::uint8_t>()};
}

bool has(const Snapshot& snapshot, PortPlace place) {
  return place.node < snapshot.nodes.size() && place.port < snapshot.nodes[place.node].ports.size();
}

}  // namespace

Result<Snapshot> read_snapshot(std::string_view text) try {
  const Json json = Json::parse(text);
  Snapshot snapshot;
  for (const Json& node : json.at("nodes")) {
    snapshot.nodes.push_back(node_of(node));
    if (snapshot.nodes.back().ports.empty()) return refuse(EPROTO, "a node without ports");
  }
  snapshot.data_faults = json.at("data_faults").get<std::vector<std::string>>();
  for (const Json& cable : json.at("cables")) {
    snapshot.cables.push_back(
        {place_of(cable.at("a")), place_of(cable.at("b")), cable.at("is_active").get<bool>()});
    const CableSnapshot& last = snapshot.cables.back();
    if (!has(snapshot, last.a) || !has(snapshot, last.b)) {
      return refuse(EPROTO, "a cable ends at a port that there is not");
    }
  }
  return snapshot;
} catch (const Json::exception& wrong) {
  return refuse(EPROTO, wrong.what());
}

}  // namespace verbatim::fabric
