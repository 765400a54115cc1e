#include <cerrno>
#include <string>

#include <gtest/gtest.h>

#include "fabric/data/fabric_for_test.h"

namespace verbatim::fabric {
namespace {

constexpr Lid kGroup{0xc003};

/// Three switches with two hosts at either end; the hosts in `members` are in the group.
struct GroupFabric : TestFabric {
  explicit GroupFabric(const std::vector<std::size_t>& members, ImageOptions options = {})
      : TestFabric(row_of_switches(3, 4), options) {
    std::vector<NodeIndex> nodes;
    for (const std::size_t member : members) {
      nodes.push_back(hosts[member]);
      shared->ends().set_member(ends[member]->index(), kGroup, true);
    }
    set_group(image(), kGroup, nodes);
  }
  bool send_to_group(std::size_t from, Mark mark, std::uint32_t bytes = 64) {
    return post_mark(*ends[from], kGroup, 0, mark, bytes, kMulticastQpn);
  }
  void push(std::size_t from) { ends[from]->push(walker()); }
};

TEST(FabricMulticast, EachMemberGetsOneCopy) {
  GroupFabric fabric({0, 1, 3});
  ASSERT_TRUE(fabric.send_to_group(2, {.flow = 9}));
  fabric.push(2);
  for (const std::size_t member : {0, 1, 3}) EXPECT_EQ(fabric.receive(member).size(), 1u) << member;
  EXPECT_FALSE(fabric.ends[2]->has_packets()) << "it is no member";
  for (const std::string& fault : faults_when_empty(fabric.image())) ADD_FAILURE() << fault;
}

TEST(FabricMulticast, AMemberHearsWhatItSends) {
  GroupFabric fabric({0, 1});
  ASSERT_TRUE(fabric.send_to_group(0, {}));
  fabric.push(0);
  EXPECT_EQ(fabric.receive(0).size(), 1u);
  EXPECT_EQ(fabric.receive(1).size(), 1u);
  fabric.shared->set_port_state(*fabric.mover, fabric.hosts[0], kCablePort, wire::PortState::armed);
  ASSERT_TRUE(fabric.send_to_group(0, {}));
  fabric.push(0);
  EXPECT_EQ(fabric.receive(0).size() + fabric.receive(1).size(), 0u) << "its port is not active";
  for (const std::string& fault : faults_when_empty(fabric.image())) ADD_FAILURE() << fault;
}

TEST(FabricMulticast, ProgramsOfAHostAreMembersOneByOne) {
  GroupFabric fabric({1});
  End& second = fabric.add_program(fabric.hosts[1]);
  ASSERT_TRUE(fabric.send_to_group(0, {.number = 0}));
  fabric.push(0);
  fabric.shared->ends().set_member(second.index(), kGroup, true);
  ASSERT_TRUE(fabric.send_to_group(0, {.number = 1}));
  fabric.push(0);
  fabric.shared->ends().set_member(fabric.ends[1]->index(), kGroup, false);
  ASSERT_TRUE(fabric.send_to_group(0, {.number = 2}));
  fabric.push(0);
  EXPECT_EQ(fabric.receive(1).size(), 2u);
  EXPECT_EQ(fabric.receive(4).size(), 2u);
}

/// All have packets of their own, and each is in the group; the next one is told of the limit.
TEST(FabricMulticast, APortHas64Programs) {
  ImageOptions options;
  options.ends_max = 80;
  GroupFabric fabric({1}, options);
  while (fabric.programs_of[fabric.hosts[1]] < kHostProgramsMax) {
    const End& program = fabric.add_program(fabric.hosts[1]);
    fabric.shared->ends().set_member(program.index(), kGroup, true);
  }
  const NodeRecord& host = fabric.image().node(fabric.hosts[1]);
  const PortPlace place{host.topology_node, host.topology_port};
  const auto one_more = fabric.shared->ends().take(place);
  ASSERT_FALSE(one_more);
  EXPECT_EQ(one_more.error().code, EAGAIN);
  EXPECT_NE(one_more.error().text.find("64 programs use this port of the host"), std::string::npos);

  ASSERT_TRUE(fabric.send_to_group(0, {}));
  fabric.push(0);
  std::size_t received = fabric.receive(1).size();
  for (std::size_t i = 4; i < fabric.ends.size(); ++i) received += fabric.receive(i).size();
  EXPECT_EQ(received, kHostProgramsMax);
  for (std::size_t i = 4; i < fabric.ends.size(); ++i) {
    const Qpn qpn(static_cast<std::uint32_t>(i - 2) << kQpnRangeBits);
    ASSERT_TRUE(post_mark(*fabric.ends[0], fabric.lid(1), 0, {}, 64, qpn));
    fabric.push(0);
    EXPECT_EQ(fabric.receive(i).size(), 1u) << i;
  }
  const std::uint32_t last = fabric.ends.back()->index();
  fabric.shared->bury_end(*fabric.mover, last);
  EXPECT_TRUE(fabric.shared->ends().take(place)) << "one has ended";
  for (const std::string& fault : faults_when_empty(fabric.image())) ADD_FAILURE() << fault;
}

TEST(FabricMulticast, ASlowMemberHoldsUpNobodyUntilBuffersAreFull) {
  ImageOptions options;
  options.block_capacity = 16;
  GroupFabric fabric({1, 3}, options);
  std::uint32_t sent = 0;
  for (; fabric.send_to_group(0, {.number = sent}, 200); ++sent) fabric.push(0);
  EXPECT_GT(sent, 4u);
  std::map<std::size_t, std::uint32_t> received;
  for (bool any = true; any;) {
    any = false;
    for (const std::size_t member : {1, 3}) {
      for (const Mark& mark : fabric.receive(member)) {
        EXPECT_EQ(mark.number, received[member]++);
        any = true;
      }
    }
  }
  EXPECT_EQ(received, (std::map<std::size_t, std::uint32_t>{{1, sent}, {3, sent}}));
  for (const std::string& fault : faults_when_empty(fabric.image())) ADD_FAILURE() << fault;
}

TEST(FabricMulticast, ABranchWithoutASlotIsCounted) {
  ImageOptions options;
  options.copy_slots = 1;
  GroupFabric fabric({1, 3}, options);
  ASSERT_TRUE(fabric.send_to_group(0, {}));
  fabric.push(0);
  ASSERT_TRUE(fabric.send_to_group(0, {}));
  fabric.push(0);
  EXPECT_EQ(fabric.receive(1).size() + fabric.receive(3).size(), 3u);
  std::uint64_t lost = 0;
  for (LinkIndex i = 1; i < fabric.image().extent().links; ++i) {
    lost += fabric.image().link(i).counters.copy_errors;
  }
  EXPECT_EQ(lost, 1u);
  for (const std::string& fault : faults_when_empty(fabric.image())) ADD_FAILURE() << fault;
}

TEST(FabricMulticast, AGroupWithoutMembersIsDiscarded) {
  GroupFabric fabric({});
  ASSERT_TRUE(fabric.send_to_group(0, {}));
  fabric.push(0);
  for (const std::string& fault : faults_when_empty(fabric.image())) ADD_FAILURE() << fault;
}

}  // namespace
}  // namespace verbatim::fabric
