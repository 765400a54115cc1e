// Kills a program at each step of each operation of the direct path: `kill_steps [POINTS]`. In each
// round a victim connects to the survivor, is stepped through an operation by some number of
// instructions, and is killed; then the survivor checks everything. POINTS: number of instants per
// operation, evenly distributed; 0: all of them. At the end it prints that it has settled, and
// waits until its input ends. It exits with 77 if the machine does not allow tracing.
#include "tests/programs/kill_steps.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>
#include <new>

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/reap.h"

namespace kill_steps {

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

void ProgressMark::say(std::uint32_t round, std::uint32_t step) {
  value_.store(round * 16 + step, std::memory_order_release);
  syscall(SYS_futex, &value_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool ProgressMark::wait(std::uint32_t round, std::uint32_t step) const {
  constexpr std::int64_t kTimeoutNs = 10'000'000'000;
  const timespec a_while{.tv_sec = 0, .tv_nsec = 100'000'000};
  for (const std::int64_t end = now_ns() + kTimeoutNs; !has_said(round, step);) {
    const std::uint32_t now = value_.load(std::memory_order_acquire);
    if (now >= round * 16 + step) break;
    syscall(SYS_futex, &value_, FUTEX_WAIT, now, &a_while, nullptr, 0);
    if (now_ns() > end) return false;
  }
  return true;
}

void fail(const Shared& shared, const char* who, const char* what, long long detail) {
  const Round& round = shared.round;
  std::printf("kill_steps: %s, %s, after %ld instructions (round %u): %s: %s (%lld)\n",
              round.what->name, round.warm ? "warm" : "cold", round.steps, round.number, who, what,
              detail);
  std::fflush(stdout);
  std::_Exit(1);
}

namespace {

constexpr int kSkipped = 77;
constexpr int kLanes = 2;
constexpr long kToTheEnd = LONG_MAX;
/// Later queue pairs are not stepped through, because deregistration visits each queue pair that
/// could exist.
constexpr long kStepsMax = 50'000;
/// Longer operations, which loop or ask the agent, are killed at fewer of their instructions.
constexpr long kEachMax = 4000;
constexpr long kOfLongOnes = 200;

long stride_for(long instructions, long points) {
  if (points == 0) points = instructions <= kEachMax ? instructions : kOfLongOnes;
  return std::max(1L, (instructions + points - 1) / std::max(1L, points));
}

constexpr Case kCases[] = {
    {.name = "RC SEND"},
    {.name = "RC SEND, SRQ", .shared_receives = true},
    {.name = "RC SEND with immediate", .opcode = IBV_WR_SEND_WITH_IMM},
    {.name = "RC SEND with invalidate", .opcode = IBV_WR_SEND_WITH_INV},
    {.name = "RC WRITE", .opcode = IBV_WR_RDMA_WRITE},
    {.name = "RC WRITE with immediate", .opcode = IBV_WR_RDMA_WRITE_WITH_IMM},
    {.name = "RC WRITE with immediate, SRQ",
     .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
     .shared_receives = true},
    {.name = "RC READ", .opcode = IBV_WR_RDMA_READ},
    {.name = "RC compare-and-swap", .opcode = IBV_WR_ATOMIC_CMP_AND_SWP},
    {.name = "RC fetch-and-add", .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD},
    {.name = "UC SEND", .type = IBV_QPT_UC},
    {.name = "UD SEND", .type = IBV_QPT_UD},
    {.name = "UD SEND, SRQ", .type = IBV_QPT_UD, .shared_receives = true},
    {.name = "RC SEND of 16 KiB", .length = 16 << 10},
    {.name = "RC SEND of 16 KiB, SRQ", .length = 16 << 10, .shared_receives = true},
    {.name = "RC WRITE of 16 KiB", .opcode = IBV_WR_RDMA_WRITE, .length = 16 << 10},
    {.name = "RC READ of 16 KiB", .opcode = IBV_WR_RDMA_READ, .length = 16 << 10},
    {.name = "UC SEND of 16 KiB", .type = IBV_QPT_UC, .length = 16 << 10},
    {.name = "UD SEND of 4000 bytes", .type = IBV_QPT_UD, .length = 4000},
    {.name = "RC SEND, receives deregistered", .survivor_deregisters = true},
    {.name = "RC WRITE, target deregistered",
     .opcode = IBV_WR_RDMA_WRITE,
     .survivor_deregisters = true},
    {.name = "post_recv", .action = VictimAction::post_receive},
    {.name = "poll_cq", .action = VictimAction::poll},
    {.name = "dereg_mr", .action = VictimAction::deregister},
};

/// Ends with its parent.
template <typename Body>
pid_t start(Body body) {
  const pid_t parent = getpid();
  std::fflush(stdout);
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) std::_Exit(1);
  body();
  std::_Exit(0);
}

Shared& make_shared_memory() {
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return *new (memory) Shared{};
}

/// The next event of `victim` is a stop by this signal.
bool stops_by(pid_t victim, int signal) {
  int status = 0;
  return waitpid(victim, &status, 0) == victim && WIFSTOPPED(status) && WSTOPSIG(status) == signal;
}

/// Returns true if a process can step through its child here.
bool can_trace() {
  const pid_t child = start([] {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0) raise(SIGSTOP);
  });
  const bool can = stops_by(child, SIGSTOP) &&
                   ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) == 0 &&
                   stops_by(child, SIGTRAP);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return can;
}

/// A survivor and its victims, one after another.
class Lane {
 public:
  explicit Lane(Shared& shared) : shared_(shared) {
    survivor_ = start([&shared] { survive(shared); });
  }

  void run(const Case& what, long points) {
    const std::uint32_t first = number_;
    const std::int64_t began = now_ns();
    const long cold = run_round(what, false, kToTheEnd, false);
    const long warm = run_round(what, true, kToTheEnd, false);
    // Cold and warm ones alternate: the first operation of a warm one shows that the earlier death
    // has left nothing behind. Cold ones have much in common.
    const long warm_stride = stride_for(warm, points);
    const long cold_stride = std::max(stride_for(cold, points), points == 0 ? 4L : 1L);
    for (long i = 0; i * warm_stride < warm || i * cold_stride < cold; ++i) {
      if (i * cold_stride < cold) run_round(what, false, i * cold_stride, false);
      if (i * warm_stride < warm) run_round(what, true, i * warm_stride, false);
    }
    run_round(what, true, kToTheEnd, true);
    std::printf("%-36s %6ld instructions, first time %6ld; %5u kills, %lld ms\n", what.name, warm,
                cold, number_ - first, static_cast<long long>((now_ns() - began) / 1'000'000));
    std::fflush(stdout);
  }

  pid_t survivor() const { return survivor_; }

 private:
  /// Returns how many instructions the victim has executed.
  long run_round(const Case& what, bool warm, long most, bool ends) {
    ++number_;
    shared_.round = {.what = &what, .number = number_, .steps = most, .warm = warm, .ends = ends};
    shared_.died_ns = 0;
    shared_.tracer.say(number_, kBegun);
    const pid_t victim = start([this] { be_victim(shared_); });
    if (!stops_by(victim, SIGSTOP)) fail(shared_, "tracer", "the victim did not get far");
    const long steps = step(victim, most);
    shared_.round.steps = steps;
    shared_.tracer.say(number_, kStopped);
    if (what.survivor_deregisters) {
      await_survivor(kDeregisters);
      usleep(200);  // The survivor waits for the victim now, or has finished.
    }
    shared_.died_ns = now_ns();
    kill(victim, SIGKILL);
    endpoint::await_death(victim);
    shared_.tracer.say(number_, kDead);
    await_survivor(kSatisfied);
    return steps;
  }

  /// Steps by at most `most` instructions, or until it stops by itself at the end.
  long step(pid_t victim, long most) {
    for (long steps = 0; steps < most; ++steps) {
      ptrace(steps < kStepsMax ? PTRACE_SINGLESTEP : PTRACE_CONT, victim, nullptr, nullptr);
      int status = 0;
      waitpid(victim, &status, 0);
      if (!WIFSTOPPED(status)) fail(shared_, "tracer", "the victim has ended by itself", status);
      if (WSTOPSIG(status) == SIGSTOP) {
        shared_.round.is_complete = true;
        return steps;
      }
      if (WSTOPSIG(status) != SIGTRAP) fail(shared_, "tracer", "a signal", WSTOPSIG(status));
      ++shared_.steps;
    }
    return most;
  }

  void await_survivor(Survivor step) {
    if (shared_.survivor.wait(number_, step)) return;
    fail(shared_, "tracer", "the survivor takes too long, or has failed", step);
  }

  Shared& shared_;
  pid_t survivor_;
  std::uint32_t number_ = 0;
};

int main(int argc, char** argv) {
  const long points = argc > 1 ? std::atol(argv[1]) : 10;
  const char* const only = argc > 2 ? argv[2] : "";
  if (!can_trace()) {
    std::puts("skipped: this machine lets no process trace another");
    return kSkipped;
  }
  Shared& plan = make_shared_memory();
  plan.busy_lanes = kLanes;
  Shared* lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    lanes[i] = &make_shared_memory();
    start([&, i] {
      Lane lane(*lanes[i]);
      for (;;) {
        const std::size_t next = plan.next_case++;
        if (next >= std::size(kCases)) break;
        if (std::strstr(kCases[next].name, only) != nullptr) lane.run(kCases[next], points);
      }
      // While all survivors exist, the caller may check what is left.
      if (--plan.busy_lanes == 0) {
        std::puts("kill_steps: settled");
        std::fflush(stdout);
      }
      char end = 0;
      while (read(STDIN_FILENO, &end, 1) > 0) {
      }
      kill(lane.survivor(), SIGKILL);
      waitpid(lane.survivor(), nullptr, 0);
    });
  }
  bool failed = false;
  for (int i = 0; i < kLanes && !failed; ++i) {  // The others end with this process.
    int status = 0;
    waitpid(-1, &status, 0);
    failed |= status != 0;
  }
  const std::int64_t slowest = std::max(lanes[0]->slowest_ns, lanes[1]->slowest_ns);
  std::printf("kill_steps: %s; the slowest error came %lld ms after the death\n",
              failed ? "FAILED" : "passed", static_cast<long long>(slowest / 1'000'000));
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace kill_steps

int main(int argc, char** argv) { return kill_steps::main(argc, argv); }
