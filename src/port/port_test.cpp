#include "port/port.h"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <vector>

#include <gtest/gtest.h>

#include "wire/ib/packet.h"
#include "wire/net/icrc.h"
#include "wire/net/ip.h"

namespace verbatim::port {
namespace {

using wire::Opcode;
using wire::Position;
using wire::Service;
using wire::Verb;

constexpr Opcode kWrite = wire::opcode_of(Service::rc, Verb::write, Position::only);
const SocketAddress kHere = SocketAddress::parse("10.0.0.1", kRocePort).value();
const SocketAddress kThere = SocketAddress::parse("10.0.0.2", kRocePort).value();

/// What came, by PSN.
struct Arrived final : Receiver {
  std::vector<std::uint32_t> psns;
  std::vector<std::size_t> calls;  // How many packets each had.
  Path from;
  Gid group;
  void on_packets(std::span<const wire::Packet> packets, const Path& source, const Path&,
                  const Gid& to, TimeNs) override {
    calls.push_back(packets.size());
    for (const wire::Packet& packet : packets) psns.push_back(packet.headers.bth.psn.value());
    from = source;
    group = to;
  }
};

/// Gives what a test puts into it.
class FakeLink final : public link::Link {
 public:
  explicit FakeLink(link::FirstHeader first = link::FirstHeader::bth) : first_(first) {}
  link::Properties properties() const override { return {.first_header = first_}; }
  Result<link::NextHop*> next_hop(const Path&, Qpn, std::optional<TimeNs>) override {
    return &hop_;
  }
  bool reserve(std::uint8_t, const link::Reservation&) override { return true; }
  void release(std::uint8_t, const link::Reservation&) override {}
  int send(const link::Packets&) noexcept override { return 0; }
  std::size_t receive(link::Sink& sink, TimeNs now) override {
    const std::size_t count = waiting.size();
    for (auto& bytes : waiting) {
      const Path from = roce_path(kThere), to = roce_path(kHere);
      sink.on_packets(
          {.from = &from, .to = &to, .group = {}, .packet_bytes = packet_bytes, .bytes = bytes},
          now);
    }
    waiting.clear();
    return count;
  }
  Result<void> join(const MulticastGroup& group) override {
    if (refuses) return refuse(EPERM, "not here");
    groups.push_back(group.gid);
    return {};
  }
  void leave(const MulticastGroup& group) override { std::erase(groups, group.gid); }
  const std::atomic<std::uint32_t>* has_packets() const override { return nullptr; }
  std::span<const int> descriptors() const override { return {}; }

  std::deque<std::vector<std::byte>> waiting;
  std::size_t packet_bytes = 0;
  std::vector<Gid> groups;
  bool refuses = false;

 private:
  class Hop final : public link::NextHop {
   public:
    Hop() { local_ = kHere; }
  } hop_;
  const link::FirstHeader first_;
};

/// Appends the ICRC of the `index`-th datagram of a call from `kThere` to `kHere`.
std::vector<std::byte> sealed(std::vector<std::byte> bytes, std::uint16_t index) {
  const std::uint32_t icrc = wire::IcrcSeed(wire::flow_of(kThere, kHere)).compute(bytes, index);
  bytes.resize(bytes.size() + wire::kIcrcBytes);
  wire::store_icrc(icrc, std::span(bytes).last<wire::kIcrcBytes>());
  return bytes;
}

std::vector<std::byte> packet_of(Opcode opcode, std::uint32_t psn, std::uint16_t index) {
  wire::Headers headers{.bth = {.opcode = opcode, .dest_qp = Qpn(5), .psn = Psn(psn)}};
  std::vector<std::byte> bytes(wire::kHeadersMaxBytes);
  bytes.resize(wire::encode_headers(headers, bytes));
  return sealed(std::move(bytes), index);
}

struct PortTest : testing::Test {
  PortTest() {
    auto made = std::make_unique<FakeLink>();
    link = made.get();
    port.add_gid({gid_of(kHere), kHere}, std::move(made));
  }
  Arrived arrived;
  observe::PortCounters counters;
  Port port{1, arrived, counters, 1};
  FakeLink* link = nullptr;
};

TEST_F(PortTest, ResponsesOfADatagramComeBeforeItsRequests) {
  const auto request = packet_of(kWrite, 1, 0);
  auto ack = packet_of(wire::opcode_of(Service::rc, Verb::acknowledge, Position::only), 2, 1);
  std::vector<std::byte> both = request;
  both.insert(both.end(), ack.begin(), ack.end());
  link->packet_bytes = request.size();
  link->waiting.push_back(both);
  EXPECT_EQ(port.receive(0), 1u);
  EXPECT_EQ(arrived.psns, (std::vector<std::uint32_t>{2, 1}));
  EXPECT_EQ(arrived.calls, (std::vector<std::size_t>{2}));
  EXPECT_TRUE(same_source(arrived.from, roce_path(kThere)));
  EXPECT_EQ(counters.packets_received.value(), 2u);
}

TEST_F(PortTest, WhatIsDamagedOrShortIsCounted) {
  auto damaged = packet_of(kWrite, 1, 0);
  damaged[9] ^= std::byte{0x55};
  damaged[20] ^= std::byte{0x55};
  const std::vector<std::byte> stub(wire::Bth::kSize);
  for (const auto& bytes : {damaged, stub}) {
    link->packet_bytes = bytes.size();
    link->waiting.push_back(bytes);
    port.receive(0);
  }
  EXPECT_TRUE(arrived.psns.empty());
  EXPECT_EQ(counters.icrc_errors.value(), 1u);
  EXPECT_EQ(counters.malformed.value(), 1u);
}

TEST_F(PortTest, AMalformedRequestOfAReliableServiceReachesItsResponder) {
  const wire::Opcode reserved{0x15};
  const wire::Opcode of_ud{0x75};
  for (const wire::Opcode opcode : {reserved, of_ud}) {
    std::vector<std::byte> bytes(wire::Bth::kSize);
    wire::encode({.opcode = opcode, .dest_qp = Qpn(5), .psn = Psn(9)},
                 std::span(bytes).first<wire::Bth::kSize>());
    bytes = sealed(std::move(bytes), 0);
    link->packet_bytes = bytes.size();
    link->waiting.push_back(bytes);
    port.receive(0);
  }
  EXPECT_EQ(arrived.psns, (std::vector<std::uint32_t>{9}));
  EXPECT_EQ(counters.malformed.value(), 2u);
}

TEST_F(PortTest, AFrameWithoutAGrhIsMalformed) {
  auto frames = std::make_unique<FakeLink>(link::FirstHeader::grh);
  frames->waiting.push_back(packet_of(kWrite, 1, 0));
  frames->packet_bytes = frames->waiting.front().size();
  port.add_gid({gid_of(kHere), kHere.with_port(0)}, std::move(frames));
  EXPECT_EQ(port.receive(0), 1u);
  EXPECT_TRUE(arrived.psns.empty());
  EXPECT_EQ(counters.malformed.value(), 1u);
}

TEST_F(PortTest, PathsHaveTheFieldsOfTheAddressVector) {
  port.add_gid({gid_of(kHere), kHere.with_port(0)}, std::make_unique<FakeLink>());
  struct Row {
    std::uint8_t gid_index, hop_limit, expected;
  };
  // Of RoCE v2 a hop limit of 0 or 1 is the default; v1 has no routers.
  for (const Row& row : {Row{0, 0, 64}, {0, 1, 64}, {0, 2, 2}, {0, 255, 255}, {1, 1, 1}}) {
    const AddressVector vector{.dest_gid = gid_of(kThere),
                               .source_gid_index = row.gid_index,
                               .hop_limit = row.hop_limit,
                               .traffic_class = 0x68,
                               .flow_label = 0xf12345};
    const auto path = port.path_to(vector).value();
    const GlobalRoute grh =
        row.gid_index == 0 ? std::get<RoceV2Path>(path).grh : std::get<RoceV1Path>(path).grh;
    EXPECT_EQ(grh.traffic_class, 0x68);
    EXPECT_EQ(grh.flow_label, 0x12345u) << "20 bits";
    EXPECT_EQ(grh.hop_limit, row.expected) << int{row.gid_index} << " " << int{row.hop_limit};
    const auto route = port.resolve(vector, Qpn(5), {}).value();
    EXPECT_EQ(route.headers.traffic_class, 0x68);
    EXPECT_EQ(route.headers.hop_limit, row.expected);
    EXPECT_EQ(route.headers.flow_label, row.gid_index == 0 ? 0u : 0x12345u) << "IPv4 has none";
  }
}

TEST_F(PortTest, AGroupIsJoinedOverEachVersionOrNone) {
  auto made = std::make_unique<FakeLink>(link::FirstHeader::grh);
  FakeLink* const frames = made.get();
  port.add_gid({gid_of(kHere), kHere.with_port(0)}, std::move(made));
  const Gid group = gid_of(SocketAddress::parse("239.0.0.1", 0).value());
  ASSERT_TRUE(port.join({group}));
  EXPECT_EQ(link->groups, std::vector{group});
  EXPECT_EQ(frames->groups, std::vector{group});
  port.leave({group});
  EXPECT_TRUE(link->groups.empty() && frames->groups.empty());
  link->refuses = true;
  EXPECT_EQ(port.join({group}).error().code, EPERM);
  EXPECT_TRUE(frames->groups.empty());
}

TEST_F(PortTest, AnAddressVectorLeadsWhereItsGidsDo) {
  const auto code_of = [&](const AddressVector& vector) {
    const auto path = port.path_to(vector);
    return path ? 0 : path.error().code;
  };
  const Gid there = gid_of(kThere);
  EXPECT_EQ(port.path_to({.dest_gid = there}).value(), roce_path(kThere));
  EXPECT_EQ(code_of({.dest_gid = there, .is_global = false}), EINVAL);
  EXPECT_EQ(code_of({.dest_gid = there, .source_gid_index = 1}), EINVAL);
  EXPECT_EQ(code_of({.dest_gid = gid_of(SocketAddress::parse("fd00::1", 0).value())}), EINVAL);
  EXPECT_EQ(code_of({}), EINVAL);
  port.set_state({.gids = 0});
  EXPECT_EQ(code_of({.dest_gid = there}), EINVAL);
  EXPECT_EQ(port.resolve({.dest_gid = there}, Qpn(5), {}).error().code, EINVAL);
}

}  // namespace
}  // namespace verbatim::port
