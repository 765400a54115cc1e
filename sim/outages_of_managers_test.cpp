#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include <gtest/gtest.h>

#include "base/overloaded.h"
#include "cm/ib/cm_test_util.h"
#include "cm/iwarp/stream_manager.h"
#include "fabric/trunk/trunk_lab_for_test.h"
#include "mad/rmpp/rmpp_engine.h"
#include "sim/outage.h"

/// As `outages_test.cpp`, for the engines that manage: connections of InfiniBand and iWARP,
/// messages of many datagrams, trunks.
namespace verbatim::sim {
namespace {

constexpr std::uint64_t kSeeds = 1000;
constexpr TimeNs kDelay = kMillisecond;

/// A clock that jumps from event to event.
class Clock {
 public:
  explicit Clock(TimeNs start) : now(start) {}
  void at(TimeNs time, std::function<void()> action) {
    if (time != kNever) actions_.emplace(time, std::move(action));
  }
  TimeNs next() const { return actions_.empty() ? kNever : actions_.begin()->first; }
  void run_due() {
    while (next() <= now) {
      const auto node = actions_.extract(actions_.begin());
      node.mapped()();
    }
  }
  TimeNs now;

 private:
  std::multimap<TimeNs, std::function<void()>> actions_;
};

/// Advances the clock until nothing waits. `deadline` and `serve`: of the engines; `serve` carries
/// out all their effects.
void run_to_the_end(Clock& clock, const std::function<TimeNs()>& deadline,
                    const std::function<void()>& serve) {
  constexpr int kEventsMax = 20'000;
  serve();
  for (int events = 0; std::min(clock.next(), deadline()) != kNever; ++events) {
    ASSERT_LT(events, kEventsMax) << "it does not end";
    clock.now = std::max(clock.now, std::min(clock.next(), deadline()));
    clock.run_due();
    serve();
    ASSERT_GT(deadline(), clock.now);
  }
}

/// One connection, from the REQ to TimeWait, of programs that take their time.
class Connection {
 public:
  explicit Connection(std::uint64_t seed)
      : random_(seed),
        clock_(bench_.now),
        outage_(Outage::make(random_, bench_.now, 40 * kSecond)) {
    bench_.listen();
  }
  void run() {
    auto parameters = cm::Bench::to_b();
    parameters.retry = {.response_timeout = static_cast<std::uint8_t>(random_.below(32)),
                        .retries = static_cast<std::uint8_t>(random_.below(16))};
    const auto id = bench_.a.engine.connect(parameters, clock_.now, bench_.a.effects);
    ASSERT_TRUE(id);
    run_to_the_end(
        clock_, [this] { return std::min(bench_.a.engine.deadline(), bench_.b.engine.deadline()); },
        [this] { serve(); });
    // REQ, REP, DREQ of both sides and REJ, each at most 16 times.
    EXPECT_LE(sent_in_outage_, 5 * 16);
    EXPECT_EQ(bench_.a.engine.size(), 0u);
    EXPECT_EQ(bench_.b.engine.size(), 0u);
  }

 private:
  void serve() {
    bench_.now = clock_.now;
    bench_.a.engine.on_timeout(clock_.now, bench_.a.effects);
    bench_.b.engine.on_timeout(clock_.now, bench_.b.effects);
    carry_out(bench_.a, bench_.b);
    carry_out(bench_.b, bench_.a);
  }
  void carry_out(cm::Side& side, cm::Side& peer) {
    for (const cm::Effect& effect : std::exchange(side.effects, {})) {
      if (const auto* mad = std::get_if<cm::SendMad>(&effect)) send(*mad, peer);
      if (const auto* asked = std::get_if<cm::ConnectRequest>(&effect)) {
        later([this, &side, id = asked->connection] {
          if (random_.chance(0.8)) {
            (void)side.engine.accept(id, cm::Bench::yes(), clock_.now, side.effects);
            hang_up_later(side, id);
          } else {
            (void)side.engine.reject(id, {}, {}, clock_.now, side.effects);
          }
        });
      }
      if (const auto* answered = std::get_if<cm::ConnectResponse>(&effect)) {
        later([this, &side, id = answered->connection] {
          (void)side.engine.establish(id, {}, clock_.now, side.effects);
          hang_up_later(side, id);
        });
      }
    }
  }
  void hang_up_later(cm::Side& side, cm::ConnectionId id) {
    later([this, &side, id] {
      if (random_.chance(0.5)) {
        (void)side.engine.disconnect(id, {}, clock_.now, side.effects);
      } else {
        side.engine.release(id, clock_.now, side.effects);
      }
    });
  }
  void later(std::function<void()> action) {
    clock_.at(clock_.now + Outage::about(random_, kMicrosecond, 20 * kSecond), std::move(action));
  }
  void send(const cm::SendMad& mad, cm::Side& to) {
    sent_in_outage_ += outage_.holds(clock_.now) ? 1 : 0;
    clock_.at(outage_.arrival(clock_.now, kDelay),
              [this, mad, &to] { to.receive(mad, clock_.now); });
  }

  Random random_;
  cm::Bench bench_;
  Clock clock_;
  Outage outage_;
  int sent_in_outage_ = 0;
};

TEST(Outages, OfConnectionsOfInfiniband) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Connection(seed).run();
    if (testing::Test::HasFailure()) return;
  }
}

/// Two managers and the TCP connection between them, whose bytes stop at any of them. TCP itself
/// may tell of it, or not.
class MpaConnection {
 public:
  explicit MpaConnection(std::uint64_t seed) : random_(seed), bytes_left_(random_.below(60)) {}

  void run() {
    cm::StreamEffects out;
    const auto id = a_.manager.connect(cm::address_a(), cm::address_b(), {}, clock_.now, out);
    ASSERT_TRUE(id);
    a_.id = *id;
    carry_out(a_, b_, out);
    run_to_the_end(
        clock_, [this] { return std::min(a_.manager.deadline(), b_.manager.deadline()); },
        [this] {
          for (Side* side : {&a_, &b_}) {
            cm::StreamEffects due;
            side->manager.on_timeout(clock_.now, due);
            carry_out(*side, side == &a_ ? b_ : a_, due);
          }
        });
    EXPECT_EQ(a_.manager.connections() + b_.manager.connections(), 0u);
    // EndStream is repeated until the queue pair has ended its side.
    EXPECT_LE(effects_, 2 * cm::StreamManager::kTimeout / cm::StreamManager::kTryAgain + 20);
  }

 private:
  struct Side {
    explicit Side(std::uint64_t seed) : manager(seed) {}
    cm::StreamManager manager;
    cm::ConnectionId id{};
  };
  using Call = std::function<void(cm::StreamManager&, cm::StreamEffects&)>;

  void call(Side& side, const Call& what) {
    cm::StreamEffects out;
    what(side.manager, out);
    carry_out(side, &side == &a_ ? b_ : a_, out);
  }
  void later(Side& side, Call what) {
    clock_.at(clock_.now + Outage::about(random_, kMicrosecond, 20 * kSecond),
              [this, &side, what = std::move(what)] { call(side, what); });
  }
  void carry_out(Side& side, Side& peer, const cm::StreamEffects& effects) {
    effects_ += effects.size();
    const auto user_ends = [this, &side] {
      later(side, [this, id = side.id](auto& manager, auto& out) {
        if (random_.chance(0.5)) (void)manager.disconnect(id, clock_.now, out);
        manager.release(id, clock_.now, out);
      });
    };
    for (const cm::StreamEffect& effect : effects) {
      std::visit(Overloaded{[&](const cm::OpenStream&) { open(side, peer); },
                            [&](const cm::SendBytes& send) { deliver(peer, send.bytes); },
                            [&](const cm::StreamRequest&) {
                              later(side, [this, id = side.id](auto& manager, auto& out) {
                                if (random_.chance(0.2)) {
                                  (void)manager.reject(id, {}, clock_.now, out);
                                } else if (!manager.accept(id, {}, out)) {
                                  manager.release(id, clock_.now, out);
                                }
                              });
                              user_ends();
                            },
                            [&](const cm::StreamReply&) {
                              later(side, [id = side.id](auto& manager, auto& out) {
                                (void)manager.establish(id, out);
                              });
                              user_ends();
                            },
                            [](const auto&) {}},
                 effect);
    }
  }
  /// The kernel gives up at last where no network is.
  void open(Side& side, Side& peer) {
    if (random_.chance(0.2)) {
      return later(side, [this, id = side.id](auto& manager, auto& out) {
        manager.on_end(id, ETIMEDOUT, clock_.now, out);
      });
    }
    clock_.at(clock_.now + kDelay, [this, &side, &peer] {
      call(peer, [this, &peer](auto& manager, auto& out) {
        const auto id = manager.on_accepted(cm::ListenerId{1}, {}, false, clock_.now, out);
        if (id) peer.id = *id;
      });
      call(side, [this, id = side.id](auto& manager, auto& out) {
        manager.on_connected(id, clock_.now, out);
      });
    });
  }
  void deliver(Side& to, const std::vector<std::byte>& bytes) {
    clock_.at(clock_.now + kDelay, [this, &to, bytes] {
      for (const std::byte& byte : bytes) {
        if (to.manager.bytes_wanted(to.id) == 0 || bytes_left_ == 0) return;
        --bytes_left_;
        call(to, [&](auto& manager, auto& out) { manager.on_bytes(to.id, {&byte, 1}, out); });
      }
    });
  }

  Random random_;
  std::uint64_t bytes_left_;
  Clock clock_{kSecond};
  Side a_{1}, b_{2};
  std::uint64_t effects_ = 0;
};

TEST(Outages, OfConnectionsOfIwarp) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    MpaConnection(seed).run();
    if (testing::Test::HasFailure()) return;
  }
}

// Messages of many datagrams.

mad::RmppPeer rmpp_peer(std::uint16_t lid) { return {.path = {.dlid = Lid{lid}}, .qpn = Qpn(1)}; }

std::vector<std::byte> table(std::size_t bytes) {
  std::vector<std::byte> message(56 + bytes);
  encode(wire::MadHeader{.management_class = wire::MadClass::subnet_administration,
                         .class_version = 2,
                         .method = wire::MadMethod::get_table_response,
                         .transaction = 7},
         std::span(message).first<wire::MadHeader::kSize>());
  return message;
}

struct Transfer {
  explicit Transfer(std::uint64_t seed)
      : random(seed), outage(Outage::make(random, clock.now, kSecond)) {}

  void run() {
    const mad::RmppPatience patience{.ack_timeout = Outage::about(random, 1, 10 * kSecond),
                                     .retries = static_cast<unsigned>(random.below(16))};
    const std::size_t bytes = random.below(60'000);
    ASSERT_TRUE(ends[0].send(rmpp_peer(2), table(bytes), patience));
    run_to_the_end(
        clock, [this] { return std::min(ends[0].deadline(), ends[1].deadline()); },
        [this] {
          for (const int end : {0, 1}) ends[end].on_time(clock.now);
          for (const int end : {0, 1}) {
            while (const auto packet = ends[end].take_packet(clock.now)) send(*packet, 1 - end);
          }
        });
    const auto finished = ends[0].take_finished();
    ASSERT_TRUE(finished);
    EXPECT_FALSE(ends[0].take_finished());
    // Each retry repeats a window at most, and what had left before is acknowledged, each segment.
    EXPECT_LE(sent_in_outage, 2 * (patience.retries + 4) * (mad::RmppReceiver::kWindow + 1));
  }
  void send(const mad::RmppPacket& packet, int to) {
    sent_in_outage += outage.holds(clock.now) ? 1 : 0;
    auto mad = packet.mad;
    const auto rmpp = wire::decode_rmpp_header(mad);
    if (closes_window && rmpp.type == wire::RmppType::ack) {
      auto closed = rmpp;
      closed.length = closed.segment;
      encode(closed, std::span(mad));
    }
    clock.at(outage.arrival(clock.now, kDelay),
             [this, mad, to] { ends[to].on_packet(rmpp_peer(to == 0 ? 2 : 1), mad, clock.now); });
  }

  Random random;
  Clock clock{kSecond};
  Outage outage;
  bool closes_window = false;  // The receiver acknowledges, and takes no more.
  mad::RmppEngine ends[2];
  std::uint64_t sent_in_outage = 0;
};

TEST(Outages, OfMessagesOfManyDatagrams) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Transfer(seed).run();
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Outages, AReceiverThatLeavesItsWindowClosedEndsAMessage) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Transfer transfer(seed);
    transfer.closes_window = true;
    transfer.run();
    if (testing::Test::HasFailure()) return;
  }
}

/// A trunk looks for its peer for ever, at its pace, and has it again after the outage.
TEST(Outages, OfTrunks) {
  using namespace fabric::trunk;
  constexpr std::uint64_t kTrunks = 200;
  for (std::uint64_t seed = 1; seed <= kTrunks; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    TrunkLab lab(seed);
    if (random.chance(0.8)) lab.connect();
    const auto packets = static_cast<std::uint32_t>(random.below(SendWindow::kDataMax));
    for (std::uint32_t i = 0; lab.a.session.room() > 0 && i < packets; ++i)
      TrunkLab::send(lab.a, i);
    lab.run(Outage::about(random, kMicrosecond, kSecond));
    lab.is_cut = true;
    const std::uint64_t before = lab.sent;
    const TimeNs outage = Outage::about(random, kMillisecond, 100 * kSecond);
    lab.run(outage);
    // While a session lasts, its window is repeated; then there are hellos.
    constexpr std::uint64_t kOfSession = 2 * 70 * SendWindow::kMax;
    EXPECT_LE(lab.sent - before, kOfSession + 10 * (outage / kSecond + 1));
    lab.is_cut = false;
    if (lab.a.session.offer() == std::nullopt) lab.connect();
    lab.run(10 * kSecond);
    EXPECT_TRUE(lab.a.session.is_up() && lab.b.session.is_up());
    ASSERT_EQ(lab.overdue, 0u);
  }
}

}  // namespace
}  // namespace verbatim::sim
