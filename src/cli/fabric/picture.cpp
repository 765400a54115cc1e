#include "cli/fabric/picture.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/text/quantity.h"
#include "fabric/topology/topology.h"

namespace verbatim::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace drawing = fabric::drawing;
using drawing::Health;

std::string text_of(const Json& value) { return value.get<std::string>(); }

drawing::Kind kind_of(const std::string& word) {
  if (word == "switch") return drawing::Kind::switch_node;
  return word == "router" ? drawing::Kind::router : drawing::Kind::host;
}

Health health_of(const Json& link) {
  const std::string a = text_of(link.at("a").at("state"));
  const std::string b = text_of(link.at("b").at("state"));
  if (a == "down" || b == "down") return Health::down;
  if (a != "active" || b != "active") return Health::waiting;
  if (link.at("bit_error_rate").get<double>() != 0) return Health::noisy;
  return link.at("rate") == link.at("full_rate") ? Health::active : Health::degraded;
}

/// Returns which share of its rate the busier direction of the link has carried.
double load_of(const Json& before, const Json& after, TimeNs interval) {
  const auto rate = fabric::parse_rate(text_of(after.at("rate")));
  if (!rate || interval == 0) return 0;
  const auto bits = [&](const char* end) {
    const auto bytes = [end](const Json& link) {
      return link.at(end).at("transmit_bytes").get<double>();
    };
    return std::max(bytes(after) - bytes(before), 0.0) * 8;
  };
  const double seconds = static_cast<double>(interval) / kSecond;
  return std::max(bits("a"), bits("b")) / seconds /
         static_cast<double>(effective_rate_bps(rate->width, rate->speed));
}

std::string words_of(const Json& link, double load) {
  const auto port = [&link](const char* end) {
    return fmt::format("{}[{}]", text_of(link.at(end).at("node")),
                       link.at(end).at("port").get<unsigned>());
  };
  const std::string a = text_of(link.at("a").at("state"));
  const std::string b = text_of(link.at("b").at("state"));
  return fmt::format("{} - {}: {}, {}, load {:.1f} %", port("a"), port("b"),
                     text_of(link.at("rate")), a == b ? a : a + " and " + b, load * 100);
}

}  // namespace

drawing::Drawing picture_of(const std::string& name, const Json& before, const Json& after,
                            TimeNs interval) {
  drawing::Drawing picture;
  std::unordered_map<std::string, std::uint32_t> places;  // By GUID.
  std::uint64_t hosts = 0, switches = 0;
  for (const Json& node : after.at("nodes")) {
    const auto kind = kind_of(text_of(node.at("kind")));
    hosts += kind == drawing::Kind::host ? 1 : 0;
    switches += kind == drawing::Kind::switch_node ? 1 : 0;
    places[text_of(node.at("guid"))] = static_cast<std::uint32_t>(picture.nodes.size());
    const unsigned lid = node.at("ports").at(0).at("lid").get<unsigned>();
    picture.nodes.push_back({.kind = kind,
                             .name = text_of(node.at("name")),
                             .detail = fmt::format("{}, GUID {}, LID {}", text_of(node.at("name")),
                                                   text_of(node.at("guid")), lid)});
  }
  picture.title = fmt::format("Fabric '{}': {}, {}", name, counted(hosts, "host"),
                              switches == 1 ? "1 switch" : fmt::format("{} switches", switches));
  const Json& links = after.at("links");
  for (std::size_t i = 0; i < links.size(); ++i) {
    const double load = load_of(before.at("links").at(i), links[i], interval);
    picture.links.push_back({.a = places.at(text_of(links[i].at("a").at("guid"))),
                             .b = places.at(text_of(links[i].at("b").at("guid"))),
                             .health = health_of(links[i]),
                             .load = load,
                             .detail = words_of(links[i], load)});
  }
  return picture;
}

}  // namespace verbatim::cli
