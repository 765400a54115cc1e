#pragma once

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <new>
#include <vector>

#include <sched.h>
#include <sys/eventfd.h>
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
inline constexpr std::size_t kCrashPoints = static_cast<std::size_t>(CrashPoint::debts_found) + 1;

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

/// Kills its process at the `left`th place. Rings bells that all processes of the lab have.
struct CrashPolicy : SharedPolicy {
  static inline long left = 0;
  static inline Ledger* ledger = nullptr;
  static inline std::vector<int> bells;  // By end.
  static void wake(std::uint32_t end) {
    [[maybe_unused]] const auto rung = eventfd_write(bells[end], 1);
  }
  static void sleep(End& end) {
    eventfd_t ignored = 0;
    if (end.begin_sleep()) eventfd_read(bells[end.index()], &ignored);
    end.end_sleep();
  }
  static void at(CrashPoint point) {
    if (left == 0) return;
    --left;
    if (left != 0) return;
    ++ledger->deaths[static_cast<std::size_t>(point)];
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }
};

struct CrashLabOptions {
  bool kills_receivers = false;
  /// Cables are slow, so that packets wait for time; and programs that have nothing to do sleep.
  bool is_slow = false;
  /// A router is between senders and receivers.
  bool has_router = false;
};

class CrashLab {
 public:
  using Options = CrashLabOptions;
  enum class Role : std::uint8_t { sends, sends_multicasts, moves };
  static constexpr Lid kGroup{0xc005};
  static constexpr Lid kNowhere{999};

  CrashLab(unsigned seed, Options options)
      : dice_(seed), options_(options), fabric_(topology_of(options), image_options()) {
    void* const memory = mmap(nullptr, sizeof(Ledger), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ledger_ = new (memory) Ledger;
    CrashPolicy::ledger = ledger_;
    while (CrashPolicy::bells.size() < kEndsMax) CrashPolicy::bells.push_back(eventfd(0, 0));
    fabric_.shared->set_doorbells([](void*, std::uint32_t end) { CrashPolicy::wake(end); },
                                  nullptr);
    set_lanes(fabric_.image(), 2);
    // A host with one program discards nothing, however long that is off its processor.
    for (std::uint32_t end = 1; end <= fabric_.ends.size(); ++end) {
      fabric_.shared->bury_end(*fabric_.mover, end);
    }
    for (LinkIndex i = 1; options_.is_slow && i < fabric_.image().first_hub_link(); ++i) {
      fabric_.image().link(i).ps_per_byte = 16'000;
    }
    if (!options.has_router) {
      set_group(fabric_.image(), kGroup, {fabric_.hosts[1], fabric_.hosts[3]});
    }
  }

  ~CrashLab() {
    for (const int bell : CrashPolicy::bells) close(bell);
    CrashPolicy::bells.clear();
    munmap(static_cast<void*>(ledger_), sizeof(Ledger));
  }

  /// Returns what was wrong.
  std::vector<std::string> run(unsigned deaths) {
    for (unsigned i = 0; i < kReceivers; ++i) start_receiver(i);
    for (Program& sender : senders_) start_sender(sender);
    while (deaths_ < deaths) {
      if (dice_(40) == 0) kill(senders_[2].process, SIGKILL);
      if (options_.kills_receivers && dice_(300) == 0) {
        kill(receivers_[dice_(kReceivers)].process, SIGKILL);
      }
      collect();
      keep();
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

  static constexpr std::uint32_t kEndsMax = 40;
  static Topology topology_of(Options options) {
    return options.has_router ? two_switches_and_a_router(6) : row_of_switches(3, 6);
  }
  static ImageOptions image_options() {
    ImageOptions options;
    options.block_capacity = 150;
    options.copy_slots = 4096;
    options.ends_max = kEndsMax;
    return options;
  }
  std::uint32_t take_end(std::size_t host) {
    const NodeRecord& record = fabric_.image().node(fabric_.hosts[host]);
    for (;;) {
      const auto end = fabric_.shared->ends().take({record.topology_node, record.topology_port});
      if (end) return *end;
      keep();  // Packets of a dead sender have still to arrive.
    }
  }

  /// Some time passes, in which this does what the keeper does.
  void keep() {
    usleep(100);
    fabric_.walker().run_due(monotonic_now());
    fabric_.walker().serve_left_over();
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
    const long crash_in = options_.kills_receivers ? 1 + static_cast<long>(dice_(20'000)) : 0;
    receiver.process = start([&, crash_in, seed](auto& walker) {
      CrashPolicy::left = crash_in;
      End end(fabric_.image(), receiver.end);
      Dice dice(seed);
      while (ledger_->stop != 2) {
        if (end.receive(walker, monotonic_now(),
                        [&](const IncomingPacket& packet) { check(index, read(packet)); }) == 0) {
          rest(end, dice);
        } else if (dice(64) == 0) {
          usleep(300);
        }
      }
    });
  }

  void rest(End& end, Dice& dice) const {
    if (!options_.is_slow || dice(4) != 0) {
      sched_yield();
    } else if (!end.take_credit_news()) {
      CrashPolicy::sleep(end);
    }
  }

  Mark read(const IncomingPacket& packet) const {
    if (!options_.has_router) return mark_of(packet);
    const auto routed = routed_mark_of(packet);
    const bool is_right = routed && routed->grh.hop_limit == kHopLimit - 1 &&
                          routed->lrh.slid == router() &&
                          routed->lrh.dlid == lid_of(fabric_.hosts[1]);
    if (!is_right) ++ledger_->wrong;
    return routed ? routed->mark : Mark{};
  }

  void check(unsigned receiver, Mark mark) {
    Ledger::Flow& flow = ledger_->flows[mark.flow];
    const std::uint32_t expected = flow.received[receiver];
    // A branch of a multicast is dropped if there is no slot for it.
    const bool may_miss = options_.kills_receivers || flow.is_multicast != 0;
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
    auto role = static_cast<Role>(sender.generation % 3);
    if (options_.has_router && role == Role::sends_multicasts) role = Role::sends;
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
        if (!post(end, dlid, sl, {sender.generation, number}, bytes)) break;
        ++number;
      }
      if (dice(16) == 0) post_mark(end, kNowhere, sl, {}, 64);  // Discarded by the first switch.
      flow.announced = number;
      end.push(walker);
      flow.pushed = number;
      if (number == before) rest(end, dice);
    }
  }

  bool post(End& end, Lid dlid, std::uint8_t sl, Mark mark, std::uint32_t bytes) const {
    const Qpn to(kReceiverRange << kQpnRangeBits);
    if (!options_.has_router) return post_mark(end, dlid, sl, mark, bytes, to);
    const Image& image = fabric_.image();
    return post_routed(end, router(), gid_of(image, fabric_.hosts[0]),
                       gid_of(image, fabric_.hosts[1]), mark,
                       {.bytes = static_cast<std::uint32_t>(kRoutedBytes) + bytes,
                        .service_level = sl,
                        .hop_limit = kHopLimit,
                        .destination = to});
  }
  Lid router() const { return lid_of(fabric_.image().station_of({2, 1})); }

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
    std::vector<std::string> faults;
    // In the order of their ends: one may sleep for what another, which has died, has left.
    std::vector<const Program*> left;
    for (const Program& sender : senders_) left.push_back(&sender);
    const auto has_ended = [&](const Program* sender) {
      if (waitpid(sender->process, &status, WNOHANG) != sender->process) return false;
      bury(*sender);
      return true;
    };
    wait_until([&] { return std::erase_if(left, has_ended), left.empty(); });
    for (const Program* sender : left) {
      faults.push_back(fmt::format("the sender at end {} sleeps", sender->end));
      kill(sender->process, SIGKILL);
      waitpid(sender->process, &status, 0);
      bury(*sender);
    }
    // The receivers take what is there.
    wait_until([&] { return faults_when_empty(fabric_.image()).empty(); });
    ledger_->stop = 2;
    for (const Program& receiver : receivers_) {
      CrashPolicy::wake(receiver.end);
      waitpid(receiver.process, &status, 0);
    }
    fabric_.shared->repair(*fabric_.mover);
    for (std::string& fault : faults_when_empty(fabric_.image()))
      faults.push_back(std::move(fault));
    if (ledger_->wrong != 0)
      faults.push_back(fmt::format("{} out of order", ledger_->wrong.load()));
    if (!options_.kills_receivers) check_ledger(faults);
    return faults;
  }

  /// Meanwhile receivers take what has come. Returns false if it takes too long.
  template <typename Condition>
  bool wait_until(Condition condition) {
    const TimeNs give_up_at = monotonic_now() + 20 * kSecond;
    while (!condition()) {
      if (monotonic_now() > give_up_at) return false;
      collect_receivers();
      keep();
    }
    return true;
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
  static constexpr std::uint8_t kHopLimit = 64;
  Dice dice_;
  const Options options_;
  TestFabric fabric_;
  Ledger* ledger_ = nullptr;
  std::array<Program, kReceivers> receivers_;
  std::array<Program, 4> senders_;
  unsigned next_generation_ = 0;
  unsigned deaths_ = 0;
};

}  // namespace verbatim::fabric
