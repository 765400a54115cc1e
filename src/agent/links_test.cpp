#include <fcntl.h>
#include <sys/mman.h>

#include "agent/agent_test_util.h"
#include "agent/client/client.h"

namespace verbatim::agent {
namespace {

/// A program that does as it is told, with a file in the place of a ring.
struct Obedient {
  std::unique_ptr<AgentClient> client;
  UniqueFd ring{memfd_create("test-ring", MFD_CLOEXEC)};
  std::vector<LinkSettings> heard;
  std::string failure;

  explicit Obedient(std::unique_ptr<AgentClient> member) : client(std::move(member)) {
    client->set_link_listener([this](const LinkSettings& settings) -> Result<int> {
      heard.push_back(settings);
      if (!failure.empty()) return refuse(ENOMEM, failure);
      return settings.capture == 0 ? -1 : ring.get();
    });
  }
  /// Waits for a message of the agent.
  const LinkSettings& hear() {
    const std::size_t before = heard.size();
    while (heard.size() == before && readable(client->fd())) client->handle_event();
    return heard.back();
  }
};

CapturedProgram next(int connection) {
  EXPECT_TRUE(readable(connection));
  auto program = next_captured(connection);
  EXPECT_TRUE(program) << program.error().text;
  return program ? std::move(*program) : CapturedProgram{};
}

class Links : public AgentTest {};

TEST_F(Links, ACaptureGetsTheRingsOfProgramsThatRunAndOfThoseThatCome) {
  Obedient first(join("a", "127.78.0.1"));
  EXPECT_EQ(first.heard.at(0).capture, 0u);
  UniqueFd capture = start_capture(options("a")).value();
  const std::uint64_t number = first.hear().capture;
  EXPECT_NE(number, 0u);
  const CapturedProgram shown = next(capture.get());
  EXPECT_EQ(shown.pid, getpid());
  EXPECT_EQ(shown.slot, first.client->slot());
  EXPECT_TRUE(shown.ring);

  Obedient second(join("a"));
  EXPECT_EQ(second.heard.at(0).capture, number);  // Before it can send anything.
  EXPECT_EQ(next(capture.get()).slot, second.client->slot());
  EXPECT_EQ(next_captured(capture.get()).error().code, EAGAIN);

  capture.reset();
  EXPECT_EQ(first.hear().capture, 0u);
  EXPECT_EQ(second.hear().capture, 0u);
}

TEST_F(Links, WhatAProgramOfferedBeforeItEndedComesWithTheRest) {
  const UniqueFd capture = start_capture(options("a", "127.78.0.1")).value();
  for (int i = 0; i < 20; ++i) {
    Obedient(join("a")).client.reset();
    const auto rest = rest_captured(capture.get());
    ASSERT_TRUE(rest) << rest.error().text;
    ASSERT_EQ(rest->size(), 1u);
    EXPECT_TRUE(rest->front().ring);
  }
}

TEST_F(Links, AProgramThatCannotBeCapturedSaysWhy) {
  Obedient program(join("a", "127.78.0.1"));
  program.failure = "no memory";
  const UniqueFd capture = start_capture(options("a")).value();
  program.hear();
  const CapturedProgram shown = next(capture.get());
  EXPECT_EQ(shown.failure, "no memory");
  EXPECT_FALSE(shown.ring);
}

TEST_F(Links, ANodeHasOneCapture) {
  UniqueFd capture = start_capture(options("a", "127.78.0.1")).value();
  const auto second = start_capture(options("a"));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, EBUSY);
  capture.reset();
  EXPECT_TRUE(start_capture(options("a")));
}

TEST_F(Links, ProgramsOfAnIwarpNodeHaveNoPackets) {
  AgentOptions wanted = options("a", "127.78.0.1");
  wanted.protocol = WireProtocol::iwarp;
  EXPECT_EQ(start_capture(wanted).error().code, EOPNOTSUPP);
  EXPECT_EQ(set_faults("a", "loss=1%").error().code, EOPNOTSUPP);
}

TEST_F(Links, FaultsReachProgramsThatRunAndThoseThatCome) {
  Obedient first(join("a", "127.78.0.1"));
  EXPECT_EQ(first.heard.at(0).faults, "");
  EXPECT_EQ(set_faults("a", "").value().plan, "");
  const NodeFaults set = set_faults("a", "loss=1%,seed=7").value();
  EXPECT_EQ(set.plan, "loss=1%,seed=7");
  EXPECT_EQ(set.programs, 1u);
  EXPECT_EQ(first.hear().faults, "loss=1%,seed=7");
  Obedient second(join("a"));
  EXPECT_EQ(second.heard.at(0).faults, "loss=1%,seed=7");
  EXPECT_EQ(set_faults("b", "off").error().code, ENOENT);
  EXPECT_EQ(set_faults("a", std::string(1024, 'x')).error().code, E2BIG);
}

TEST_F(Links, OffEndsFaultsOfProgramsThatRunNotOfThoseThatCome) {
  Obedient first(join("a", "127.78.0.1"));
  ASSERT_TRUE(set_faults("a", "loss=1%,seed=7"));
  first.hear();
  ASSERT_TRUE(set_faults("a", "off"));
  EXPECT_EQ(first.hear().faults, "off");
  Obedient second(join("a"));
  EXPECT_EQ(second.heard.at(0).faults, "") << "it keeps those that it begins with";
  const UniqueFd capture = start_capture(options("a")).value();
  EXPECT_EQ(second.hear().faults, "");
}

TEST_F(Links, FaultsEndWithTheLastProgram) {
  {
    const Obedient program(join("a", "127.78.0.1"));
    ASSERT_TRUE(set_faults("a", "loss=1%,seed=7"));
  }
  const Obedient next(join("a", "127.78.0.1"));
  EXPECT_EQ(next.heard.at(0).faults, "");
}

TEST_F(Links, TheNextAgentKeepsTheFaultsAndForgetsTheCapture) {
  Obedient program(join("a", "127.78.0.1"));
  ASSERT_TRUE(set_faults("a", "loss=1%,seed=7"));
  program.hear();
  const UniqueFd capture = start_capture(options("a")).value();
  EXPECT_NE(program.hear().capture, 0u);
  end_agent(program.client->node().agent_pid, SIGKILL);
  rejoin(*program.client);
  while (program.heard.back().capture != 0 && readable(program.client->fd())) {
    program.client->handle_event();
  }
  EXPECT_EQ(program.heard.back().capture, 0u);
  EXPECT_EQ(program.heard.back().faults, "loss=1%,seed=7");
  EXPECT_EQ(set_faults("a", "").value().plan, "loss=1%,seed=7");
}

}  // namespace
}  // namespace verbatim::agent
