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

#include "test_util.h"

/// What Linux promises of private memory stays true of registered memory, whether a peer uses it or
/// not, and afterwards.
namespace verbs_test {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = 48;  // Of which the middle third is registered.
constexpr std::size_t kFirst = 16;
constexpr std::size_t kRegistered = 16;

struct Use {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
};
/// Writes a byte of each page until it is told to stop.
void use_memory(const Pipe& pipe) {
  const OpenDevice host;
  const Endpoint end(host);
  end.connect(pipe.exchange(end.address()));
  for (Use use = pipe.receive<Use>(); use.address != 0; use = pipe.receive<Use>()) {
    for (std::size_t i = 0; i < 600; ++i) {
      const auto change = [&](ibv_send_wr& request) {
        request.wr.rdma = {.remote_addr = use.address + i % kRegistered * kPage + 8,
                           .rkey = use.rkey};
      };
      ASSERT_EQ(end.post(IBV_WR_RDMA_WRITE, i, 0, 1, change), 0);
      ASSERT_OK(end.wait());
    }
    pipe.send(true);
  }
}

/// One line of /proc/self/smaps about the mapping of an address: "VmFlags", "ProtectionKey".
std::string property_of(const void* address, const std::string& name) {
  std::ifstream maps("/proc/self/smaps");
  bool is_it = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      const auto at = reinterpret_cast<unsigned long>(address);
      is_it = begin <= at && at < end;
      if (is_it && name.empty()) return line;
    } else if (is_it && line.starts_with(name + ":")) {
      return line.substr(name.size() + 1) + " ";
    }
  }
  return "";
}
bool is_private(const void* address) {
  const std::string line = property_of(address, "");
  return line.size() > 31 && line[line.find(' ') + 4] == 'p';
}
std::size_t count_mappings() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<std::size_t>(std::count(std::istreambuf_iterator(maps), {}, '\n'));
}
long shared_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssShmem:")) return std::atol(line.c_str() + 9);
  }
  return 0;
}

/// A piece of memory, registered in its middle, and a peer that uses it, or does not.
class Memory {
 public:
  explicit Memory(bool is_used) : is_used_(is_used), other_(use_memory), end_(host_) {
    end_.connect(other_.pipe().exchange(end_.address()));
    void* const place =
        mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(place, MAP_FAILED);
    all_ = static_cast<std::byte*>(place);
    std::memset(all_, 'x', kPages * kPage);
  }
  ~Memory() {
    mr_.reset();
    other_.pipe().send(Use{});
    if (all_ != nullptr) munmap(all_, kPages * kPage);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* all() const { return all_; }
  std::byte* at(std::size_t page = 0) const { return all_ + (kFirst + page) * kPage; }
  /// The program has unmapped or moved it.
  void forget() { all_ = nullptr; }
  void enrol() {
    mr_.reset(ibv_reg_mr(host_.pd(), at(), kRegistered * kPage, kAllAccess));
    ASSERT_NE(mr_, nullptr);
    use();
  }
  /// The peer uses it, so much that it moves if it ever does.
  void use() {
    const Use use{reinterpret_cast<std::uint64_t>(at()), mr_->rkey};
    for (int i = 0; is_used_ && i < 3; ++i) {
      other_.pipe().send(use);
      other_.pipe().receive<bool>();
    }
  }
  void end() { mr_.reset(); }
  bool is_used() const { return is_used_; }

 private:
  const bool is_used_;
  const OtherNode other_;
  const OpenDevice host_;
  const Endpoint end_;
  std::byte* all_ = nullptr;
  Owned<ibv_mr> mr_;
};

/// Others than root cannot stop system calls that access memory which moves.
bool can_move() {
  const char* const path = std::getenv("VERBATIM_PATH");
  const long fd = syscall(SYS_userfaultfd, O_CLOEXEC);
  if (fd >= 0) close(static_cast<int>(fd));
  return fd >= 0 && (path == nullptr || std::string(path) != "wire");
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

int status_of(pid_t child) {
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

void forked_child_has_a_copy(Memory& memory) {
  memory.enrol();
  const pid_t child = fork();
  if (child == 0) {
    free(malloc(1 << 20));
    _exit(std::exchange(memory.at()[100], std::byte{'c'}) == std::byte{'x'} ? 0 : 1);
  }
  EXPECT_EQ(status_of(child), 0);
  EXPECT_EQ(memory.at()[100], std::byte{'x'});
  memory.end();
}

void child_without_handlers_lives(Memory& memory) {
  memory.enrol();
  const pid_t child = _Fork();
  if (child == 0) {
    execl(memory.at(3)[100] == std::byte{'x'} ? "/bin/true" : "/bin/false", "child", nullptr);
    _exit(2);
  }
  EXPECT_EQ(status_of(child), 0);
  memory.end();
}

void spawned_program_runs(Memory& memory) {
  memory.enrol();
  char name[] = "true";
  char* const arguments[] = {name, nullptr};
  pid_t child = -1;
  ASSERT_EQ(posix_spawn(&child, "/bin/true", nullptr, nullptr, arguments, environ), 0);
  EXPECT_EQ(status_of(child), 0);
  memory.end();
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

struct Promise {
  const char* name;
  void (*check)(Memory&);
  friend std::ostream& operator<<(std::ostream& to, const Promise& one) { return to << one.name; }
};
constexpr Promise kPromises[] = {
    {"ItMovesOnlyIfItIsUsed", it_moves_only_if_it_is_used},
    {"ForkedChildHasACopy", forked_child_has_a_copy},
    {"ChildWithoutHandlersLives", child_without_handlers_lives},
    {"SpawnedProgramRuns", spawned_program_runs},
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

class PrivateMemory : public testing::TestWithParam<std::tuple<Promise, bool>> {};

TEST_P(PrivateMemory, Keeps) {
  const auto& [promise, is_used] = GetParam();
  Memory memory(is_used);
  promise.check(memory);
}

std::string name_of(const testing::TestParamInfo<std::tuple<Promise, bool>>& row) {
  const auto& [promise, is_used] = row.param;
  return std::string(promise.name) + (is_used ? "Used" : "Unused");
}
INSTANTIATE_TEST_SUITE_P(Promises, PrivateMemory,
                         testing::Combine(testing::ValuesIn(kPromises), testing::Bool()), name_of);

}  // namespace
}  // namespace verbs_test
