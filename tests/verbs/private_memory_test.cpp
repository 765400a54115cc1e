#include "private_memory.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <linux/futex.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbs_test {
namespace {

bool can_move() {
  const char* const path = std::getenv("VERBATIM_PATH");
  return path == nullptr || std::string(path) != "wire";
}

void it_moves_only_if_it_is_used(Memory& memory) {
  memory.enrol();
  for (int i = 0; memory.is_used() && can_move() && is_private(memory.at()) && i < 100; ++i) {
    memory.use();
  }
  EXPECT_EQ(is_private(memory.at()), !memory.is_used() || !can_move());
  EXPECT_TRUE(is_private(memory.at() - kPage));
  EXPECT_TRUE(is_private(memory.at(kRegistered)));
  memory.end();
  EXPECT_TRUE(is_private(memory.at()));
}

/// A futex that is not private, as of std::future and of semaphores that processes share.
void sleeper_wakes(Memory& memory) {
  for (const bool is_registered_before : {false, true}) {
    auto* const word = reinterpret_cast<std::uint32_t*>(memory.at() + 256);
    __atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
    if (is_registered_before) memory.enrol();
    std::atomic<bool> begins{false};
    std::thread sleeper([&] {
      while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == 0) {
        begins = true;
        syscall(SYS_futex, word, FUTEX_WAIT, 0, nullptr, nullptr, 0);
      }
    });
    while (!begins) std::this_thread::yield();
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    is_registered_before ? memory.end() : memory.enrol();
    __atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    sleeper.join();
    memory.end();
  }
}

void advice_is_obeyed_afterwards(Memory& memory) {
  memory.enrol();
  memory.end();
  EXPECT_EQ(madvise(memory.all(), kPages * kPage, MADV_FREE), 0);
  ASSERT_EQ(madvise(memory.all(), kPages * kPage, MADV_DONTNEED), 0);
  for (std::size_t i = 0; i < kPages * kPage; ++i) ASSERT_EQ(memory.all()[i], std::byte{0}) << i;
}

void it_grows_and_moves_afterwards(Memory& memory) {
  memory.enrol();
  memory.end();
  void* const grown = mremap(memory.all(), kPages * kPage, 2 * kPages * kPage, MREMAP_MAYMOVE);
  EXPECT_EQ(static_cast<std::byte*>(grown)[kFirst * kPage + 100], std::byte{'x'});
  munmap(grown, 2 * kPages * kPage);
  memory.forget();
}

void unmapped_memory_is_freed(Memory& memory) {
  const long before = shared_kib();
  memory.enrol();
  memory.end();
  munmap(memory.all(), kPages * kPage);
  memory.forget();
  EXPECT_LE(shared_kib(), before + 16);
}

void cycles_leave_no_mapping(Memory& memory) {
  memory.enrol();
  memory.end();
  const std::size_t before = count_mappings();
  for (int i = 0; i < 20; ++i) {
    memory.enrol();
    memory.end();
  }
  EXPECT_LE(count_mappings(), before + 4) << "the C library may have made some";
}

template <int advice>
void advice_lasts(Memory& memory) {
  static constexpr std::pair<int, const char*> kFlags[] = {{MADV_DONTDUMP, " dd "},
                                                           {MADV_HUGEPAGE, " hg "},
                                                           {MADV_DONTFORK, " dc "},
                                                           {MADV_NOHUGEPAGE, " nh "}};
  if (madvise(memory.all(), kPages * kPage, advice) != 0) return;
  memory.enrol();
  for (const auto& [one, flag] : kFlags) {
    if (one != advice) continue;
    EXPECT_TRUE(property_of(memory.at(), "VmFlags").contains(flag)) << flag;
    memory.end();
    EXPECT_TRUE(property_of(memory.at(), "VmFlags").contains(flag)) << flag << "afterwards";
  }
}

void locked_memory_stays_locked(Memory& memory) {
  if (mlock(memory.all(), kPages * kPage) != 0) return;
  memory.enrol();
  EXPECT_TRUE(property_of(memory.at(), "VmFlags").contains(" lo "));
  memory.end();
  EXPECT_TRUE(property_of(memory.at(), "VmFlags").contains(" lo "));
}

void key_protects(Memory& memory) {
  const int key = pkey_alloc(0, 0);
  if (key < 0) return;
  ASSERT_EQ(pkey_mprotect(memory.all(), kPages * kPage, PROT_READ | PROT_WRITE, key), 0);
  memory.enrol();
  EXPECT_EQ(std::atoi(property_of(memory.at(), "ProtectionKey").c_str()), key);
  memory.end();
  EXPECT_EQ(std::atoi(property_of(memory.at(), "ProtectionKey").c_str()), key);
}

/// The kernel writes a signal's frame there.
void signals_are_handled_there(Memory& memory) {
  static std::atomic<int> handled;
  handled = 0;
  struct sigaction action{};
  action.sa_handler = [](int) { ++handled; };
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &action, nullptr);
  std::atomic<bool> stop{false};
  std::thread thread([&] {
    const stack_t stack{.ss_sp = memory.at(4), .ss_flags = 0, .ss_size = 8 * kPage};
    ASSERT_EQ(sigaltstack(&stack, nullptr), 0);
    while (!stop) raise(SIGUSR1);
  });
  while (handled == 0) std::this_thread::yield();
  memory.enrol();
  memory.end();
  stop = true;
  thread.join();
}

/// System calls of another thread write there at each moment.
void system_calls_succeed(Memory& memory) {
  std::atomic<bool> stop{false};
  std::atomic<unsigned> refused{0};
  const int zeroes = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  std::thread thread([&] {
    for (std::size_t i = 0; !stop; ++i) {
      if (read(zeroes, memory.at(i % kRegistered) + 512, 1024) != 1024) ++refused;
    }
  });
  for (int i = 0; i < 3; ++i) {
    memory.enrol();
    memory.end();
  }
  stop = true;
  thread.join();
  close(zeroes);
  EXPECT_EQ(refused, 0u);
}

void direct_reads_arrive(Memory& memory) {
  char name[] = "/var/tmp/verbatim-direct-XXXXXX";
  const int file = mkstemp(name);
  ASSERT_EQ(pwrite(file, std::string(kPage, 'd').c_str(), kPage, 0), static_cast<ssize_t>(kPage));
  const int direct = open(name, O_RDONLY | O_DIRECT | O_CLOEXEC);
  unlink(name);
  memory.enrol();
  if (direct >= 0) {
    EXPECT_EQ(pread(direct, memory.at(2), kPage, 0), static_cast<ssize_t>(kPage));
    EXPECT_EQ(memory.at(2)[100], std::byte{'d'});
  }
  memory.end();
  EXPECT_TRUE(is_private(memory.at())) << "whatever descriptors there are";
  close(direct);
  close(file);
}

/// As a debugger does.
void another_process_reads_and_writes_it(Memory& memory) {
  memory.enrol();
  const int file = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  const auto at = reinterpret_cast<off_t>(memory.at(1) + 300);
  ASSERT_EQ(pwrite(file, "dbg", 3, at), 3);
  EXPECT_EQ(std::memcmp(memory.at(1) + 300, "dbg", 3), 0);
  close(file);
  memory.end();
  EXPECT_EQ(std::memcmp(memory.at(1) + 300, "dbg", 3), 0);
}

constexpr Promise kPromises[] = {
    {"ItMovesOnlyIfItIsUsed", it_moves_only_if_it_is_used},
    {"SleeperWakes", sleeper_wakes},
    {"AdviceIsObeyedAfterwards", advice_is_obeyed_afterwards},
    {"ItGrowsAndMovesAfterwards", it_grows_and_moves_afterwards},
    {"UnmappedMemoryIsFreed", unmapped_memory_is_freed},
    {"CyclesLeaveNoMapping", cycles_leave_no_mapping},
    {"DontDumpLasts", advice_lasts<MADV_DONTDUMP>},
    {"HugePageLasts", advice_lasts<MADV_HUGEPAGE>},
    {"DontForkLasts", advice_lasts<MADV_DONTFORK>},
    {"NoHugePageLasts", advice_lasts<MADV_NOHUGEPAGE>},
    {"LockedMemoryStaysLocked", locked_memory_stays_locked},
    {"KeyProtects", key_protects},
    {"SignalsAreHandledThere", signals_are_handled_there},
    {"SystemCallsSucceed", system_calls_succeed},
    {"DirectReadsArrive", direct_reads_arrive},
    {"AnotherProcessReadsAndWritesIt", another_process_reads_and_writes_it},
};

TEST_P(PrivateMemory, Keeps) {
  const auto& [promise, is_used] = GetParam();
  Memory memory(is_used);
  promise.check(memory);
}

INSTANTIATE_TEST_SUITE_P(Promises, PrivateMemory,
                         testing::Combine(testing::ValuesIn(kPromises), testing::Bool()), name_of);

}  // namespace
}  // namespace verbs_test
