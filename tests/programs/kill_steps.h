#pragma once

#include <atomic>
#include <cstdint>

#include <infiniband/verbs.h>

/// Definitions that the processes of `kill_steps` share. A tracer has one survivor, which lives
/// throughout, and one victim after another: a round is a victim's life. Each process publishes its
/// progress in the round and waits for the others'.
namespace kill_steps {

/// The operation that the victim is stepped through.
enum class VictimAction : std::uint8_t {
  request,       // A send request to the survivor, until its completion.
  post_receive,  // This and the following are of the passive side: the survivor sends requests
                 // meanwhile.
  poll,
  deregister,
};

struct Case {
  const char* name;
  VictimAction action = VictimAction::request;
  ibv_qp_type type = IBV_QPT_RC;
  ibv_wr_opcode opcode = IBV_WR_SEND;
  std::uint32_t length = 8;
  bool shared_receives = false;
  // The survivor deregisters its memory, while the victim is stopped half way.
  bool survivor_deregisters = false;

  bool is_atomic() const {
    return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  }
  bool is_send() const {
    return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
           opcode == IBV_WR_SEND_WITH_INV;
  }
  bool consumes_receive() const {
    return action == VictimAction::request && (is_send() || opcode == IBV_WR_RDMA_WRITE_WITH_IMM);
  }
};
inline constexpr std::uint32_t kLengthMax = 32 << 10;
inline constexpr std::uint32_t kGrhBytes = 40;
inline constexpr std::uint32_t kImmediate = 0x11223344;

struct Round {
  const Case* what = nullptr;  // The table has the same address in each process.
  std::uint32_t number = 0;    // From 1.
  long steps = 0;              // Instructions: at first the limit, then the number executed.
  bool warm = false;           // The victim executes it once before it is stepped through.
  bool ends = false;           // The last round of its case.
  bool is_complete = false;    // The victim has reached the operation's end; known after its death.
};

/// What one side tells the other about itself.
struct End {
  std::uint32_t qpn = 0;
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;
  std::uint32_t window_keys[2] = {};  // Survivor: the keys that `IBV_WR_SEND_WITH_INV` invalidates.
};

/// Progress of one process, in shared memory: 16 * round + step. Only grows.
class ProgressMark {
 public:
  void say(std::uint32_t round, std::uint32_t step);
  /// Returns false after ten seconds.
  bool wait(std::uint32_t round, std::uint32_t step) const;
  bool has_said(std::uint32_t round, std::uint32_t step) const {
    return value_.load(std::memory_order_acquire) >= round * 16 + step;
  }
  /// Returns the last step that was published.
  std::uint32_t step() const { return value_.load(std::memory_order_acquire) % 16; }

 private:
  mutable std::atomic<std::uint32_t> value_{0};
};

enum Tracer : std::uint32_t { kBegun = 1, kStopped, kDead };
enum Survivor : std::uint32_t { kThere = 1, kConnected, kReady, kDeregisters, kSatisfied };
enum Victim : std::uint32_t { kVictimThere = 1, kVictimConnected, kWarm };

struct Shared {
  Round round;
  ProgressMark tracer;
  ProgressMark survivor;
  ProgressMark victim;
  End survivor_end;
  End victim_end;
  std::atomic<long> steps{0};  // Executed by victims in all rounds.
  std::atomic<std::int64_t> died_ns{0};
  std::atomic<std::size_t> next_case{0};
  std::atomic<int> busy_lanes{0};
  std::atomic<std::int64_t> slowest_ns{0};  // From a death to the resulting error.
};

/// The two processes; they end with the program.
[[noreturn]] void survive(Shared& shared);
[[noreturn]] void be_victim(Shared& shared);

[[noreturn]] void fail(const Shared& shared, const char* who, const char* what,
                       long long detail = 0);
std::int64_t now_ns();
/// Byte `at` of the data that the victim sends or writes in a round; warm comes first.
inline std::uint8_t pattern(std::uint32_t round, bool is_warm_up, std::uint64_t at) {
  return static_cast<std::uint8_t>(round * 2 + (is_warm_up ? 1 : 0) + at * 7 + (at >> 8));
}

}  // namespace kill_steps
