#include "agent/server/port_totals.h"

#include <fstream>

#include <sys/mman.h>
#include <unistd.h>

#include "agent/agent_test_util.h"
#include "arena/arena_header.h"
#include "base/time.h"

namespace verbatim::agent {
namespace {

UniqueFd arena_of(const arena::ArenaHeader& header) {
  UniqueFd fd(memfd_create("arena-for-test", MFD_CLOEXEC));
  EXPECT_EQ(write(fd.get(), &header, sizeof header), ssize_t{sizeof header});
  return fd;
}

UniqueFd arena_that_has_sent(std::uint64_t packets) {
  arena::ArenaHeader header;
  header.port_counters.packets_sent.set(packets);
  return arena_of(header);
}

TEST(PortTotals, AreWhatTheProgramsPortHasCounted) {
  arena::ArenaHeader header;
  header.port_counters.packets_sent.set(1);
  header.port_counters.bytes_sent.set(20);
  header.port_counters.packets_received.set(300);
  header.port_counters.bytes_received.set(4000);
  header.port_counters.icrc_errors.set(50'000);
  header.port_counters.malformed.set(600'000);
  PortTotals totals = port_totals(arena_of(header).get());
  EXPECT_EQ(totals, (PortTotals{1, 20, 300, 4000, 650'000}));
  totals += totals;
  EXPECT_EQ(totals, (PortTotals{2, 40, 600, 8000, 1'300'000}));
}

TEST(FaultTotals, AreWhatTheProgramHasInjected) {
  arena::ArenaHeader header;
  header.fault_counters.lost.set(1);
  header.fault_counters.overflowed.set(60);
  FaultTotals totals = fault_totals(arena_of(header).get());
  EXPECT_EQ(totals, (FaultTotals{{1, 0, 0, 0, 0, 60}}));
  totals += totals;
  EXPECT_EQ(totals, (FaultTotals{{2, 0, 0, 0, 0, 120}}));
  EXPECT_EQ(fault_totals(-1), FaultTotals());
}

TEST(PortTotals, AreZeroWithoutAnArenaOfThisRelease) {
  EXPECT_EQ(port_totals(-1), PortTotals());
  EXPECT_EQ(port_totals(UniqueFd(memfd_create("empty", MFD_CLOEXEC)).get()), PortTotals());
  arena::ArenaHeader header;
  header.port_counters.packets_sent.set(1);
  ++header.version;
  EXPECT_EQ(port_totals(arena_of(header).get()), PortTotals());
}

struct PortTotalsOfANode : AgentTest {
  static std::uint64_t packets_sent() {
    std::ifstream file(view_folder("n").value() +
                       "/sys/class/infiniband/verbatim0/ports/1/counters/port_xmit_packets");
    std::uint64_t packets = 0;
    file >> packets;
    return packets;
  }
  /// The view is at most a second old.
  static void await_packets_sent(std::uint64_t packets) {
    const TimeNs deadline = monotonic_now() + 10 * kSecond;
    while (packets_sent() != packets && monotonic_now() < deadline) sched_yield();
    EXPECT_EQ(packets_sent(), packets);
  }
};

TEST_F(PortTotalsOfANode, KeepWhatProgramsThatHaveEndedHaveSent) {
  const auto stays = join("n", "127.78.11.1");
  const auto first = arena_that_has_sent(40);
  auto client = AgentClient::join(options("n"), {.arena = first.get()});
  ASSERT_TRUE(client) << client.error().text;
  client->reset();
  const auto second = arena_that_has_sent(2);
  client = AgentClient::join(options("n"), {.arena = second.get()});
  ASSERT_TRUE(client) << client.error().text;
  await_packets_sent(42);
}

}  // namespace
}  // namespace verbatim::agent
