#include "agent/server/status.h"

#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/agent_test_util.h"
#include "arena/arena_header.h"

namespace verbatim::agent {
namespace {

using Json = nlohmann::json;

/// An arena with one queue pair, as a program lays it out.
UniqueFd arena_with_queue_pair(Qpn qpn) {
  UniqueFd fd(memfd_create("arena-for-test", MFD_CLOEXEC));
  constexpr std::uint64_t kTableAt = 65'536;
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(arena::kArenaBytes)), 0);
  arena::ArenaHeader header;
  header.queue_pairs.value = kTableAt;
  header.port_counters.packets_sent.set(42);
  EXPECT_EQ(pwrite(fd.get(), &header, sizeof header, 0), sizeof header);
  arena::QueuePairRecord record;
  record.qpn = qpn.value();
  record.dest_qpn = 77;
  record.type = 2;
  record.state = 3;
  record.counters.timeouts.set(5);
  const std::uint64_t index = qpn.value() % arena::kProgramQueuePairsMax;
  EXPECT_EQ(pwrite(fd.get(), &record, sizeof record,
                   static_cast<off_t>(kTableAt + index * sizeof record)),
            sizeof record);
  return fd;
}

class StatusTest : public AgentTest {};

TEST_F(StatusTest, TellsNodeProgramsAndQueuePairs) {
  const auto arena = arena_with_queue_pair(qpn_of(1, 300));
  const auto client = AgentClient::join(options("a", "127.78.0.1"), {.arena = arena.get()});
  ASSERT_TRUE(client) << client.error().text;
  const auto other = join("a");
  const Json status = Json::parse(request_status("a").value());
  EXPECT_EQ(status["node"], "a");
  EXPECT_EQ(status["interface"], "lo");
  EXPECT_EQ(status["agent_pid"], (*client)->node().agent_pid);
  EXPECT_EQ(status["addresses"], Json::array({"127.78.0.1"}));
  EXPECT_EQ(status["gids"][1]["gid"], "::ffff:127.78.0.1");
  ASSERT_EQ(status["programs"].size(), 2u);
  const Json& program = status["programs"][0];
  EXPECT_EQ(program["pid"], getpid());
  EXPECT_EQ(program["slot"], 1);
  EXPECT_EQ(program["name"], "agent_test");
  EXPECT_EQ(program["counters"]["packets_sent"], 42);
  ASSERT_EQ(program["queue_pairs"].size(), 1u);
  const Json& queue_pair = program["queue_pairs"][0];
  EXPECT_EQ(queue_pair["qpn"], qpn_of(1, 300).value());
  EXPECT_EQ(queue_pair["type"], "RC");
  EXPECT_EQ(queue_pair["state"], "RTS");
  EXPECT_EQ(queue_pair["counters"]["timeouts"], 5);
  EXPECT_FALSE(status["programs"][1].contains("queue_pairs"));
}

UniqueFd arena_that_has_lost(std::uint64_t packets) {
  UniqueFd fd(memfd_create("arena-for-test", MFD_CLOEXEC));
  arena::ArenaHeader header;
  header.fault_counters.lost.set(packets);
  EXPECT_EQ(write(fd.get(), &header, sizeof header), ssize_t{sizeof header});
  return fd;
}

TEST_F(StatusTest, FaultsAreSummedOverProgramsThatHaveEndedToo) {
  const auto quiet = join("a", "127.78.0.1");
  EXPECT_FALSE(Json::parse(request_status("a").value()).contains("faults"));
  const auto first = arena_that_has_lost(40);
  auto client = AgentClient::join(options("a"), {.arena = first.get()});
  ASSERT_TRUE(client) << client.error().text;
  client->reset();
  const auto second = arena_that_has_lost(2);
  client = AgentClient::join(options("a"), {.arena = second.get()});
  ASSERT_TRUE(client) << client.error().text;
  const Json status = Json::parse(request_status("a").value());
  EXPECT_EQ(status["faults"]["lost"], 42);
  EXPECT_EQ(status["faults"]["corrupted"], 0);
  EXPECT_FALSE(status["programs"][0].contains("faults"));
  EXPECT_EQ(status["programs"][1]["faults"]["lost"], 2);
}

TEST_F(StatusTest, AStrangeOrShortenedArenaIsLeftOut) {
  const UniqueFd empty(memfd_create("arena-for-test", MFD_CLOEXEC));
  nlohmann::ordered_json program;
  append_program_details(program, empty.get());
  EXPECT_FALSE(program.contains("counters"));
  const auto arena = arena_with_queue_pair(qpn_of(1, 300));
  ASSERT_EQ(ftruncate(arena.get(), 70'000), 0);
  append_program_details(program, arena.get());
  EXPECT_EQ(program["queue_pairs"].size(), 0u);
}

TEST_F(StatusTest, SurvivesTheAgent) {
  const auto arena = arena_with_queue_pair(qpn_of(1, 300));
  const auto client = AgentClient::join(options("a", "127.78.0.1"), {.arena = arena.get()});
  ASSERT_TRUE(client) << client.error().text;
  const Json before = Json::parse(request_status("a").value());
  end_agent((*client)->node().agent_pid, SIGKILL);
  rejoin(**client);
  const Json after = Json::parse(request_status("a").value());
  EXPECT_EQ(after["programs"], before["programs"]);
  EXPECT_EQ(after["gids"], before["gids"]);
  EXPECT_NE(after["agent_pid"], before["agent_pid"]);
}

}  // namespace
}  // namespace verbatim::agent
