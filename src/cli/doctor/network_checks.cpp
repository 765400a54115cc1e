#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/doctor/checks.h"

/// Checks interfaces, ports, and the kernel's packet handling.
namespace verbatim::cli::doctor {
namespace {

/// Programs exchange addresses over TCP first. These are their default ports, and the options to
/// change them.
struct KnownPort {
  std::uint16_t port;
  std::string_view programs;
  std::string_view option;
};
constexpr auto kKnownPorts = std::to_array<KnownPort>({
    {18515, "perftest and the ping-pong programs", "-p"},
    {19765, "qperf", "-lp"},
    {13337, "ucx_perftest", "-p"},
});

bool is_nodes(const Machine& machine, pid_t pid) {
  if (machine.node && machine.node->agent_pid == pid) return true;
  return std::ranges::any_of(machine.nodes, [&](const RunningNode& node) {
    return node.agent_pid == pid || std::ranges::find(node.programs, pid) != node.programs.end();
  });
}

std::string owner_text(const PortUser& user) {
  if (user.pid != 0) return fmt::format("process {} ({})", user.pid, user.program);
  if (user.uid == 0) return "the kernel (rdma_rxe) or a program of root";
  return fmt::format("a program of user {}, or of another process namespace", user.uid);
}

std::string addresses_of(const agent::Interface& interface) {
  std::vector<std::string> texts;
  for (const auto& address : interface.addresses) texts.push_back(address.ip_text());
  return texts.empty() ? "no address" : fmt::format("{}", fmt::join(texts, " "));
}

bool is_outward(const agent::Interface& interface) {
  return interface.is_up && !interface.is_loopback &&
         std::ranges::any_of(interface.addresses,
                             [](const SocketAddress& address) { return !address.is_link_local(); });
}

}  // namespace

Findings check_interfaces(const Machine& machine) {
  constexpr const char* kSubject = "interfaces";
  Findings findings;
  for (const auto& interface : machine.interfaces) {
    if (interface.is_loopback && !interface.is_up) {
      findings.push_back(fault(
          "loopback",
          fmt::format("interface {} is down: nodes of this machine cannot reach each other",
                      interface.name),
          fmt::format("as root of this network namespace: ip link set {} up", interface.name)));
    }
  }
  std::vector<std::string> outward;
  for (const auto& interface : machine.interfaces) {
    if (is_outward(interface)) {
      outward.push_back(fmt::format("{} ({})", interface.name, addresses_of(interface)));
    }
  }
  if (outward.empty()) {
    findings.push_back(note(kSubject,
                            "no address but the loopback interface's in this network namespace: "
                            "nodes here reach each other, no other machine",
                            "nothing if that is all you need; else give the container or namespace "
                            "an interface (ip addr)"));
  } else {
    findings.push_back(ok(kSubject, fmt::format("{}", fmt::join(outward, ", "))));
  }
  return findings;
}

Findings check_roce_port(const Machine& machine) {
  constexpr const char* kSubject = "UDP port 4791";
  Findings findings;
  const bool is_in_the_way = !machine.node && machine.node.error().code == EADDRINUSE;
  for (const PortUser& user : machine.roce_ports) {
    if (user.pid != 0 && is_nodes(machine, user.pid)) continue;
    const std::string text = fmt::format("{} is taken by {}", user.address, owner_text(user));
    if (is_in_the_way) {
      findings.push_back(fault(kSubject, text,
                               "end that program, or give the node another address: "
                               "--node b --address 127.0.0.3"));
    } else {
      findings.push_back(note(kSubject, text, "give no node this address"));
    }
  }
  if (findings.empty()) findings.push_back(ok(kSubject, "free for nodes, or theirs"));
  return findings;
}

Findings check_tcp_ports(const Machine& machine) {
  Findings findings;
  for (const KnownPort& known : kKnownPorts) {
    for (const PortUser& user : machine.tcp_ports) {
      if (user.address.port() != known.port) continue;
      findings.push_back(note(
          fmt::format("TCP port {}", known.port),
          fmt::format("{} listens, where {} would by default", owner_text(user), known.programs),
          fmt::format("nothing if it is your server; else give both sides "
                      "another port ({})",
                      known.option)));
      break;
    }
  }
  return findings;
}

Findings check_roce_v1(const Machine& machine) {
  constexpr const char* kSubject = "RoCE v1";
  const bool is_wanted = variable(machine, "VERBATIM_ROCE").find("v1") != std::string::npos;
  if (machine.packet_socket_error == 0) return {ok(kSubject, "permitted (CAP_NET_RAW)")};
  const std::string text = fmt::format("needs CAP_NET_RAW for Ethernet frames: {}",
                                       std::strerror(machine.packet_socket_error));
  if (!is_wanted) return {ok(kSubject, text + "; not asked for")};
  const std::string advice =
      machine.user_namespace_error == 0
          ? "use RoCE v2, or a network namespace of your own: unshare -rn, then ip link set lo up"
          : "use RoCE v2, or become root: this kernel gives users no namespaces of their own";
  return {fault(kSubject, text, advice)};
}

Findings check_receive_buffer(const Machine& machine) {
  constexpr const char* kSubject = "receive buffer";
  constexpr std::uint64_t kGood = 8388608;
  const std::string text = fmt::format("sockets hold {} of packets (net.core.rmem_max)",
                                       size_text(machine.receive_buffer_max));
  if (machine.receive_buffer_max == 0) return {};
  if (machine.receive_buffer_max >= kGood) return {ok(kSubject, text)};
  return {note(kSubject, text + ": UC and UD may lose messages over the wire; RC sends them again",
               fmt::format("as root: sysctl net.core.rmem_max={}", kGood))};
}

Findings check_connection_tracking(const Machine& machine) {
  constexpr const char* kSubject = "connection tracking";
  const Quota& table = machine.tracked_connections;
  if (!table.limit || *table.limit == 0) return {};
  const std::string text =
      fmt::format("the firewall tracks {} connections of {}", table.used, *table.limit);
  constexpr const char* kAdvice =
      "as root: sysctl net.netfilter.nf_conntrack_max, or exempt UDP "
      "port 4791 from it (nft: notrack)";
  if (table.used >= *table.limit) {
    return {fault(kSubject, text + ": it drops packets of new ones", kAdvice)};
  }
  constexpr std::uint64_t kTenths = 9;
  if (table.used * 10 >= *table.limit * kTenths) return {note(kSubject, text, kAdvice)};
  return {ok(kSubject, text)};
}

}  // namespace verbatim::cli::doctor
