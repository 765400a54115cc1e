// Any datagrams from any host of a fabric of seven nodes, while cables come and go and time passes:
// what arrives is bounded, and no port gets an impossible LID, state or MTU.
#include <array>

#include "base/assert.h"
#include "fabric/management/net_test_util.h"
#include "fuzz/input.h"
#include "wire/mad/management_packet.h"

namespace {

using namespace verbatim;
using namespace verbatim::fabric;

class CountingSoftware final : public HostSoftware {
 public:
  unsigned arrivals = 0;
  void on_datagram(PortPlace port, const ManagementDatagram& datagram, TimeNs) override {
    VERBATIM_ASSERT(port.port != 0);
    VERBATIM_ASSERT(wire::decode_mad_header(datagram.mad).has_value());
    ++arrivals;
  }
  void on_port_changed(PortPlace port) override { VERBATIM_ASSERT(port.port != 0); }
};

ManagementDatagram datagram(Input& input) {
  const bool is_smp = input.byte() % 4 != 0;
  ManagementDatagram made{
      .path = {.dlid = static_cast<Lid>(input.byte() % 8 == 7 ? 0xffff : input.byte() % 10),
               .slid = static_cast<Lid>(input.byte() % 10)},
      .source_qp = Qpn(is_smp ? 0 : 1),
      .destination_qp = Qpn(is_smp ? 0 : 1),
      .qkey = raw(wire::kManagementQKey)};
  if (!is_smp && input.byte() % 8 == 0) made.pkey = static_cast<std::uint16_t>(input.two());
  for (std::byte& byte : made.mad) byte = static_cast<std::byte>(input.byte());
  // Most bytes are no datagram of a class that an agent serves.
  made.mad[0] = std::byte{1};
  if (input.byte() % 16 != 0) {
    constexpr std::array<std::uint8_t, 3> kClasses{0x81, 0x01, 0x04};
    made.mad[1] = std::byte{is_smp ? kClasses[input.byte() % 2] : kClasses[2]};
    made.mad[2] = std::byte{1};
    made.mad[3] = std::byte{static_cast<std::uint8_t>(1 + input.byte() % 7)};
  }
  return made;
}

void check_ports(const ManagementNet& net) {
  const Topology& topology = net.topology();
  for (std::uint32_t node = 0; node < topology.nodes.size(); ++node) {
    for (std::uint8_t port = 1; port <= topology.nodes[node].ports; ++port) {
      const wire::PortInfo& info = net.port_info({node, port});
      VERBATIM_ASSERT(raw(info.lid) < 0xc000);
      VERBATIM_ASSERT(info.state >= wire::PortState::down && info.state <= wire::PortState::active);
      VERBATIM_ASSERT(raw(info.neighbor_mtu) != 0 && info.neighbor_mtu <= info.mtu_cap);
      VERBATIM_ASSERT(net.pkeys({node, port}).size() <= 64);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Topology topology = topology_of(kTriangle);
  Input input(data, size);
  CountingSoftware software;
  ManagementNet net(topology, software, input.byte());
  TimeNs now = 0;
  while (!input.empty()) {
    const std::uint32_t step = input.byte();
    if (step < 8) {
      net.set_link(step % 7, input.byte() % 2 != 0, now);
    } else if (step < 24) {
      now += TimeNs{input.two()} << 20;
      net.on_time(now);
      VERBATIM_ASSERT(net.deadline() > now);
    } else {
      const unsigned before = software.arrivals;
      net.send({3 + step % 4, 1}, datagram(input), now);
      // The datagram or its answer, and the traps of all nodes.
      VERBATIM_ASSERT(software.arrivals - before <= 2 + 7 * 16);
    }
  }
  check_ports(net);
  return 0;
}
