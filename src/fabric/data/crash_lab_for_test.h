#pragma once

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <new>
#include <vector>

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric/data/fabric_for_test.h"
#include "fabric/data/walk/repair.h"

/// Programs that are killed while they move packets, between any two stores and by signals, and a
/// ledger of what must have arrived.
namespace verbatim::fabric {

inline constexpr unsigned kGenerationsMax = 1u << 16;
inline constexpr unsigned kReceivers = 2;
inline constexpr std::size_t kCrashPoints = static_cast<std::size_t>(CrashPoint::rebuilt) + 1;

/// What all processes of a lab share.
struct Ledger {
  std::atomic<std::uint32_t> stop;
  std::atomic<std::uint32_t> wrong;
  std::array<std::atomic<std::uint32_t>, kCrashPoints> deaths;  // By place.
  struct Flow {
    std::atomic<std::uint32_t> announced;  // Written before the push,
    std::atomic<std::uint32_t> pushed;     // and after it.
    std::atomic<std::uint32_t> is_multicast;
    std::array<std::atomic<std::uint32_t>, kReceivers> received;
  };
  std::array<Flow, kGenerationsMax> flows;
};

/// Kills its process at the `left`th place.
struct CrashPolicy : SharedPolicy {
  static inline long left = 0;
  static inline Ledger* ledger = nullptr;
  static void at(CrashPoint point) {
    if (left == 0 || --left != 0) return;
    ++ledger->deaths[static_cast<std::size_t>(point)];
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }
};

class CrashLab {
 public:
  enum class Role : std::uint8_t { sends, sends_multicasts, moves };
  static constexpr Lid kGroup{0xc005};
  static constexpr Lid kNowhere{999};

  CrashLab(unsigned seed, bool kills_receivers)
      : dice_(seed), kills_receivers_(kills_receivers), fabric_(row_of_switches(3, 6), options()) {
    void* const memory = mmap(nullptr, sizeof(Ledger), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ledger_ = new (memory) Ledger;
    CrashPolicy::ledger = ledger_;
    set_lanes(fabric_.image(), 2);
    set_group(fabric_.image(), kGroup, {fabric_.hosts[1], fabric_.hosts[3]});
  }

  /// Returns what was wrong.
  std::vector<std::string> run(unsigned deaths) {
    for (unsigned i = 0; i < kReceivers; ++i) start_receiver(i);
    for (Program& sender : senders_) start_sender(sender);
    while (deaths_ < deaths) {
      if (dice_(40) == 0) kill(senders_[2].process, SIGKILL);
      if (kills_receivers_ && dice_(300) == 0) {
        kill(receivers_[dice_(kReceivers)].process, SIGKILL);
      }
      collect();
      usleep(100);
    }
    return finish();
  }
  std::uint32_t deaths_at(CrashPoint point) const {
    return ledger_->deaths[static_cast<std::size_t>(point)];
  }

 private:
  struct Program {
    pid_t process = 0;
    std::uint32_t end = 0;
    unsigned generation = 0;
  };

  static ImageOptions options() {
    ImageOptions options;
    options.block_capacity = 150;
    options.copy_slots = 4096;
    options.ends_max = 40;
    return options;
  }
  std::uint32_t take_end(std::size_t host) {
    const NodeRecord& record = fabric_.image().node(fabric_.hosts[host]);
    for (;;) {
      const auto end = fabric_.shared->ends().take({record.topology_node, record.topology_port});
      if (end) return *end;
      usleep(100);  // Packets of a dead sender have still to arrive.
    }
  }

  template <typename Body>
  pid_t start(Body body) {
    const pid_t process = fork();
    if (process != 0) return process;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const Movers movers(fabric_.image());
    CrashPolicy policy;
    Walker<CrashPolicy> walker(fabric_.image(), policy, movers.join().value());
    body(walker);
    _exit(0);
  }

  void start_receiver(unsigned index) {
    Program& receiver = receivers_[index];
    receiver.end = take_end(2 * index + 1);
    fabric_.shared->ends().steer(receiver.end, kReceiverRange);
    fabric_.shared->ends().set_member(receiver.end, kGroup, true);
    const unsigned seed = dice_(1u << 30);
    receiver.process = start([&, seed](auto& walker) {
      End end(fabric_.image(), receiver.end);
      Dice dice(seed);
      while (ledger_->stop != 2) {
        if (end.receive(walker, 0, [&](const IncomingPacket& packet) {
              check(index, mark_of(packet));
            }) == 0) {
          sched_yield();
        } else if (dice(64) == 0) {
          usleep(300);
        }
      }
    });
  }

  void check(unsigned receiver, Mark mark) {
    Ledger::Flow& flow = ledger_->flows[mark.flow];
    const std::uint32_t expected = flow.received[receiver];
    // A branch of a multicast is dropped if there is no slot for it.
    const bool may_miss = kills_receivers_ || flow.is_multicast != 0;
    const bool is_right = may_miss ? mark.number >= expected : mark.number == expected;
    if (!is_right && ++ledger_->wrong < 5) {
      std::printf("receiver %u flow %u: %u instead of %u\n", receiver, mark.flow, mark.number,
                  expected);
      std::fflush(stdout);
    }
    flow.received[receiver] = mark.number + 1;
  }

  void start_sender(Program& sender) {
    const auto index = static_cast<std::size_t>(&sender - senders_.data());
    sender.generation = next_generation_++;
    sender.end = take_end(2 * (index % 3));
    const auto role = static_cast<Role>(sender.generation % 3);
    ledger_->flows[sender.generation].is_multicast = role == Role::sends_multicasts;
    const long crash_in = index < 2 ? 1 + static_cast<long>(dice_(3000)) : 0;
    const unsigned seed = dice_(1u << 30);
    sender.process = start([&, role, crash_in, seed](auto& walker) {
      CrashPolicy::left = crash_in;
      Dice dice(seed);
      if (role == Role::moves) return move(walker, dice);
      send(walker, sender, role, dice);
    });
  }

  void move(Walker<CrashPolicy>& walker, Dice& dice) {
    while (ledger_->stop == 0) {
      walker.start(1 + dice(fabric_.image().extent().links - 1));
    }
  }

  void send(Walker<CrashPolicy>& walker, const Program& sender, Role role, Dice& dice) {
    End end(fabric_.image(), sender.end);
    Ledger::Flow& flow = ledger_->flows[sender.generation];
    const Lid dlid = role == Role::sends_multicasts ? kGroup : lid_of(fabric_.hosts[1]);
    const auto sl = static_cast<std::uint8_t>(dice(2));
    std::uint32_t number = 0;
    while (ledger_->stop == 0) {
      const std::uint32_t before = number;
      for (unsigned burst = 1 + dice(16); burst != 0; --burst) {
        const std::uint32_t bytes = 16 + dice(dice(4) == 0 ? 4100 : 100);
        if (!post_mark(end, dlid, sl, {sender.generation, number}, bytes,
                       Qpn(kReceiverRange << kQpnRangeBits))) {
          break;
        }
        ++number;
      }
      if (dice(16) == 0) post_mark(end, kNowhere, sl, {}, 64);  // Discarded by the first switch.
      flow.announced = number;
      end.push(walker);
      flow.pushed = number;
      if (number == before) sched_yield();
    }
  }

  /// Who repairs is killed, too; the next one finds what it has left.
  void repair_and_die() {
    int status = 0;
    // Early in a repair, or late.
    const long crash_in = 1 + static_cast<long>(dice_(1u << dice_(12)));
    const pid_t repairer = start([&](auto& walker) {
      CrashPolicy::left = crash_in;
      const Movers movers(fabric_.image());
      movers.bury(
          [&] { walker.repair([&](std::uint32_t mover) { return movers.is_dead(mover); }); });
    });
    waitpid(repairer, &status, 0);
  }

  /// After some time, in which others may find what the dead one has left.
  void bury(const Program& program) {
    usleep(dice_(1000));
    for (unsigned i = dice_(4); i != 0; --i) repair_and_die();
    fabric_.shared->repair(*fabric_.mover);
    fabric_.shared->bury_end(*fabric_.mover, program.end);
  }

  /// Looks which programs have died; others take their places.
  void collect() {
    int status = 0;
    for (Program& sender : senders_) {
      if (waitpid(sender.process, &status, WNOHANG) != sender.process) continue;
      ++deaths_;
      bury(sender);
      start_sender(sender);
    }
    collect_receivers();
  }
  void collect_receivers() {
    int status = 0;
    for (unsigned i = 0; i < kReceivers; ++i) {
      if (waitpid(receivers_[i].process, &status, WNOHANG) != receivers_[i].process) continue;
      ++deaths_;
      bury(receivers_[i]);
      start_receiver(i);
    }
  }

  std::vector<std::string> finish() {
    int status = 0;
    ledger_->stop = 1;
    for (const Program& sender : senders_) {
      waitpid(sender.process, &status, 0);
      bury(sender);
    }
    // The receivers take what is there.
    for (int i = 0; i < 20'000 && !faults_when_empty(fabric_.image()).empty(); ++i) {
      collect_receivers();
      usleep(1000);
    }
    ledger_->stop = 2;
    for (const Program& receiver : receivers_) waitpid(receiver.process, &status, 0);
    fabric_.shared->repair(*fabric_.mover);
    std::vector<std::string> faults = faults_when_empty(fabric_.image());
    if (ledger_->wrong != 0)
      faults.push_back(fmt::format("{} out of order", ledger_->wrong.load()));
    if (!kills_receivers_) check_ledger(faults);
    return faults;
  }

  /// What was handed over has arrived, all of it.
  void check_ledger(std::vector<std::string>& faults) const {
    for (unsigned i = 0; i < next_generation_; ++i) {
      const Ledger::Flow& flow = ledger_->flows[i];
      if (flow.is_multicast != 0 || flow.received[0] == flow.pushed ||
          flow.received[0] == flow.announced) {
        continue;
      }
      faults.push_back(fmt::format("flow {}: {} arrived, {} were pushed", i,
                                   flow.received[0].load(), flow.pushed.load()));
    }
  }

  static constexpr std::uint32_t kReceiverRange = 100;
  Dice dice_;
  const bool kills_receivers_;
  TestFabric fabric_;
  Ledger* ledger_ = nullptr;
  std::array<Program, kReceivers> receivers_;
  std::array<Program, 4> senders_;
  unsigned next_generation_ = 0;
  unsigned deaths_ = 0;
};

}  // namespace verbatim::fabric
