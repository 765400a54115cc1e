#include "fabric/topology/subnets/subnet_plan.h"

#include <gtest/gtest.h>

#include "fabric/topology/generate.h"
#include "fabric/topology/read.h"

namespace verbatim::fabric {
namespace {

using Routes = std::vector<SubnetPlan::Route>;

TEST(SubnetPlan, TheManagerIsAtTheFirstHostPortWithACable) {
  // The first host has none; of the second, only port 2 has.
  const auto reading = read_topology(
      "Hca 1 \"H1\"\n\n"
      "Hca 2 \"H2\"\n[2] \"S1\"[1]\n\n"
      "Hca 1 \"H3\"\n[1] \"S1\"[2]\n\n"
      "Switch 4 \"S1\"\n[1] \"H2\"[2]\n[2] \"H3\"[1]\n");
  ASSERT_TRUE(reading.faults.empty());
  const auto plans = plan_subnets(reading.topology);
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0], SubnetPlan(PortPlace{.node = 1, .port = 2}));
}

TEST(SubnetPlan, WithoutCabledHostsThereIsNone) {
  EXPECT_TRUE(plan_subnets(read_topology("Hca 1 \"H1\"\n").topology).empty());
}

TEST(SubnetPlan, ARouterLeadsFromEachSubnetToTheOther) {
  GenerateOptions options;
  options.hosts = 4;
  const Topology topology = generate(Shape::two_subnets, options).value();
  const Node& router = topology.nodes[4];
  ASSERT_EQ(router.kind, NodeKind::router);
  const auto plans = plan_subnets(topology);
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].manager, (PortPlace{0, 1}));
  EXPECT_EQ(plans[1].manager, (PortPlace{2, 1}));
  EXPECT_NE(plans[0].gid_prefix, plans[1].gid_prefix);
  EXPECT_FALSE(is_link_local(plans[0].gid_prefix) || is_link_local(plans[1].gid_prefix));
  EXPECT_EQ(plans[0].routes, Routes(1, {plans[1].gid_prefix, identity_of(router, 1).guid}));
  EXPECT_EQ(plans[1].routes, Routes(1, {plans[0].gid_prefix, identity_of(router, 2).guid}));
}

TEST(SubnetPlan, SubnetsWithoutARouterHaveTheDefaultPrefix) {
  const auto plans =
      plan_subnets(read_topology("Hca 1 \"H1\"\n[1] \"H2\"[1]\n\nHca 1 \"H2\"\n[1] \"H1\"[1]\n\n"
                                 "Hca 1 \"H3\"\n[1] \"H4\"[1]\n\nHca 1 \"H4\"\n[1] \"H3\"[1]\n")
                       .topology);
  ASSERT_EQ(plans.size(), 2u);
  for (const SubnetPlan& plan : plans) {
    EXPECT_EQ(plan.gid_prefix, kDefaultGidPrefix);
    EXPECT_TRUE(plan.routes.empty());
  }
}

}  // namespace
}  // namespace verbatim::fabric
