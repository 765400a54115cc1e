#include <array>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "agent/agent_test_util.h"

/// One node right after the other: an agent without programs gives way.
namespace verbatim::agent {
namespace {

class OneAfterTheOther : public AgentTest {
 protected:
  static AgentOptions with(const char* key, const std::string& value) {
    AgentOptions wanted = options("a", "127.78.11.1");
    if (std::string_view(key) == "profile") wanted.profile = value;
    if (std::string_view(key) == "device") wanted.device = value;
    if (std::string_view(key) == "address") wanted.addresses = parse_addresses(value).value();
    if (std::string_view(key) == "protocol") wanted.protocol = WireProtocol::iwarp;
    return wanted;
  }
  /// The defaults, and each setting with another value.
  static std::vector<AgentOptions> different_nodes() {
    return {with("", ""),
            with("profile", "tiny"),
            with("device", "mlx5_0"),
            with("protocol", "iwarp"),
            with("address", "127.78.11.2"),
            with("address", "127.78.11.1,127.78.11.2")};
  }
  static void expect_is(const Node& node, const AgentOptions& wanted) {
    EXPECT_EQ(node.profile, wanted.profile.empty() ? "verbatim" : wanted.profile);
    EXPECT_EQ(node.device, wanted.device.empty() ? "verbatim0" : wanted.device);
    EXPECT_EQ(node.protocol, wanted.protocol.value_or(WireProtocol::roce));
    EXPECT_EQ(node.addresses.size(), wanted.addresses.size());
    EXPECT_TRUE(same_ip(node.addresses[0], wanted.addresses[0]));
  }
  /// A program that begins and ends.
  static void run(const AgentOptions& wanted) {
    const auto program = AgentClient::join(wanted, {});
    ASSERT_TRUE(program) << program.error().text;
    expect_is((*program)->node(), wanted);
  }
};

TEST_F(OneAfterTheOther, EachProgramGetsTheNodeThatItAsksForWhateverTheLastOneHad) {
  const auto nodes = different_nodes();
  for (const AgentOptions& first : nodes) {
    for (const AgentOptions& second : nodes) {
      run(first);
      run(second);
    }
  }
}

TEST_F(OneAfterTheOther, CommandsGetTheNodeThatTheyAskForToo) {
  const auto nodes = different_nodes();
  for (const AgentOptions& wanted : nodes) {
    run(nodes[1]);
    const auto node = start_node(wanted);
    ASSERT_TRUE(node) << node.error().text;
    expect_is(*node, wanted);
  }
}

TEST_F(OneAfterTheOther, NodesHaveOneAddressOneAfterTheOther) {
  for (const char* name : {"a", "b", "c", "a"}) {
    const auto program = AgentClient::join(options(name, "127.78.11.1"), {});
    ASSERT_TRUE(program) << program.error().text;
  }
}

TEST_F(OneAfterTheOther, TheSameNodeKeepsItsAgent) {
  const pid_t agent = join("a", "127.78.11.1")->node().agent_pid;
  EXPECT_EQ(join("a", "127.78.11.1")->node().agent_pid, agent);
}

TEST_F(OneAfterTheOther, AnAgentWithAProgramStays) {
  const auto program = AgentClient::join(with("profile", "tiny"), {});
  ASSERT_TRUE(program);
  EXPECT_EQ(AgentClient::join(with("profile", "rxe"), {}).error().code, EEXIST);
  EXPECT_EQ(start_node(with("device", "mlx5_0")).error().code, EEXIST);
  EXPECT_EQ(AgentClient::join(options("b", "127.78.11.1"), {}).error().code, EADDRINUSE);
  EXPECT_EQ(join("a", "127.78.11.1")->node().profile, "tiny");  // Whatever the node has.
}

TEST_F(OneAfterTheOther, AnAgentThatACommandKeepsStays) {
  auto held = hold_node(with("profile", "tiny"));
  ASSERT_TRUE(held);
  EXPECT_EQ(AgentClient::join(with("profile", "rxe"), {}).error().code, EEXIST);
  held->reset();
  run(with("profile", "rxe"));
}

TEST_F(OneAfterTheOther, AFileThatHasChangedCountsAtOnce) {
  const std::string config = folder() + "/config";
  std::filesystem::create_directory(config);
  setenv("VERBATIM_CONFIG", config.c_str(), 1);
  for (const char* profile : {"tiny", "rxe", "tiny"}) {
    std::ofstream(config + "/a.conf") << "profile = " << profile << "\n";
    EXPECT_EQ(join("a", "127.78.11.1")->node().profile, profile);
  }
  std::filesystem::remove_all(config);
  EXPECT_EQ(join("a", "127.78.11.1")->node().profile, "verbatim");
}

TEST_F(OneAfterTheOther, AfterAnAgentThatRecoveredAsWell) {
  {
    const auto program = AgentClient::join(with("profile", "tiny"), {});
    ASSERT_TRUE(program);
    const auto other = join("a", "127.78.11.1");  // Its options say nothing of the profile.
    end_agent((*program)->node().agent_pid, SIGKILL);
    rejoin(*other);
    rejoin(**program);
  }
  run(with("", ""));
}

/// A program that joins while the agent leaves gets a node as well, or is refused by one that is in
/// use.
TEST_F(OneAfterTheOther, ProgramsThatJoinWhileTheAgentLeavesAreServed) {
  constexpr int kPrograms = 4, kRounds = 10;
  const auto nodes = different_nodes();
  std::array<std::thread, kPrograms> programs;
  for (std::size_t i = 0; i < kPrograms; ++i) {
    programs[i] = std::thread([&nodes, i] {
      for (std::size_t round = 0; round < kRounds; ++round) {
        const AgentOptions& wanted = nodes[(i + round) % 4];
        const auto program = AgentClient::join(wanted, {});
        if (program) {
          const bool is_named = !wanted.profile.empty();
          EXPECT_TRUE(!is_named || (*program)->node().profile == wanted.profile);
        } else {
          EXPECT_EQ(program.error().code, EEXIST) << program.error().text;
        }
      }
    });
  }
  for (auto& program : programs) program.join();
}

}  // namespace
}  // namespace verbatim::agent
