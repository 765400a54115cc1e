#include "agent/client/options.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace verbatim::agent {
namespace {

/// Variables of this process, until the end of the test.
class OptionsOfEnvironment : public testing::Test {
 protected:
  void TearDown() override {
    for (const char* name : {"VERBATIM_NODE", "VERBATIM_FABRIC", "VERBATIM_HOST"}) unsetenv(name);
  }
};

TEST_F(OptionsOfEnvironment, HostIsANodeOfItsFabric) {
  setenv("VERBATIM_NODE", "a", 1);
  setenv("VERBATIM_HOST", "H1", 1);
  setenv("VERBATIM_FABRIC", "big", 1);
  const auto options = AgentOptions::from_environment();
  ASSERT_TRUE(options);
  EXPECT_EQ(options->node, "big.H1");
  EXPECT_EQ(options->fabric, "big");
  EXPECT_EQ(options->host, "H1");
}

TEST_F(OptionsOfEnvironment, HostIsOfTheDefaultFabric) {
  setenv("VERBATIM_HOST", "H1", 1);
  const auto options = AgentOptions::from_environment();
  ASSERT_TRUE(options);
  EXPECT_EQ(options->node, options->fabric + ".H1");
  EXPECT_FALSE(options->fabric.empty());
}

TEST_F(OptionsOfEnvironment, FabricWithoutAHostChangesNoNode) {
  setenv("VERBATIM_FABRIC", "big", 1);
  const auto options = AgentOptions::from_environment();
  ASSERT_TRUE(options);
  EXPECT_EQ(options->node, "local");
}

TEST(NodeOfHost, HasOnlyCharactersOfNodeNames) {
  EXPECT_EQ(node_of_host("big", "node-7 HCA-1"), "big.node-7_HCA-1");
  EXPECT_EQ(node_of_host("big", "0x2c9"), "big.0x2c9");
  EXPECT_EQ(node_of_host("big", std::string(64, 'x')).size(), 63u);
}

}  // namespace
}  // namespace verbatim::agent
