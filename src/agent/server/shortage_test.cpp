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

/// Connections for which the next agent has only a spare descriptor have a second for their
/// request; it has two seconds for members to rejoin.
TEST_F(Shortage, ThoseWhoHaveAskedAreAnsweredThoughTheAgentIsLate) {
  end_agent(node_description("a")->agent_pid, SIGKILL);
  TestProgram next([](const TestProgram::Tell& tell) {
    const rlimit limit{kDescriptors, kDescriptors};
    setrlimit(RLIMIT_NOFILE, &limit);
    const auto client = AgentClient::join(options("a", "127.78.6.1"), SharedFiles{});
    tell(client ? "joined" : client.error().text);
  });
  const std::string socket = service::RuntimeFolder::open()->socket("a");
  std::vector<UniqueFd> asking;
  while (asking.size() < kDescriptors / 2) {
    auto connection = service::connect_to(socket);
    if (!connection) continue;  // There is no next agent yet.
    ASSERT_TRUE(send(connection->get(), DescriptionRequest{}));
    asking.push_back(std::move(*connection));
  }
  for (UniqueFd& connection : asking) {
    const auto answer = await_answer(connection.get());
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, ETIMEDOUT) << answer.error().text;
    connection.reset();
  }
}

}  // namespace
}  // namespace verbatim::agent
