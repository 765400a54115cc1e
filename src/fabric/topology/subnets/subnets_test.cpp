#include "fabric/topology/subnets/subnets.h"

#include <gtest/gtest.h>

#include "fabric/topology/generate.h"

namespace verbatim::fabric {
namespace {

TEST(Subnets, EndAtRouters) {
  GenerateOptions options;
  options.hosts = 6;
  const Topology topology = generate(Shape::two_subnets, options).value();
  const Subnets subnets(topology);
  constexpr PortPlace kFirstHost{0, 1};
  constexpr PortPlace kLastHost{5, 1};
  constexpr std::uint32_t kRouter = 6;
  ASSERT_EQ(topology.nodes[kRouter].kind, NodeKind::router);
  EXPECT_EQ(subnets.of(kFirstHost), kFirstHost);
  EXPECT_EQ(subnets.of({2, 1}), kFirstHost);
  EXPECT_EQ(subnets.of({kRouter, 1}), kFirstHost);
  EXPECT_NE(subnets.of(kLastHost), kFirstHost);
  EXPECT_EQ(subnets.of({kRouter, 2}), subnets.of(kLastHost));
  for (const Link& link : topology.links) EXPECT_EQ(subnets.of(link.a), subnets.of(link.b));
}

TEST(Subnets, ASwitchIsInOneAndAPortWithoutCableAlone) {
  Subnets subnets({true, false, false});
  subnets.connect({0, 3}, {1, 1});
  EXPECT_EQ(subnets.of({0, 7}), subnets.of({1, 1}));
  EXPECT_EQ(subnets.of({2, 1}), (PortPlace{2, 1}));
  EXPECT_EQ(subnets.of({1, 2}), (PortPlace{1, 2}));
}

}  // namespace
}  // namespace verbatim::fabric
