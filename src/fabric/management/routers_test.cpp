// Datagrams of queue pair 1 between two subnets.
#include <array>
#include <cstdint>

#include <gtest/gtest.h>

#include "fabric/management/net_test_util.h"
#include "wire/mad/management_packet.h"
#include "wire/performance/performance_packet.h"
#include "wire/performance/port_counters.h"

namespace verbatim::fabric {
namespace {

constexpr const char* kTwoHosts = R"(
Rt 2 "R1"
[1] "H1"[1]
[2] "H2"[1]

Hca 1 "H1"
[1] "R1"[1]

Hca 1 "H2"
[1] "R1"[2]
)";
constexpr std::uint64_t kFirstPrefix = 0xfec0'0000'0000'0001;
constexpr Lid kHost{4}, kRouter{9};  // In both subnets.

class Routers : public testing::Test {
 protected:
  Routers() {
    for (const std::uint8_t subnet : std::to_array<std::uint8_t>({1, 2})) {
      const PortPlace host = bench.place(subnet == 1 ? "H1" : "H2");
      for (const auto state : {wire::PortState::armed, wire::PortState::active}) {
        set_port(host, {}, 1, subnet, kHost, state);
        set_port(host, {1}, subnet, subnet, kRouter, state);
      }
    }
  }
  void set_port(PortPlace from, const Hops& hops, std::uint8_t port, unsigned subnet, Lid lid,
                wire::PortState state) {
    using wire::SubnetAttribute;
    auto info = *bench.get<wire::PortInfo>(from, hops, SubnetAttribute::port_info, port);
    info.gid_prefix = kFirstPrefix + subnet - 1;
    info.lid = lid;
    info.sm_lid = kHost;
    info.state = state;
    info.physical_state = wire::PhysicalState::no_change;
    const auto answer = bench.set(from, hops, SubnetAttribute::port_info, port, info);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, wire::MadStatus{});
  }
  Gid gid(std::string_view host) const {
    const PortPlace place = bench.place(host);
    Gid gid;
    const auto bytes = std::as_writable_bytes(std::span(gid.bytes));
    store_be(&bytes[0], bench.net.port_info(place).gid_prefix);
    store_be(&bytes[8], bench.net.guids(place)[0]);
    return gid;
  }
  ManagementDatagram to_h2(std::uint8_t hop_limit = 64) const {
    ManagementDatagram made{.path = {.dlid = kRouter,
                                     .slid = kHost,
                                     .grh = GlobalRoute{.source = gid("H1"),
                                                        .destination = gid("H2"),
                                                        .hop_limit = hop_limit}},
                            .source_qp = Qpn(1),
                            .destination_qp = Qpn(1),
                            .qkey = raw(wire::kManagementQKey)};
    encode(wire::MadHeader{.management_class = wire::MadClass::communication_management,
                           .class_version = 2,
                           .method = wire::MadMethod::send},
           std::span(made.mad).first<wire::MadHeader::kSize>());
    return made;
  }
  /// What comes to the host when H1 sends it.
  std::optional<ManagementDatagram> send(const ManagementDatagram& datagram,
                                         std::string_view to = "H2") {
    bench.software.arrivals.clear();
    bench.net.send(bench.place("H1"), datagram, 0);
    for (const auto& arrival : bench.software.arrivals) {
      if (arrival.port == bench.place(to)) return arrival.datagram;
    }
    return std::nullopt;
  }

  NetBench bench{topology_of(kTwoHosts)};
};

TEST_F(Routers, TheNextSubnetHasItsLidsAndOneHopLess) {
  const auto came = send(to_h2());
  ASSERT_TRUE(came);
  EXPECT_EQ(came->path.dlid, kHost);
  EXPECT_EQ(came->path.slid, kRouter);
  EXPECT_EQ(came->path.grh->hop_limit, 63);
  EXPECT_EQ(came->path.grh->source, gid("H1"));
}

TEST_F(Routers, AnswersComeBackByTheRouter) {
  ManagementDatagram request = to_h2();
  wire::PerformancePacket packet{.method = wire::MadMethod::get,
                                 .attribute = wire::PerformanceAttribute::port_counters};
  set_data(packet, wire::PortCounters{.port_select = 1});
  encode(packet, request.mad);
  const auto answer = send(request, "H1");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->path.slid, kRouter);
  EXPECT_EQ(answer->path.grh->source, gid("H2"));
  EXPECT_EQ(wire::decode_mad_header(answer->mad)->method, wire::MadMethod::get_response);
}

TEST_F(Routers, DropWhatTheyCannotForward) {
  EXPECT_FALSE(send(to_h2(1)));
  EXPECT_TRUE(send(to_h2(2)));
  ManagementDatagram other = to_h2();
  other.path.grh->destination.bytes[7] = 9;
  EXPECT_FALSE(send(other));
  other = to_h2();
  other.path.grh->destination.bytes[15] ^= 0x80;
  EXPECT_FALSE(send(other));
  other = to_h2();
  other.path.grh->destination = gid("H1");
  EXPECT_FALSE(send(other, "H1"));
}

/// Its own agents answer datagrams to its LID.
TEST_F(Routers, AreReachedByTheirLid) {
  ManagementDatagram request = to_h2();
  request.path.grh.reset();
  wire::PerformancePacket packet{.method = wire::MadMethod::get,
                                 .attribute = wire::PerformanceAttribute::port_counters};
  set_data(packet, wire::PortCounters{.port_select = 2});
  encode(packet, request.mad);
  const auto answer = send(request, "H1");
  ASSERT_TRUE(answer);
  EXPECT_EQ(wire::decode_mad_header(answer->mad)->status, 0);
}

}  // namespace
}  // namespace verbatim::fabric
