// SMPs in a second of processor time through the agents of a fabric: the first host asks the last
// one for its NodeInfo by directed route, in one thread, within fat trees of several sizes.
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "fabric/management/management_net.h"
#include "fabric/topology/generate.h"

namespace {

using namespace verbatim;
using namespace verbatim::fabric;

class Software final : public HostSoftware {
 public:
  std::uint64_t answers = 0;
  void on_datagram(PortPlace, const ManagementDatagram&, TimeNs) override { ++answers; }
  void on_port_changed(PortPlace) override {}
};

/// The ports by which a packet leaves each node on a shortest path; breadth first.
std::vector<std::uint8_t> route(const Topology& topology, std::uint32_t from, std::uint32_t to) {
  struct Step {
    std::uint32_t next;
    std::uint8_t port;
  };
  std::vector<std::vector<std::pair<std::uint8_t, std::uint32_t>>> neighbors(topology.nodes.size());
  for (const Link& link : topology.links) {
    neighbors[link.a.node].emplace_back(link.a.port, link.b.node);
    neighbors[link.b.node].emplace_back(link.b.port, link.a.node);
  }
  // Backwards, so that each node knows its next step.
  std::vector<std::optional<Step>> steps(topology.nodes.size());
  std::deque<std::uint32_t> queue{to};
  while (!queue.empty() && !steps[from]) {
    const std::uint32_t node = queue.front();
    queue.pop_front();
    for (const auto& [port, other] : neighbors[node]) {
      if (other == to || steps[other]) continue;
      for (const auto& [back, target] : neighbors[other]) {
        if (target == node) steps[other] = Step{node, back};
      }
      queue.push_back(other);
    }
  }
  std::vector<std::uint8_t> ports;
  for (std::uint32_t node = from; node != to; node = steps[node]->next) {
    ports.push_back(steps[node]->port);
  }
  return ports;
}

std::size_t resident_kib() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  statm >> total >> resident;
  return resident * 4;
}

/// Of the processor's time: other programs take some of the machine's.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

void measure(std::uint32_t hosts) {
  const auto topology = generate(Shape::fat_tree, {.hosts = hosts, .switch_ports = 36});
  if (!topology) return fmt::print("{} hosts: {}\n", hosts, topology.error().text);
  std::vector<std::uint32_t> ends;
  for (std::uint32_t i = 0; i < topology->nodes.size(); ++i) {
    if (topology->nodes[i].kind == NodeKind::adapter) ends.push_back(i);
  }
  Software software;
  const std::size_t before = resident_kib();
  double start = cpu_seconds();
  ManagementNet net(*topology, software, 1);
  const double made = cpu_seconds() - start;

  const auto ports = route(*topology, ends.front(), ends.back());
  wire::Smp smp{.method = wire::MadMethod::get, .attribute = wire::SubnetAttribute::node_info};
  smp.route.emplace();
  smp.route->hop_count = static_cast<std::uint8_t>(ports.size());
  for (std::size_t i = 0; i < ports.size(); ++i) smp.route->initial_path[i + 1] = ports[i];
  ManagementDatagram datagram{.path = {.dlid = wire::kPermissiveLid, .slid = wire::kPermissiveLid}};
  encode(smp, datagram.mad);
  constexpr std::uint64_t kRequests = 300'000;
  start = cpu_seconds();
  for (std::uint64_t i = 0; i < kRequests; ++i) net.send({ends.front(), 1}, datagram, 0);
  const double took = cpu_seconds() - start;
  fmt::print("{:6} hosts, {:6} nodes: made in {:5.0f} ms, {:7} KiB; {} hops: {:9.0f} requests/s\n",
             hosts, topology->nodes.size(), made * 1e3, resident_kib() - before, ports.size(),
             static_cast<double>(software.answers) / took);
}

}  // namespace

int main() {
  for (const std::uint32_t hosts : {16u, 500u, 5'000u, 10'000u}) measure(hosts);
  return EXIT_SUCCESS;
}
