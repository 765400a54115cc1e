#include "fabric/topology/read.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "fabric/topology/lines.h"
#include "fabric/topology/scanner.h"

namespace verbatim::fabric {
namespace {

constexpr Rate kDefaultRate{LinkWidth::x4, LinkSpeed::sdr};

struct NodeWord {
  std::string_view word;
  NodeKind kind;
};
constexpr std::array kNodeWords{
    NodeWord{"Switch", NodeKind::switch_node}, NodeWord{"Ca", NodeKind::adapter},
    NodeWord{"Hca", NodeKind::adapter}, NodeWord{"Rt", NodeKind::router}};

struct GuidKey {
  std::string_view key;
  NodeKind kind;
};
constexpr std::array kGuidKeys{
    GuidKey{"switchguid", NodeKind::switch_node}, GuidKey{"caguid", NodeKind::adapter},
    GuidKey{"hcaguid", NodeKind::adapter}, GuidKey{"rtguid", NodeKind::router}};

std::optional<NodeKind> kind_of_line(std::string_view line) {
  for (const auto& [word, kind] : kNodeWords) {
    if (line.size() <= word.size() || !line.starts_with(word)) continue;
    if (line[word.size()] == ' ' || line[word.size()] == '\t') return kind;
  }
  return std::nullopt;
}

/// Lines that ibnetdiscover prints among the others: headings, and what it has to say on its way.
bool is_chatter(std::string_view line) {
  return line.starts_with("Non-Chassis Nodes") || line.starts_with("Chassis ") ||
         line.starts_with("src/") || line.starts_with("ibwarn:");
}

/// "SW 2 1 0x0002c9... 4x SDR - CA 5 1 0x... ( 'S1' - 'H1' )", as `ibnetdiscover -p` prints.
bool is_list_of_ports(std::string_view line) {
  return line.starts_with("SW ") || line.starts_with("CA ") || line.starts_with("RT ");
}

/// A port's line, kept until all nodes are known.
struct End {
  PortPlace place;
  PortLine line;
  unsigned number = 0;
  bool is_used = false;
};

class Reader {
 public:
  Reading read(std::string_view text) {
    if (text.contains('\0')) {
      fault("this is no text, but a binary file");
      return std::move(reading_);
    }
    unsigned number = 0;
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      std::string_view line = text.substr(0, end);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      line_ = ++number;
      const std::size_t last = line.find_last_not_of(" \t\r");
      read_line(line.substr(0, last == std::string_view::npos ? 0 : last + 1));
    }
    line_ = 0;
    join_ends();
    sort_all();
    const std::vector<Fault> faults = faults_of(reading_.topology, lines_);
    for (const Fault& each : faults) add(reading_.faults, each);
    if (reading_.topology.nodes.empty() && reading_.faults.empty()) fault("it lists no node");
    return std::move(reading_);
  }

 private:
  static void add(std::vector<Fault>& list, Fault fault) {
    if (list.size() < kFaultsMax) list.push_back(std::move(fault));
  }
  void fault(std::string text) { add(reading_.faults, {line_, std::move(text)}); }
  void remark(std::string text) { add(reading_.remarks, {line_, std::move(text)}); }

  void read_line(std::string_view line) {
    if (line.empty()) {
      is_in_node_ = false;
      return;
    }
    if (line.starts_with('#')) return;
    if (line.starts_with('[')) return read_port(line);
    if (const auto kind = kind_of_line(line)) return read_node(*kind, line);
    const std::size_t equals = line.find('=');
    const std::string_view key = line.substr(0, equals);
    if (equals != std::string_view::npos && read_key(key, line.substr(equals + 1))) return;
    if (is_list_of_ports(line)) {
      return fault(
          "this is a list of ports (ibnetdiscover -p): take what ibnetdiscover prints without -p");
    }
    if (is_chatter(line)) return remark(fmt::format("left out: {}", line));
    fault(
        fmt::format("neither a node, nor a port, nor a key that is known: {}", line.substr(0, 60)));
  }

  /// Returns false for an unknown key.
  bool read_key(std::string_view key, std::string_view text) {
    Scanner scanner(text);
    const auto value = scanner.any_number();
    const auto guid = std::ranges::find(kGuidKeys, key, &GuidKey::key);
    const bool is_known =
        guid != kGuidKeys.end() || key == "vendid" || key == "devid" || key == "sysimgguid";
    if (!is_known) return false;
    if (!value) {
      fault(fmt::format("{} is no number: {}", key, text));
    } else if (guid != kGuidKeys.end()) {
      next_guid(guid->kind) = *value;
      has_guid_ = true;
    } else if (key == "vendid") {
      next_.vendor_id = static_cast<std::uint32_t>(*value);
    } else if (key == "devid") {
      next_.device_id = static_cast<std::uint32_t>(*value);
    } else {
      next_.system_image_guid = *value;
    }
    return true;
  }

  void read_node(NodeKind kind, std::string_view text) {
    is_in_node_ = false;
    const auto line = parse_node_line(kind, text);
    if (!line) return fault(line.error());
    Node node = std::exchange(next_, Node{});
    node.kind = kind;
    node.ports = line->ports;
    node.name = line->description.empty() ? line->id : line->description;
    node.enhanced_port_0 = line->enhanced_port_0;
    node.guid = take_guid(*line);
    set_identities(node, *line);
    auto& nodes = reading_.topology.nodes;
    if (!by_id_.emplace(line->id, static_cast<std::uint32_t>(nodes.size())).second) {
      return fault(fmt::format("there is a node \"{}\" already", line->id));
    }
    nodes.push_back(std::move(node));
    lines_.nodes.push_back(line_);
    is_in_node_ = true;
  }

  std::uint64_t& next_guid(NodeKind kind) { return next_guids_[static_cast<std::size_t>(kind)]; }

  /// The key's, else the id's, else the next free one, as ibsim counts them.
  std::uint64_t take_guid(const NodeLine& line) {
    std::uint64_t& next = next_guid(line.kind);
    const bool has_guid = std::exchange(has_guid_, false);
    if (!has_guid && line.id.size() == 18 && line.id[0] == letter_of(line.kind) &&
        line.id[1] == '-') {
      Scanner scanner(line.id.substr(2));
      const auto guid = scanner.number(16);
      if (guid && scanner.rest().empty()) return *guid;
    }
    return std::exchange(next, next + (line.kind == NodeKind::switch_node ? 1 : line.ports + 1u));
  }

  static void set_identities(Node& node, const NodeLine& line) {
    if (node.kind == NodeKind::switch_node) {
      node.identities = {{.guid = node.guid, .lid = Lid{line.lid}, .lmc = line.lmc}};
      return;
    }
    node.identities.resize(node.ports);
    for (unsigned port = 1; port <= node.ports; ++port)
      identity_of(node, port).guid = node.guid + port;
  }

  void read_port(std::string_view text) {
    if (!is_in_node_)
      return fault("a port's line belongs behind its node's, without a blank line between");
    const auto line = parse_port_line(text);
    if (!line) return fault(line.error());
    const auto index = static_cast<std::uint32_t>(reading_.topology.nodes.size() - 1);
    Node& node = reading_.topology.nodes.back();
    if (line->port > node.ports) {
      return fault(fmt::format("{} has no port {}: it has {}", node.name, line->port, node.ports));
    }
    if (node.kind != NodeKind::switch_node) {
      PortIdentity& identity = identity_of(node, line->port);
      if (line->guid) identity.guid = *line->guid;
      identity.lid = Lid{line->lid};
      identity.lmc = line->lmc;
    }
    // Tools print "??x??" for what they do not know; who writes "9xHDR" means a rate.
    if (const std::string_view word = line->unknown_rate; !word.empty()) {
      const std::size_t digits = word.find_first_not_of("0123456789");
      const bool is_meant = digits != 0 && digits < word.size() && word[digits] == 'x';
      if (is_meant) return fault(fmt::format("{} is no rate such as 4xHDR", word));
      remark(fmt::format("{} is no rate: taken as 4xSDR", line->unknown_rate));
    }
    ends_.push_back({.place = {index, line->port}, .line = *line, .number = line_});
  }

  /// Makes a link of each two ends that name each other.
  void join_ends() {
    std::unordered_multimap<std::uint64_t, std::size_t> by_place;
    const auto key_of = [](PortPlace place) { return std::uint64_t{place.node} << 8 | place.port; };
    for (std::size_t i = 0; i < ends_.size(); ++i) by_place.emplace(key_of(ends_[i].place), i);
    for (End& end : ends_) {
      if (std::exchange(end.is_used, true)) continue;
      line_ = end.number;
      const auto peer_node = by_id_.find(end.line.peer_id);
      if (peer_node == by_id_.end()) {
        fault(fmt::format("there is no node \"{}\"", end.line.peer_id));
        continue;
      }
      const PortPlace peer{peer_node->second, end.line.peer_port};
      const auto [first, last] = by_place.equal_range(key_of(peer));
      const auto back = std::find_if(first, last, [&](const auto& each) {
        const End& other = ends_[each.second];
        const auto node = by_id_.find(other.line.peer_id);
        return !other.is_used && node != by_id_.end() &&
               PortPlace{node->second, other.line.peer_port} == end.place;
      });
      if (back != last) {
        ends_[back->second].is_used = true;
        join(end, peer, &ends_[back->second]);
      } else {
        if (first == last) {
          remark(fmt::format("\"{}\" does not list the other end of this link", end.line.peer_id));
        }
        join(end, peer, nullptr);  // Where the other end names another one, it has two cables.
      }
    }
    line_ = 0;
  }

  void join(const End& end, PortPlace peer, const End* other) {
    const Rate rate = end.line.rate.value_or(
        other != nullptr ? other->line.rate.value_or(kDefaultRate) : kDefaultRate);
    Link link{.a = end.place,
              .b = peer,
              .width = rate.width,
              .speed = rate.speed,
              .length_m = end.line.length_m};
    if (other != nullptr && other->line.rate && *other->line.rate != rate) {
      const Rate back = *other->line.rate;
      if (effective_rate_bps(back.width, back.speed) < effective_rate_bps(rate.width, rate.speed)) {
        link.width = back.width;
        link.speed = back.speed;
      }
      remark(fmt::format("line {} says another rate of this link: taken as {}", other->number,
                         rate_text(link.width, link.speed)));
    }
    if (other != nullptr && link.length_m == 0) link.length_m = other->line.length_m;
    reading_.topology.links.push_back(link);
    link_lines_.emplace_back(link.a, end.number);
  }

  /// Brings the links into their order, and the lines that they were read from into the same.
  void sort_all() {
    sort_links(reading_.topology);
    std::unordered_map<std::uint64_t, unsigned> by_place;
    const auto key_of = [](PortPlace place) { return std::uint64_t{place.node} << 8 | place.port; };
    for (const auto& [place, number] : link_lines_) by_place.emplace(key_of(place), number);
    for (const Link& link : reading_.topology.links) {
      const auto a = by_place.find(key_of(link.a));
      const auto b = by_place.find(key_of(link.b));
      lines_.links.push_back(a != by_place.end() ? a->second : b != by_place.end() ? b->second : 0);
    }
  }

  Reading reading_;
  Lines lines_;
  unsigned line_ = 0;
  bool is_in_node_ = false;
  Node next_;  // What the keys say of the node that follows.
  bool has_guid_ = false;
  std::array<std::uint64_t, 3> next_guids_{0x100000, 0x200000, 0x300000};  // By NodeKind.
  std::unordered_map<std::string_view, std::uint32_t> by_id_;
  std::vector<End> ends_;
  std::vector<std::pair<PortPlace, unsigned>> link_lines_;
};

}  // namespace

Reading read_topology(std::string_view text) { return Reader().read(text); }

}  // namespace verbatim::fabric
