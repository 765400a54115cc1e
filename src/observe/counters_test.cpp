#include "observe/counters.h"

#include <set>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbatim::observe {
namespace {

/// Adding through each row of the table changes exactly one counter: no row is double, no member is
/// missing.
template <typename Counters, std::size_t N>
void each_row_names_its_own(const std::array<CounterName<Counters>, N>& table) {
  Counters counters;
  std::set<std::string> names;
  std::uint64_t amount = 0;
  for (const auto& row : table) {
    EXPECT_EQ((counters.*row.member).value(), 0u) << row.name;
    (counters.*row.member).add(++amount);
    names.insert(row.name);
  }
  EXPECT_EQ(names.size(), N);
  amount = 0;
  for (const auto& row : table) EXPECT_EQ((counters.*row.member).value(), ++amount) << row.name;
}

TEST(Counters, EveryRowOfATableNamesItsOwnCounter) {
  each_row_names_its_own(kQueuePairCounters);
  each_row_names_its_own(kPortCounters);
}

TEST(Counters, NamesAreThoseOfTheMembers) {
  PortCounters port;
  port.icrc_errors.add(7);
  for (const auto& row : kPortCounters) {
    const bool is_icrc = std::string(row.name) == "icrc_errors";
    EXPECT_EQ((port.*row.member).value(), is_icrc ? 7u : 0u) << row.name;
  }
}

TEST(Counters, ThreadsLoseNoCount) {
  Counter counter;
  std::thread other([&counter] {
    for (int i = 0; i < 10'000; ++i) counter.add();
  });
  for (int i = 0; i < 10'000; ++i) counter.add();
  other.join();
  EXPECT_EQ(counter.value(), 20'000u);
}

TEST(Counters, AddExclusiveAddsAndResetClears) {
  Counter counter;
  counter.add_exclusive();
  counter.add_exclusive(4);
  EXPECT_EQ(counter.value(), 5u);
  counter.reset();
  EXPECT_EQ(counter.value(), 0u);
}

/// Zeroed shared memory is a valid set of zero counters; one process reads what another counts.
TEST(Counters, LieInSharedMemory) {
  void* memory = mmap(nullptr, sizeof(QueuePairCounters), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* counters = static_cast<QueuePairCounters*>(memory);
  const pid_t child = fork();
  if (child == 0) {
    counters->timeouts.add(3);
    _exit(0);
  }
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(counters->timeouts.value(), 3u);
  EXPECT_EQ(counters->timeouts.value() + counters->duplicates.value(), 3u);
  munmap(memory, sizeof(QueuePairCounters));
}

}  // namespace
}  // namespace verbatim::observe
