#include "cli/text/status_text.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/text/table.h"

namespace verbatim::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return "-";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

const Json& part_of(const Json& object, const char* name) {
  static const Json kNothing = Json::array();
  const auto found = object.find(name);
  return found == object.end() ? kNothing : *found;
}

std::string heading(const Json& node) {
  std::vector<std::string> addresses;
  for (const auto& address : part_of(node, "addresses")) {
    addresses.push_back(address.get<std::string>());
  }
  const std::string place =
      node.contains("fabric")
          ? fmt::format("host {} of fabric {}", text_of(node, "host"), text_of(node, "fabric"))
          : text_of(node, "interface");
  return fmt::format("node {}: {} on {}, agent is process {} (verbatimd {})\n",
                     text_of(node, "node"), fmt::join(addresses, " "), place,
                     text_of(node, "agent_pid"), text_of(node, "version"));
}

std::string programs_text(const Json& programs) {
  Table table({"process", "program", "queue pairs", "packets sent", "received", "bytes sent",
               "received", "direct messages sent", "received"});
  for (const auto& program : programs) {
    const auto& counters = part_of(program, "counters");
    const auto& direct = part_of(program, "direct");
    table.add({text_of(program, "pid"), text_of(program, "name"),
               std::to_string(part_of(program, "queue_pairs").size()),
               text_of(counters, "packets_sent"), text_of(counters, "packets_received"),
               text_of(counters, "bytes_sent"), text_of(counters, "bytes_received"),
               text_of(direct, "messages_sent"), text_of(direct, "messages_received")});
  }
  return table.empty() ? "  no programs\n" : table.text(2);
}

std::string queue_pairs_text(const Json& programs) {
  Table table({"QPN", "process", "type", "state", "peer QPN", "peer GID", "packets sent",
               "received", "resent"});
  for (const auto& program : programs) {
    for (const auto& queue_pair : part_of(program, "queue_pairs")) {
      // A datagram queue pair, or an unconnected one, has no peer; over iWARP its QPN is unknown.
      const std::string qpn = text_of(queue_pair, "dest_qpn"),
                        gid = text_of(queue_pair, "dest_gid");
      const bool has_lid = gid == "::" && queue_pair.contains("dest_lid");
      const auto& counters = part_of(queue_pair, "counters");
      table.add({text_of(queue_pair, "qpn"), text_of(program, "pid"), text_of(queue_pair, "type"),
                 text_of(queue_pair, "state"), qpn != "0" ? qpn : "-",
                 has_lid       ? "LID " + text_of(queue_pair, "dest_lid")
                 : gid != "::" ? gid
                               : "-",
                 text_of(counters, "packets_sent"), text_of(counters, "packets_received"),
                 text_of(counters, "retransmissions")});
    }
  }
  return table.empty() ? "" : "\n" + table.text(2);
}

/// Lists what fault injection has done to packets, if anything: a row for each program, and the
/// sums, which include programs that have ended.
std::string faults_text(const Json& node) {
  const Json& sums = part_of(node, "faults");
  if (sums.empty()) return "";
  std::vector<std::string> headings{"process", "program"};
  for (const auto& [name, count] : sums.items()) headings.push_back(name);
  headings[2] = "packets " + headings[2];
  Table table(std::move(headings));
  const auto add = [&](std::string process, std::string program, const Json& faults) {
    std::vector<std::string> row{std::move(process), std::move(program)};
    for (const auto& [name, sum] : sums.items()) row.push_back(text_of(faults, name.c_str()));
    table.add(std::move(row));
  };
  for (const auto& program : part_of(node, "programs")) {
    const Json& faults = part_of(program, "faults");
    if (!faults.empty()) add(text_of(program, "pid"), text_of(program, "name"), faults);
  }
  add("all", "", sums);
  return "\n" + table.text(2);
}

/// Lists the counters that are not in the tables above and not zero: mostly signs of trouble.
std::string other_counters_text(const Json& programs) {
  Table table({"process", "QPN", "counter", "value"});
  const auto add = [&](const Json& program, const std::string& qpn, const Json& counters) {
    for (const auto& [name, value] : counters.items()) {
      const bool is_traffic = name.starts_with("packets_") || name.starts_with("bytes_");
      if (!is_traffic && value != 0) table.add({text_of(program, "pid"), qpn, name, value.dump()});
    }
  };
  for (const auto& program : programs) {
    add(program, "port", part_of(program, "counters"));
    for (const auto& queue_pair : part_of(program, "queue_pairs")) {
      add(program, text_of(queue_pair, "qpn"), part_of(queue_pair, "counters"));
    }
  }
  return table.empty() ? "" : "\n" + table.text(2);
}

/// A list as its length, an object as its members: "pings 3, errors 0".
std::string short_text(const Json& value) {
  if (value.is_array()) return std::to_string(value.size());
  if (!value.is_object()) return value.is_string() ? value.get<std::string>() : value.dump();
  std::string text;
  for (const auto& [name, member] : value.items())
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, short_text(member));
  return text;
}

/// Lists the members that are the service's own.
std::string service_text(const Json& service) {
  std::string text = fmt::format("service {} '{}': process {}, for {} s\n",
                                 text_of(service, "service"), text_of(service, "name"),
                                 text_of(service, "process"), text_of(service, "seconds"));
  std::size_t width = 0;
  for (const auto& [name, value] : service.items()) width = std::max(width, name.size());
  for (const auto& [name, value] : service.items()) {
    if (name == "service" || name == "name" || name == "process" || name == "seconds") continue;
    const std::string shown = short_text(value);
    if (!shown.empty()) text += fmt::format("  {:<{}}  {}\n", name, width, shown);
  }
  return text;
}

}  // namespace

std::string status_text(const Json& one) {
  const bool is_service = one.contains("service");
  if (one.contains("error")) {
    const std::string what =
        is_service ? fmt::format("service {} '{}'", text_of(one, "service"), text_of(one, "name"))
                   : "node " + text_of(one, "node");
    return fmt::format("{}: {}\n", what, text_of(one, "error"));
  }
  if (is_service) return service_text(one);
  const auto& programs = part_of(one, "programs");
  return heading(one) + programs_text(programs) + queue_pairs_text(programs) + faults_text(one) +
         other_counters_text(programs);
}

}  // namespace verbatim::cli
