// Two programs connect, refuse, disconnect and resolve over a network that loses, repeats and
// reorders MADs. In each run every wait ends, both sides agree, and nothing is left over.
#include <map>

#include "cm/ib/cm_test_util.h"
#include "sim/network.h"

namespace verbatim::cm {
namespace {

/// The events of one connection, as its user saw them.
struct Told {
  Qpn pair{};  // The active side's queue pair, which is different for each connection of a run.
  bool active = false;
  bool resolution = false;
  bool notified = false;     // Passive: data arrived before the RTU.
  bool established = false;  // Active: we established it. Passive: the event came.
  bool disconnected = false;
  bool ended = false;
  bool released = false;
};

/// A program with a user that acts at random: at once, late or never.
class Program {
 public:
  Program(const SocketAddress& where, std::uint64_t guid, std::uint64_t seed, sim::Random& random)
      : address(where),
        engine({.slot = static_cast<std::uint16_t>(guid), .node_guid = guid, .seed = seed}),
        random_(random) {
    EXPECT_TRUE(engine.listen({.service = wire::service_id_of(PortSpace::tcp, kPort),
                               .address = SocketAddress::ipv4({0, 0, 0, 0})}));
    EXPECT_TRUE(engine.listen({.service = wire::service_id_of(PortSpace::udp, kPort),
                               .address = SocketAddress::ipv4({0, 0, 0, 0}),
                               .datagram = true}));
  }

  void begin(const SocketAddress& to, TimeNs now) {
    ConnectParameters parameters = Bench::to_b();
    parameters.path.local = address;
    parameters.path.remote = roce_path(to);
    parameters.ends = {address.with_port(1), to.with_port(kPort)};
    parameters.offer.qpn = Qpn(static_cast<std::uint32_t>(raw_guid() << 16 | ++qpns_));
    parameters.retry = {.response_timeout = 14,
                        .retries = static_cast<std::uint8_t>(random_.between(3, 7))};
    if (random_.chance(0.2)) {
      const ResolveParameters question{.service = wire::service_id_of(PortSpace::udp, kPort),
                                       .path = parameters.path,
                                       .ends = parameters.ends,
                                       .retry = parameters.retry};
      told[*engine.resolve(question, now, effects)] = {.active = true, .resolution = true};
    } else {
      told[*engine.connect(parameters, now, effects)] = {.pair = parameters.offer.qpn,
                                                         .active = true};
    }
  }

  /// Records all effects except MADs, and decides what the user does later.
  void hear(TimeNs now) {
    for (Effect& effect : std::exchange(effects, {})) {
      if (std::holds_alternative<SendMad>(effect)) {
        mads.push_back(std::get<SendMad>(std::move(effect)));
      } else {
        std::visit([&](const auto& event) { on_event(event, now); }, effect);
      }
    }
  }

  /// Performs the due actions and returns the time of the next.
  void act(TimeNs now) {
    while (!plans_.empty() && plans_.begin()->first <= now) {
      const ConnectionId id = plans_.begin()->second;
      plans_.erase(plans_.begin());
      decide(id, now);
    }
  }
  TimeNs next_plan() const { return plans_.empty() ? kNever : plans_.begin()->first; }

  SocketAddress address;
  ConnectionManager engine;
  Effects effects;
  std::vector<SendMad> mads;
  std::map<ConnectionId, Told> told;

 private:
  std::uint64_t raw_guid() const { return address.ipv4_bytes()[3]; }
  void plan(ConnectionId id, TimeNs now) {
    const TimeNs longest = random_.chance(0.1) ? 2 * kSecond : 50 * kMillisecond;
    plans_.emplace(now + random_.below(longest), id);
  }

  Told& live(ConnectionId id) {
    Told& known = told.at(id);
    EXPECT_FALSE(known.ended || known.released) << "told of a connection that is over";
    return known;
  }
  void on_event(const SendMad&, TimeNs) {}
  void on_event(const ConnectRequest& event, TimeNs now) {
    EXPECT_FALSE(told.contains(event.connection));
    told[event.connection] = {.pair = event.peer.qpn};
    plan(event.connection, now);
  }
  void on_event(const SidrRequest& event, TimeNs now) {
    told[event.resolution] = {.resolution = true};
    plan(event.resolution, now);
  }
  void on_event(const ConnectResponse& event, TimeNs now) {
    EXPECT_TRUE(live(event.connection).active);
    plan(event.connection, now);
  }
  void on_event(const Established& event, TimeNs now) {
    Told& known = live(event.connection);
    EXPECT_FALSE(known.established || known.active);
    known.established = true;
    plan(event.connection, now);
  }
  void on_event(const Rejected& event, TimeNs) { live(event.connection).ended = true; }
  void on_event(const Unreachable& event, TimeNs) { live(event.connection).ended = true; }
  void on_event(const Disconnected& event, TimeNs) {
    Told& known = live(event.connection);
    EXPECT_FALSE(known.disconnected);
    known.disconnected = true;
  }
  void on_event(const TimeWaitExit& event, TimeNs) {
    Told& known = live(event.connection);
    EXPECT_TRUE(known.disconnected);
    known.ended = true;
  }
  void on_event(const SidrResponse& event, TimeNs) {
    EXPECT_TRUE(live(event.resolution).resolution);
    live(event.resolution).ended = true;
  }

  void release(ConnectionId id, TimeNs now) {
    engine.release(id, now, effects);
    told[id].released = true;
  }

  void decide(ConnectionId id, TimeNs now) {
    Told& known = told[id];
    if (known.ended || known.released) return;
    if (random_.chance(0.1)) return release(id, now);
    if (known.resolution) {
      EXPECT_TRUE(engine.answer(id, {.qpn = Qpn(7)}, now, effects));
      known.released = true;
      return;
    }
    if (known.disconnected) return;  // It has ended meanwhile.
    if (known.established) {
      EXPECT_TRUE(engine.disconnect(id, {}, now, effects));
    } else if (known.active) {
      EXPECT_TRUE(engine.establish(id, {}, now, effects));
      known.established = true;
      plan(id, now);
    } else if (random_.chance(0.15)) {
      EXPECT_TRUE(engine.reject(id, RejectReason::consumer, {}, now, effects));
      known.released = true;
    } else if (engine.accept(id, Bench::yes(Qpn(++qpns_)), now, effects)) {
      known.notified = random_.chance(0.1);
      if (known.notified) {
        EXPECT_TRUE(engine.notify_established(id, now, effects));
      }
    } else {
      ADD_FAILURE() << "accept is refused";
    }
  }

  sim::Random& random_;
  std::multimap<TimeNs, ConnectionId> plans_;
  std::uint32_t qpns_ = 0;
};

/// The passive side was established only if the active side was.
void expect_agreement(const Program& passive, const Program& active) {
  for (const auto& [id, known] : passive.told) {
    if (known.active || !known.established || known.notified) continue;
    const auto same = std::ranges::find_if(active.told, [&known](const auto& other) {
      return other.second.active && other.second.pair == known.pair;
    });
    ASSERT_NE(same, active.told.end());
    EXPECT_TRUE(same->second.established) << "connection " << raw(id);
  }
}

/// Runs once and returns how often a side was established.
int run_once(std::uint64_t seed) {
  SCOPED_TRACE(fmt::format("run_once({})", seed));
  sim::Random random(seed);
  sim::Faults faults{.delay_ns = 200 * kMicrosecond, .reordering_delay_ns = 150 * kMillisecond};
  if (seed % 4 != 0) {
    faults.loss = 0.01 * static_cast<double>(random.below(30));
    faults.duplication = 0.01 * static_cast<double>(random.below(30));
    faults.reordering = 0.01 * static_cast<double>(random.below(40));
  }
  sim::Network network(faults, random);
  std::array<Program, 2> programs{Program(address_a(), 1, seed, random),
                                  Program(address_b(), 2, seed + 1, random)};
  const auto both = [&programs](auto&& what) {
    for (int i = 0; i < 2; ++i) what(programs[i], i);
  };

  TimeNs now = kSecond;
  unsigned to_begin = 12;
  TimeNs next_begin = now;
  for (int steps = 0; steps < 100'000; ++steps) {
    if (to_begin > 0 && next_begin <= now) {
      const auto side = random.below(2);
      programs[side].begin(programs[1 - side].address, now);
      next_begin = --to_begin == 0 ? kNever : now + random.below(400 * kMillisecond);
    }
    both([&](Program& program, int side) {
      program.hear(now);
      program.act(now);
      program.hear(now);
      for (const SendMad& mad : std::exchange(program.mads, {})) {
        network.send(1 - side, now, [&mad](std::vector<std::byte>& bytes) {
          bytes.assign(mad.bytes.begin(), mad.bytes.end());
        });
      }
    });
    TimeNs next = std::min(network.next_arrival(), next_begin);
    both([&next](Program& program, int) {
      next = std::min({next, program.engine.deadline(), program.next_plan()});
    });
    if (next == kNever) break;
    now = std::max(now, next);
    if (network.next_arrival() <= now) {
      network.deliver_next([&](int to, ByteSpan bytes) {
        programs[to].engine.on_mad(bytes, roce_path(programs[1 - to].address), programs[to].address,
                                   now, programs[to].effects);
      });
    }
    both([now](Program& program, int) { program.engine.on_timeout(now, program.effects); });
  }

  int established = 0;
  both([&](Program& program, int side) {
    for (const auto& [id, known] : program.told) {
      established += known.established;
      EXPECT_TRUE(known.ended || known.released) << "connection " << raw(id) << " hangs";
    }
    EXPECT_EQ(program.engine.size(), 0u);
    expect_agreement(program, programs[1 - side]);
  });
  return established;
}

TEST(CmSimulation, EveryConnectionEndsOnBothSides) {
  int established = 0;
  for (std::uint64_t seed = 1; seed <= 8'000; ++seed) {
    established += run_once(seed);
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_GT(established, 60'000);
}

}  // namespace
}  // namespace verbatim::cm
