#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "agent/agent_test_util.h"
#include "agent/client/agent_request.h"
#include "service/folder.h"

/// The agent at its limit of descriptors.
namespace verbatim::agent {
namespace {

constexpr rlim_t kDescriptors = 64;

/// Descriptors that a program on the direct path shares, and a member of the node.
struct Member {
  explicit Member(const AgentOptions& options)
      : arena(memfd_create("arena", MFD_CLOEXEC)),
        memory(memfd_create("memory", MFD_CLOEXEC)),
        doorbell(eventfd(0, EFD_CLOEXEC)),
        client(AgentClient::join(
            options, {.arena = arena.get(), .memory = memory.get(), .doorbell = doorbell.get()})) {}
  UniqueFd arena, memory, doorbell;
  Result<std::unique_ptr<AgentClient>> client;
};

class Shortage : public AgentTest {
 protected:
  void SetUp() override {
    AgentTest::SetUp();
    // The agent's limit is that of the node's first program.
    first_.emplace([](const TestProgram::Tell& tell) {
      const rlimit limit{kDescriptors, kDescriptors};
      setrlimit(RLIMIT_NOFILE, &limit);
      const auto client = AgentClient::join(options("a", "127.78.6.1"), SharedFiles{});
      tell(client ? "joined" : client.error().text);
    });
    ASSERT_EQ(first_->told(), "joined");
  }
  void TearDown() override {
    members_.clear();
    first_.reset();
    AgentTest::TearDown();
  }
  /// Adds members until one is refused.
  void fill() {
    while (members_.size() < kDescriptors) {
      Member next(options("a"));
      if (!next.client) {
        refusal_ = next.client.error();
        return;
      }
      members_.push_back(std::move(next));
    }
  }
  static SocketAddress address_of(const Member& member) {
    return (*member.client)->node().addresses[0].with_port(0);
  }
  std::optional<TestProgram> first_;
  std::vector<Member> members_;
  Error refusal_;
};

TEST_F(Shortage, NewcomersAreRefusedInWords) {
  fill();
  EXPECT_GE(members_.size(), 3u);
  EXPECT_EQ(refusal_.code, EMFILE) << refusal_.text;
  EXPECT_TRUE(refusal_.text.contains("ulimit -n")) << refusal_.text;
  for (int again = 0; again < 5; ++again) {
    const Member refused(options("a"));
    ASSERT_FALSE(refused.client);
    EXPECT_EQ(refused.client.error().code, EMFILE) << refused.client.error().text;
  }
}

TEST_F(Shortage, MembersStayAndGetWhatTheyAskFor) {
  fill();
  for (Member& member : members_) {
    AgentClient& client = **member.client;
    const auto port = client.bindings().bind(
        {.handle = 1, .port_space = PortSpace::tcp, .address = address_of(member)});
    EXPECT_TRUE(port) << port.error().text;
    EXPECT_FALSE(readable(client.fd(), 0));
    EXPECT_TRUE(client.connected());
    EXPECT_TRUE(request_peer(client.node().addresses[0], client.slot()));
  }
#ifdef __SANITIZE_ADDRESS__
  // UndefinedBehaviorSanitizer uses a pipe to check an object's memory, and ends an agent, during a
  // request, if no descriptor is left for one.
  GTEST_SKIP() << "the sanitizer needs descriptors of its own";
#endif
  const auto status = request_status("a");
  ASSERT_TRUE(status) << status.error().text;
  for (const Member& member : members_) {
    EXPECT_TRUE(status->contains(fmt::format("\"slot\": {}", (*member.client)->slot()))) << *status;
  }
}

TEST_F(Shortage, WhenOneLeavesAnotherMayCome) {
  fill();
  ASSERT_FALSE(members_.empty());
  members_.pop_back();
  EXPECT_TRUE(Member(options("a")).client);
}

TEST_F(Shortage, ThoseWhoConnectAndSayNothingAreInNobodysWay) {
  fill();
  std::vector<UniqueFd> silent;
  const std::string socket = service::RuntimeFolder::open()->socket("a");
  for (int i = 0; i < 5; ++i) silent.push_back(*service::connect_to(socket));
  const auto status = request_status("a");
  EXPECT_TRUE(status) << status.error().text;
  for (Member& member : members_) {
    const auto port =
        (*member.client)
            ->bindings()
            .bind({.handle = 1, .port_space = PortSpace::tcp, .address = address_of(member)});
    EXPECT_TRUE(port) << port.error().text;
  }
}

TEST_F(Shortage, MembersRejoinTheNextAgent) {
  fill();
  const auto node = node_description("a");
  ASSERT_TRUE(node) << node.error().text;
  end_agent(node->agent_pid, SIGKILL);
  for (Member& member : members_) {
    rejoin(**member.client);
  }
}

/// Requests to the next agent while it waits for members of the one before, which do not rejoin.
class ShortageOfTheNext : public Shortage {
 protected:
  void SetUp() override {
    Shortage::SetUp();
    end_agent(node_description("a")->agent_pid, SIGKILL);
    next_.emplace([](const TestProgram::Tell& tell) {
      const rlimit limit{kDescriptors, kDescriptors};
      setrlimit(RLIMIT_NOFILE, &limit);
      const auto client = AgentClient::join(options("a", "127.78.6.1"), SharedFiles{});
      tell(client ? "joined" : client.error().text);
    });
    const std::string socket = service::RuntimeFolder::open()->socket("a");
    while (asking_.size() < kDescriptors / 2) {
      auto connection = service::connect_to(socket);
      if (!connection) continue;  // There is no next agent yet.
      ASSERT_TRUE(send(connection->get(), DescriptionRequest{}));
      asking_.push_back(std::move(*connection));
    }
  }
  void TearDown() override {
    next_.reset();
    Shortage::TearDown();
    asking_.clear();
  }
  /// And closes the connection, unless it is the last one: that keeps the agent, which would else
  /// leave half a second later, and leave what the first agent, which was killed, has left.
  void expect_answer(std::size_t number) {
    const auto answer = await_answer(asking_[number].get());
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, ETIMEDOUT) << answer.error().text;
    if (number + 1 != asking_.size()) asking_[number].reset();
  }
  /// For longer than it stays without a connection.
  static void stop_agent_for_a_while(const UniqueFd& connection) {
    ucred agent{};
    socklen_t length = sizeof agent;
    ASSERT_EQ(getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &agent, &length), 0);
    ASSERT_EQ(kill(agent.pid, SIGSTOP), 0);
    usleep(700'000);
    ASSERT_EQ(kill(agent.pid, SIGCONT), 0);
  }
  std::optional<TestProgram> next_;
  std::vector<UniqueFd> asking_;
};

/// Connections for which it has only a spare descriptor have a second for their request; it has two
/// seconds for members to rejoin.
TEST_F(ShortageOfTheNext, ThoseWhoHaveAskedAreAnsweredThoughTheAgentIsLate) {
  for (std::size_t number = 0; number < asking_.size(); ++number) expect_answer(number);
}

/// It has no descriptor for the last ones until the others have closed.
TEST_F(ShortageOfTheNext, ItDoesNotLeaveThoseWhomItHasNotTakenYet) {
  std::size_t answered = 0;
  do {
    expect_answer(answered++);
  } while (answered < asking_.size() && readable(asking_[answered].get(), 20));
  if (answered == asking_.size()) GTEST_SKIP() << "the agent was quick: none was left to be taken";
  stop_agent_for_a_while(asking_[answered]);
  for (; answered < asking_.size(); ++answered) expect_answer(answered);
}

}  // namespace
}  // namespace verbatim::agent
