#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include <nlohmann/json.hpp>

#include "agent/agent_test_util.h"
#include "agent/client/agent_request.h"
#include "agent/client/client.h"
#include "base/time.h"
#include "service/folder.h"

/// Programs and agents that are killed.
namespace verbatim::agent {
namespace {

using Numbers = std::vector<std::uint32_t>;

/// Returns the number of this process's descriptors, including the one used for counting.
std::ptrdiff_t descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

class AgentDeath : public AgentTest {
 protected:
  /// Starts a program that joins, reports its slot, and lives until it is killed or released.
  static TestProgram program(const std::string& node, const std::string& address) {
    return TestProgram([=](const TestProgram::Tell& tell) {
      const auto client = AgentClient::join(options(node, address), {});
      tell(client ? std::to_string((*client)->slot()) : client.error().text);
    });
  }
  static void expect_to_receive(const AgentClient& client) {
    const Qpn qpn = qpn_of(client.slot(), 9);
    PacketSender(client.node().addresses[0]).send(client.node().addresses[0], qpn);
    EXPECT_EQ(received(client.sockets()[0], kTestTimeoutMs), Numbers{qpn.value()});
  }
  static nlohmann::json status(const std::string& node) {
    return nlohmann::json::parse(request_status(node).value());
  }
  /// Waits until the agent has noticed: it has `count` programs.
  static void await_programs(const std::string& node, std::size_t count) {
    const TimeNs deadline = monotonic_now() + 10 * kSecond;
    while (status(node)["programs"].size() != count && monotonic_now() < deadline) sched_yield();
    EXPECT_EQ(status(node)["programs"].size(), count);
  }
};

TEST_F(AgentDeath, AKilledProgramDisturbsNoOtherAndItsSlotIsUsedAgain) {
  const auto before = join("a", "127.78.0.1");
  TestProgram victim = program("a", "127.78.0.1");
  ASSERT_EQ(victim.told(), "2");
  const auto after = join("a");
  // Its socket is not empty when it dies.
  PacketSender(before->node().addresses[0]).send(before->node().addresses[0], qpn_of(2, 1), 20);
  victim.kill_now();
  await_programs("a", 2);
  expect_to_receive(*before);
  expect_to_receive(*after);

  std::vector<std::unique_ptr<AgentClient>> next;
  for (int i = 0; i < 4; ++i) next.push_back(join("a"));
  EXPECT_EQ(next[0]->slot(), 4u);  // The slot that was free longest is used first.
  const auto again = join("a");
  EXPECT_EQ(again->slot(), 2u);
  EXPECT_TRUE(received(again->sockets()[0]).empty());
  expect_to_receive(*again);
  expect_to_receive(*after);
}

TEST_F(AgentDeath, AKilledProgramIsNoticedThoughItsChildHoldsTheConnection) {
  const auto other = join("a", "127.78.0.1");
  TestProgram parent([](const TestProgram::Tell& tell) {
    const auto client = AgentClient::join(options("a"), {});
    const pid_t child = fork();
    if (child == 0) pause();
    tell(std::to_string(child));
  });
  const pid_t child = std::stoi(parent.told());
  await_programs("a", 2);
  parent.kill_now();
  await_programs("a", 1);
  kill(child, SIGKILL);
  EXPECT_TRUE(has_ended(child));
}

/// The agent sees three events at once: the end of a program's connection, a request, the end of
/// the program. What it learns of one must not affect the other, whose descriptors have the same
/// numbers.
TEST_F(AgentDeath, AnEndDisturbsNoConnectionThatBeginsInTheSameMoment) {
  const auto other = join("a", "127.78.0.1");
  TestProgram program([](const TestProgram::Tell& tell) {
    auto client = AgentClient::join(options("a"), {});
    tell("joined");
    client->reset();
    tell("left");
  });
  ASSERT_EQ(program.told(), "joined");
  const pid_t agent = node_description("a")->agent_pid;
  ASSERT_EQ(kill(agent, SIGSTOP), 0);
  program.let_go();
  EXPECT_EQ(program.told(), "left");
  const auto connection = service::connect_to(service::RuntimeFolder::open()->socket("a"));
  ASSERT_TRUE(connection);
  EXPECT_TRUE(send(connection->get(), DescriptionRequest{}));
  program.let_go();
  EXPECT_TRUE(has_ended(program.pid()));
  ASSERT_EQ(kill(agent, SIGCONT), 0);
  const auto answer = await_answer(connection->get());
  EXPECT_TRUE(answer) << answer.error().text;
}

TEST_F(AgentDeath, AForkedChildThatLetsGoHoldsNothing) {
  const std::ptrdiff_t before = descriptors();
  auto client = join("a", "127.78.0.1");
  const auto other = join("a");
  TestProgram child([&](const TestProgram::Tell& tell) {
    client->close_in_child();
    other->close_in_child();
    tell(std::to_string(descriptors()));
  });
  ASSERT_EQ(child.told(), std::to_string(before + 1));  // It has the channel, too.
  expect_to_receive(*client);
  client.reset();
  await_programs("a", 1);
  expect_to_receive(*other);
}

TEST_F(AgentDeath, ProgramsRejoinTheNextAgentAndSteeringGoesOn) {
  const auto first = join("a", "127.78.0.1"), second = join("a");
  const pid_t old_agent = first->node().agent_pid;
  end_agent(old_agent, SIGKILL);
  expect_to_receive(*first);  // Without any agent.
  rejoin(*first);
  rejoin(*second);

  const auto third = join("a", "127.78.0.1");
  EXPECT_NE(third->node().agent_pid, old_agent);
  EXPECT_EQ(third->node().gids, first->node().gids);
  EXPECT_EQ(third->slot(), 3u);
  for (const auto* client : {first.get(), second.get(), third.get()}) expect_to_receive(*client);
  await_programs("a", 3);
}

TEST_F(AgentDeath, OrderSurvivesManyAgents) {
  std::vector<std::unique_ptr<AgentClient>> clients;
  for (int round = 0; round < 12; ++round) {
    clients.push_back(join("a", "127.78.0.1"));
    const pid_t agent = node_description("a")->agent_pid;
    end_agent(agent, SIGKILL);
    for (const auto& client : clients) rejoin(*client);
    for (const auto& client : clients) expect_to_receive(*client);
  }
}

TEST_F(AgentDeath, AProgramThatDiesWithTheAgentLeavesItsSlotFree) {
  const auto survivor = join("a", "127.78.0.1");
  TestProgram victim = program("a", "127.78.0.1");
  ASSERT_EQ(victim.told(), "2");
  kill(survivor->node().agent_pid, SIGKILL);
  victim.kill_now();
  rejoin(*survivor);
  const auto next = join("a"), another = join("a");
  expect_to_receive(*survivor);
  expect_to_receive(*next);
  expect_to_receive(*another);
}

TEST_F(AgentDeath, ASlotOfAProgramThatHasNotRejoinedIsNotGivenAway) {
  const auto first = join("a", "127.78.0.1"), second = join("a");
  kill(first->node().agent_pid, SIGKILL);
  rejoin(*second);  // The first one is busy.
  std::vector<std::unique_ptr<AgentClient>> newcomers;
  for (int i = 0; i < 10; ++i) {
    newcomers.push_back(join("a"));
    EXPECT_NE(newcomers.back()->slot(), first->slot());
  }
  rejoin(*first);
  expect_to_receive(*first);
  await_programs("a", 12);
}

TEST_F(AgentDeath, ANewcomerStartsTheNextAgentAndWaitsForThoseThatLive) {
  const auto first = join("a", "127.78.0.1");
  end_agent(first->node().agent_pid, SIGKILL);
  TestProgram newcomer = program("a", "127.78.0.1");
  rejoin(*first);
  EXPECT_EQ(newcomer.told(), "2");
  expect_to_receive(*first);
}

TEST_F(AgentDeath, AfterAllHaveDiedANewcomerBeginsAnew) {
  TestProgram victim = program("a", "127.78.0.1");
  ASSERT_EQ(victim.told(), "1");
  const pid_t agent = node_description("a")->agent_pid;
  kill(agent, SIGSTOP);  // It notices nothing.
  victim.kill_now();
  end_agent(agent, SIGKILL);
  expect_to_receive(*join("a", "127.78.0.1"));
}

TEST_F(AgentDeath, ProgramsThatDoNotAnswerAreNotOverrun) {
  auto stopped = join("a", "127.78.0.1");  // It never handles an event.
  end_agent(stopped->node().agent_pid, SIGKILL);
  const auto newcomer = AgentClient::join(options("a"), {});
  ASSERT_FALSE(newcomer);
  EXPECT_EQ(newcomer.error().code, ETIMEDOUT);
  expect_to_receive(*stopped);
  rejoin(*stopped);
  EXPECT_EQ(join("a")->slot(), 2u);
}

TEST_F(AgentDeath, AgentThatIsToldToEndLetsProgramsGoOn) {
  const auto client = join("a", "127.78.0.1");
  end_agent(client->node().agent_pid, SIGTERM);
  expect_to_receive(*client);
  rejoin(*client);
  expect_to_receive(*client);
}

}  // namespace
}  // namespace verbatim::agent
