#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/doctor/checks.h"

/// Checks agents, a program's node, and the path that it would use.
namespace verbatim::cli::doctor {

std::string variable(const Machine& machine, const char* name) {
  const auto found = machine.variables.find(name);
  return found == machine.variables.end() ? std::string() : found->second;
}

Findings check_agents(const Machine& machine) {
  constexpr const char* kSubject = "agents";
  Findings findings;
  std::vector<std::string> names;
  for (const RunningNode& node : machine.nodes) {
    names.push_back(node.name);
    if (!node.silence.empty()) {
      findings.push_back(fault(
          kSubject,
          fmt::format("the agent of node {} does not answer: {}", node.name, node.silence),
          "find it (pgrep -a verbatimd); let it go on if it is stopped (kill -CONT), else kill it: "
          "programs go on, and the next one starts another"));
      continue;
    }
    if (node.version == VERBATIM_VERSION) continue;
    findings.push_back(fault(
        kSubject,
        fmt::format("the agent of node {} (process {}) is of release {}, this is {}", node.name,
                    node.agent_pid, node.version.empty() ? "?" : node.version, VERBATIM_VERSION),
        "end the node's programs ('verbatim status' names them); the agent leaves after the "
        "last, and the next program starts the new one"));
  }
  if (findings.empty()) {
    findings.push_back(ok(kSubject, names.empty()
                                        ? "none runs now; a node's first program starts its own"
                                        : fmt::format("{} run (node {})", names.size(),
                                                      fmt::join(names, ", node "))));
  }
  return findings;
}

Findings check_node(const Machine& machine) {
  constexpr const char* kSubject = "node";
  if (!machine.node) {
    return {fault(kSubject, fmt::format("no program can start here: {}", machine.node.error().text),
                  "mend what the line says, or choose another node and address: "
                  "verbatim run --node a --address 127.0.0.2 -- PROGRAM")};
  }
  const agent::Node& node = *machine.node;
  std::vector<std::string> addresses;
  for (const auto& address : node.addresses) addresses.push_back(address.ip_text());
  const std::string text =
      fmt::format("a program started here belongs to node {}: {} on {}, over {}", node.name,
                  fmt::join(addresses, " "), node.interface, name_of(node.protocol));
  if (!node.network.is_active) {
    return {fault(kSubject, text + ", which is down",
                  fmt::format("bring the interface up (as root: ip link set {} up), or give the "
                              "node another address",
                              node.interface))};
  }
  return {ok(kSubject, text)};
}

Findings check_device(const Machine& machine) {
  constexpr const char* kSubject = "device";
  const Trial& trial = machine.trial;
  if (!trial.is_done) return {};
  if (!trial.has_opened) {
    return {fault(kSubject,
                  fmt::format("a program cannot use it: {} fails{}{}", trial.step,
                              trial.words.empty() ? "" : ": ", trial.words),
                  "mend the faults above; VERBATIM_LOG=debug tells more")};
  }
  const std::string device = machine.node ? std::string(machine.node->device) : "the device";
  return {ok(kSubject, fmt::format("a program opens {} and registers memory", device))};
}

std::string reason_for_wire(const Machine& machine) {
  if (variable(machine, "VERBATIM_PATH") == "wire") return "VERBATIM_PATH=wire";
  if (machine.peer_copy_error != 0) return "the kernel does not copy between processes";
  constexpr std::uint64_t kMemoryFileBytes = std::uint64_t{1} << 62;
  if (machine.file_size && *machine.file_size < kMemoryFileBytes) {
    return "the file size is limited (ulimit -f)";
  }
  return {};
}

Findings check_path(const Machine& machine) {
  constexpr const char* kSubject = "path";
  if (machine.node && machine.node->is_infiniband()) {
    return {ok(kSubject, fmt::format("the switches of fabric {}, to every host of it",
                                     machine.node->fabric))};
  }
  const std::string protocol = machine.node && machine.node->protocol == agent::WireProtocol::iwarp
                                   ? "TCP"
                                   : "UDP port 4791";
  const std::string reason = reason_for_wire(machine);
  if (!reason.empty()) {
    const std::string text =
        fmt::format("the wire ({}) to every peer, because {}", protocol, reason);
    if (reason.starts_with("VERBATIM_PATH")) return {ok(kSubject, text)};
    return {note(kSubject, text, "see above")};
  }
  return {ok(kSubject,
             fmt::format("direct, in shared memory, to programs of user {} on this machine in the "
                         "same network and process namespaces; {} to all others",
                         machine.user,
                         variable(machine, "VERBATIM_PATH") == "direct"
                             ? "none (VERBATIM_PATH=direct)"
                             : fmt::format("the wire ({})", protocol)))};
}

Findings check_machine(const Machine& machine) {
  static constexpr MachineCheck kChecks[] = {
      check_installation,   check_variables,      check_runtime_folder,
      check_kernel,         check_container,      check_clusters,
      check_memory_sharing, check_peer_copy,      check_memory,
      check_address_space,  check_file_size,      check_open_files,
      check_processes,      check_locked_memory,  check_shared_memory_folder,
      check_interfaces,     check_roce_port,      check_tcp_ports,
      check_roce_v1,        check_receive_buffer, check_connection_tracking,
      check_agents,         check_node,           check_device,
      check_path,           check_smart_nic,      check_ipoib,
      check_lnet,           check_services,
  };
  Findings all;
  for (const MachineCheck check : kChecks) {
    for (Finding& finding : check(machine)) all.push_back(std::move(finding));
  }
  return all;
}

}  // namespace verbatim::cli::doctor
