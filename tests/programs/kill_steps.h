#pragma once

#include <atomic>
#include <cstdint>

#include <infiniband/verbs.h>

/// `kill_steps`: what its processes share. A tracer has one survivor, which lives throughout, and
/// one victim after another: a round is a victim's life. Everybody says how far it has come in the
/// round, and waits for the others' words.
namespace kill_steps {

/// What the victim does while it is stepped through.
enum class VictimAction : std::uint8_t {
  request,       // A send request to the survivor, until its completion.
  post_receive,  // These are of the passive side: the survivor's requests come all the while.
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
  bool survivor_deregisters = false;  // Its memory, while the victim stands in the middle.

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
  const Case* what = nullptr;  // The table is at the same place in each process.
  std::uint32_t number = 0;    // From 1.
  long steps = 0;              // Instructions: at most, then how many they were.
  bool warm = false;           // The victim does it once before it is stepped through.
  bool ends = false;           // The last round of its case.
  bool is_complete = false;    // The victim came to the operation's end; known when it is dead.
};

/// What one side tells the other of itself.
struct End {
  std::uint32_t qpn = 0;
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;
  std::uint32_t window_keys[2] = {};  // Survivor: of what `IBV_WR_SEND_WITH_INV` invalidates.
};

/// How far somebody has come. Only grows: 16 for each round, and what follows in it.
class ProgressMark {
 public:
  void say(std::uint32_t round, std::uint32_t step);
  /// False when it takes longer than ten seconds.
  bool wait(std::uint32_t round, std::uint32_t step) const;
  bool has_said(std::uint32_t round, std::uint32_t step) const {
    return value_.load(std::memory_order_acquire) >= round * 16 + step;
  }
  /// The last step that was said.
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
  std::atomic<long> steps{0};  // Taken by victims, of all rounds.
  std::atomic<std::int64_t> died_ns{0};
  std::atomic<std::size_t> next_case{0};
  std::atomic<int> busy_lanes{0};
  std::atomic<std::int64_t> slowest_ns{0};  // From a death to the error that tells of it.
};

/// The two processes; they end with the program.
[[noreturn]] void survive(Shared& shared);
[[noreturn]] void be_victim(Shared& shared);

[[noreturn]] void fail(const Shared& shared, const char* who, const char* what,
                       long long detail = 0);
std::int64_t now_ns();
/// Byte `at` of what the victim sends or writes in a round: warm first.
inline std::uint8_t pattern(std::uint32_t round, bool is_warm_up, std::uint64_t at) {
  return static_cast<std::uint8_t>(round * 2 + (is_warm_up ? 1 : 0) + at * 7 + (at >> 8));
}

}  // namespace kill_steps
