// Every request that Debian's opensm 3.3.23 made of this fabric in its first sweep (`opensm -o` at
// H1 on Debian's ibsim 0.10), in its order: each is answered without error, echoes what it answers,
// and in the end every link is active.
#include <charconv>
#include <sstream>

#include <gtest/gtest.h>

#include "fabric/management/net_test_util.h"

namespace verbatim::fabric {
namespace {

using wire::MadMethod;
using wire::PortInfo;
using wire::PortState;
using wire::SubnetAttribute;

/// Get or Set, attribute, first and last modifier (hexadecimal), initial path from entry 0 on.
constexpr const char* kRequests = R"(
G NI 0 0; G ND 0 0; G PI 1 0; G PK 0-1 0; G NI 0 0,1; G ND 0 0,1; G SI 0 0,1;
G PI 0-24 0,1; G PK 0 0,1; G PK 10000-10001 0,1; G NI 0 0,1,2; G PK 20000-20001 0,1;
G NI 0 0,1,3; G PK 30000-30001 0,1; G NI 0 0,1,4; G PK 40000-40001 0,1; G ND 0 0,1,2;
G PI 1 0,1,2; G ND 0 0,1,3; G SI 0 0,1,3; G ND 0 0,1,4; G SI 0 0,1,4; G PK 0-1 0,1,2;
G PI 0 0,1,3; G PI 0 0,1,4; G PI 1-24 0,1,3; G PK 0 0,1,3; G PI 1-24 0,1,4;
G PK 0 0,1,4; G NI 0 0,1,3,1; G PK 10000-10001 0,1,3; G PK 30000-30001 0,1,3;
G NI 0 0,1,3,4; G PK 40000-40001 0,1,3; G NI 0 0,1,4,1; G PK 10000-10001 0,1,4;
G PK 30000-30001 0,1,4; G NI 0 0,1,4,4; G PK 40000-40001 0,1,4; G ND 0 0,1,3,1;
G PI 1 0,1,3,1; G ND 0 0,1,4,1; G PI 1 0,1,4,1; G PK 0-1 0,1,3,1; G PK 0-1 0,1,4,1;
S SI 0 0,1; S SI 0 0,1,3; S SI 0 0,1,4; S PI 1-2 0,1; S PI 1 0,1,3; S PI 1 0,1,4;
S PI 1 0; S PI 0 0,1; S PI 0 0,1,3; S PI 0 0,1,4; S PI 1 0,1,2; S PI 1 0,1,3,1;
S PI 1 0,1,4,1; S SI 0 0,1; S SI 0 0,1,3; S SI 0 0,1,4; S LFT 0 0,1; S LFT 0 0,1,3;
S LFT 0 0,1,4; S PI 80000001 0; S PI 80000001-80000004 0,1; S PI 80000001 0,1,3;
S PI 80000003-80000004 0,1,3; S PI 80000001 0,1,4; S PI 80000003-80000004 0,1,4;
S PI 80000001 0,1,2; S PI 80000001 0,1,3,1; S PI 80000001 0,1,4,1; S PI 1 0;
S PI 1-4 0,1; S PI 1 0,1,3; S PI 3-4 0,1,3; S PI 1 0,1,4; S PI 3-4 0,1,4; S PI 1 0,1,2;
S PI 1 0,1,3,1; S PI 1 0,1,4,1; S PI 1 0; S PI 1-4 0,1; S PI 1 0,1,3; S PI 3-4 0,1,3;
S PI 1 0,1,4; S PI 3-4 0,1,4; S PI 1 0,1,2; S PI 1 0,1,3,1; S PI 1 0,1,4,1;)";

struct Request {
  MadMethod method;
  SubnetAttribute attribute;
  std::uint32_t first;
  std::uint32_t last;
  Hops route;
};

SubnetAttribute attribute_of(const std::string& name) {
  static const std::map<std::string, SubnetAttribute> names{
      {"NI", SubnetAttribute::node_info},   {"ND", SubnetAttribute::node_description},
      {"PI", SubnetAttribute::port_info},   {"PK", SubnetAttribute::p_key_table},
      {"SI", SubnetAttribute::switch_info}, {"LFT", SubnetAttribute::linear_forwarding_table}};
  return names.at(name);
}

std::vector<Request> requests() {
  std::vector<Request> all;
  std::istringstream text(kRequests);
  std::string method, attribute, range, path;
  while (text >> method >> attribute >> range >> std::ws && std::getline(text, path, ';')) {
    Request request{.method = method == "G" ? MadMethod::get : MadMethod::set,
                    .attribute = attribute_of(attribute)};
    const auto dash = range.find('-');
    request.first = static_cast<std::uint32_t>(std::stoul(range, nullptr, 16));
    request.last =
        dash == std::string::npos
            ? request.first
            : static_cast<std::uint32_t>(std::stoul(range.substr(dash + 1), nullptr, 16));
    std::istringstream hops(path);
    for (unsigned hop = 0; hops >> hop; hops.ignore()) {
      request.route.push_back(static_cast<std::uint8_t>(hop));
    }
    request.route.erase(request.route.begin());
    all.push_back(request);
  }
  return all;
}

/// What opensm writes in each of its rounds over the ports: the MTU, LIDs, values of the link (by
/// modifiers with bit 31), then the two states.
class Sweep {
 public:
  wire::Smp smp(NetBench& bench, const Request& request, std::uint32_t modifier) {
    wire::Smp smp = NetBench::request(request.method, request.attribute, modifier);
    if (request.method == MadMethod::get) return smp;
    const PortPlace h1 = bench.place("H1");
    if (request.attribute == SubnetAttribute::port_info) {
      wire::set_data(
          smp, port_info(*bench.get<PortInfo>(h1, request.route, request.attribute, modifier)));
    } else if (request.attribute == SubnetAttribute::switch_info) {
      auto info = *bench.get<wire::SwitchInfo>(h1, request.route, request.attribute);
      info.linear_forwarding_top = 7;
      wire::set_data(smp, info);
    }
    return smp;
  }

 private:
  PortInfo port_info(PortInfo info) {
    const unsigned round = port_sets_ < 4 ? 0 : port_sets_ < 11 ? 1 : 2 + (port_sets_ - 11) / 14;
    ++port_sets_;
    info.physical_state = wire::PhysicalState::no_change;
    info.state = round == 3   ? PortState::armed
                 : round == 4 ? PortState::active
                              : PortState::no_change;
    info.neighbor_mtu = Mtu::k2048;
    if (round == 1) {
      info.lid = static_cast<Lid>(port_sets_ - 4);
      info.sm_lid = Lid{1};
    }
    return info;
  }
  unsigned port_sets_ = 0;
};

TEST(OpensmReplay, EveryRequestOfTheFirstSweepIsAnswered) {
  NetBench bench(topology_of(kTriangle));
  Sweep sweep;
  unsigned answers = 0;
  for (const Request& request : requests()) {
    for (std::uint32_t modifier = request.first; modifier <= request.last; ++modifier) {
      const wire::Smp smp = sweep.smp(bench, request, modifier);
      const auto answer = bench.ask(bench.place("H1"), request.route, smp);
      ASSERT_TRUE(answer) << answers;
      EXPECT_EQ(answer->status, wire::MadStatus::ok) << answers;
      EXPECT_EQ(answer->method, MadMethod::get_response);
      EXPECT_EQ(answer->attribute, request.attribute);
      EXPECT_EQ(answer->modifier, modifier);
      EXPECT_TRUE(answer->route->is_returning);
      ++answers;
    }
  }
  EXPECT_EQ(answers, 227u);
  for (const Link& link : bench.topology.links) {
    for (const PortPlace end : {link.a, link.b}) {
      EXPECT_EQ(bench.net.port_info(end).state, PortState::active);
      EXPECT_EQ(bench.net.port_info(end).neighbor_mtu, Mtu::k2048);
    }
  }
}

}  // namespace
}  // namespace verbatim::fabric
