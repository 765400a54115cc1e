#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ulp/lnet/self_tests.h"

/// Nodes of LNet in virtual time: messages are late, and connections break; by seed.
namespace verbatim::ulp::lnet {
namespace {

Nid nid(std::uint32_t host, std::uint16_t net = 0) { return make_nid(o2ib(net), host); }

/// A node with its memory. WRITEs go by address: all nodes are in this process.
struct Host {
  static constexpr std::uint32_t kBuffers = 8;
  Host(std::vector<Nid> own, std::vector<Route> routes, std::uint64_t stamp) {
    std::vector<Buffer> all;
    for (std::uint32_t i = 0; i < kBuffers; ++i) {
      memory.push_back(std::vector<std::byte>(Buffers::kBytes));
      all.push_back({{memory.back().data(), Buffers::kBytes, MemoryKey{1}}, MemoryKey{i + 1}});
    }
    buffers = Buffers(std::move(all));
    node = std::make_unique<Node>(NodeSettings{std::move(own), std::move(routes), stamp}, buffers);
    tests = std::make_unique<SelfTest>(*node);
  }
  std::vector<std::vector<std::byte>> memory;
  Buffers buffers;
  std::unique_ptr<Node> node;
  std::unique_ptr<SelfTest> tests;
};

class World {
 public:
  explicit World(std::uint64_t seed, double cut = 0) : random_(seed), cut_(cut) {}

  Host& add(std::vector<Nid> own, std::vector<Route> routes = {}) {
    auto& host =
        hosts_.emplace_back(std::make_unique<Host>(std::move(own), std::move(routes), ++stamps_));
    return *host;
  }
  /// Its process ends, and begins anew.
  Host& restart(Host& old) {
    const NodeSettings settings = old.node->settings();
    for (auto& [id, end] : ends_) {
      if (end.host == &old) cut(id);
    }
    run(now);
    const auto place = std::ranges::find(hosts_, &old, &std::unique_ptr<Host>::get);
    *place = std::make_unique<Host>(settings.own, settings.routes, ++stamps_);
    return **place;
  }

  void run(TimeNs until) {
    while (true) {
      flush_all();
      const TimeNs next = std::min(next_event(), next_deadline());
      if (next > until) break;
      now = std::max(now, next);
      if (!events_.empty() && events_.begin()->first <= now) {
        const auto event = std::move(events_.begin()->second);
        events_.erase(events_.begin());
        event();
      }
      for (const auto& host : hosts_) {
        if (host->node->deadline() <= now) host->node->on_time(now);
      }
    }
    now = until;
  }
  /// Half an hour at most: who is cut off waits for a minute, again and again.
  template <typename Done>
  bool run_until(Done done) {
    for (const TimeNs end = now + 1800 * kSecond; now < end && !done();) run(now + kSecond);
    return done();
  }

  TimeNs now = kSecond;
  int messages = 0;

 private:
  struct End {
    Host* host = nullptr;
    LinkId peer{};  // The other end.
    bool is_up = false, is_over = false;
    TimeNs last = 0;  // When what it has sent last arrives.
  };

  TimeNs next_event() const { return events_.empty() ? kNever : events_.begin()->first; }
  TimeNs next_deadline() const {
    TimeNs first = kNever;
    for (const auto& host : hosts_) first = std::min(first, host->node->deadline());
    return first == kNever ? kNever : std::max(first, now);
  }
  TimeNs delay() { return std::uniform_int_distribution<TimeNs>(1'000, 2'000'000)(random_); }
  bool breaks() { return std::bernoulli_distribution(cut_)(random_); }
  void at(TimeNs when, std::function<void()> event) { events_.emplace(when, std::move(event)); }
  Host* find(Nid to) {
    for (const auto& host : hosts_) {
      for (const Nid own : host->node->settings().own)
        if (own == to) return host.get();
    }
    return nullptr;
  }

  void flush_all() {
    for (const auto& host : hosts_) flush(*host);
  }
  void flush(Host& host) {
    while (true) {
      if (const auto wish = host.node->take_wish()) {
        connect(host, *wish);
      } else if (const auto link = host.node->take_ready()) {
        do {
          out_.clear();
          host.node->pump(*link, now, out_);
          for (const Work& work : out_.work) carry_out(*link, work);
        } while (out_.more);
      } else {
        return;
      }
    }
  }

  void connect(Host& host, const Node::Wish& wish) {
    const LinkId ours{++links_}, theirs{++links_};
    host.node->on_connecting(ours, wish.peer);
    ends_[ours] = {.host = &host, .peer = theirs};
    at(now + delay(), [this, ours, theirs, wish] { meet(ours, theirs, wish); });
  }

  void meet(LinkId ours, LinkId theirs, const Node::Wish& wish) {
    if (ends_[ours].is_over) return;
    Host* const peer = find(wish.peer);
    if (peer == nullptr || breaks()) return end(ours, "unreachable");
    Meeting meeting;
    meeting.private_data = wish.private_data;
    while (!meeting.private_data.full()) meeting.private_data.push(std::byte{0});
    const auto answer = peer->node->on_meeting(theirs, meeting, now);
    if (!answer) {
      const PrivateData data = answer.error().private_data;
      at(now + delay(), [this, ours, data] { end(ours, "rejected", data); });
      return;
    }
    ends_[theirs] = {.host = peer, .peer = ours, .is_up = true};
    peer->node->on_established(theirs, {}, now);
    const PrivateData data = answer->private_data;
    ends_[ours].last = ends_[theirs].last = now + delay();
    at(ends_[ours].last, [this, ours, data] {
      if (ends_[ours].is_over) return;
      ends_[ours].is_up = true;
      ends_[ours].host->node->on_established(ours, ByteSpan(data.begin(), data.size()), now);
    });
  }

  void end(LinkId id, const std::string& words, const PrivateData& refusal = {}) {
    End& one = ends_[id];
    if (one.is_over) return;
    one.is_over = true;
    if (one.host != nullptr)
      one.host->node->on_end(id, words, ByteSpan(refusal.begin(), refusal.size()), now);
  }
  void cut(LinkId id) {
    const LinkId peer = ends_[id].peer;
    at(now, [this, id] { end(id, "cut"); });
    at(now, [this, peer] { end(peer, "cut"); });
  }

  void carry_out(LinkId id, const Work& work) {
    End& from = ends_[id];
    if (from.is_over) return;
    from.last = std::max(from.last, now) + delay();
    if (const auto* const write = std::get_if<Write>(&work)) {
      // The bytes as they are now; they arrive before what follows.
      std::vector<std::byte> bytes;
      for (const Slice& slice : write->from)
        bytes.insert(bytes.end(), slice.data, slice.data + slice.bytes);
      EXPECT_EQ(bytes.size(), write->to.bytes);
      at(from.last, [this, id, bytes, to = write->to] {
        if (!ends_[id].is_over && !ends_[ends_[id].peer].is_over)
          std::memcpy(reinterpret_cast<void*>(to.address), bytes.data(), bytes.size());
      });
    } else if (const auto* const send = std::get_if<Send>(&work)) {
      const std::vector<std::byte> bytes(send->header.begin(), send->header.end());
      at(from.last, [this, id, bytes, done = send->done] { deliver(id, bytes, done); });
      if (breaks()) cut(id);
    } else if (std::holds_alternative<Disconnect>(work)) {
      cut(id);
    }
  }

  void deliver(LinkId id, const std::vector<std::byte>& bytes, Tag done) {
    ++messages;
    End& from = ends_[id];
    End& to = ends_[from.peer];
    if (from.is_over) return;
    if (done != kNoTag) from.host->node->on_done(id, done, CompletionStatus::success);
    if (!to.is_over) to.host->node->on_message(from.peer, bytes, now);
  }

  std::mt19937_64 random_;
  double cut_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::map<LinkId, End> ends_;
  std::multimap<TimeNs, std::function<void()>> events_;
  std::uint32_t links_ = 0;
  std::uint64_t stamps_ = 100;
  Output out_;
};

/// What a ping has brought, as text: "" until then.
void ping(World& world, Host& from, Nid to, std::string& found) {
  from.node->get(
      to, kReservedPortal, kPingBits, kPingBytesMax, std::nullopt,
      [&found](ByteSpan payload, const std::string& words, TimeNs) {
        const auto info = decode_ping_info(payload);
        found = info ? "" : "no answer: " + words;
        for (std::size_t i = 1; info && i < info->ends.size(); ++i)
          found += (i > 1 ? " " : "") + text_of(info->ends[i].nid);
      },
      world.now);
}

void expect_all_buffers_free(const Host& host) {
  EXPECT_EQ(host.buffers.free_count(), Host::kBuffers);
}

TEST(LnetWorld, PingsBothWays) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    World world(seed);
    Host& a = world.add({nid(1)});
    Host& b = world.add({nid(2)});
    std::string of_a, of_b;
    ping(world, a, nid(2), of_a);
    ping(world, b, nid(1), of_b);  // Both ask for a connection at once.
    world.run(world.now + kSecond);
    EXPECT_EQ(of_a, "0.0.0.2@o2ib") << "seed " << seed;
    EXPECT_EQ(of_b, "0.0.0.1@o2ib") << "seed " << seed;
  }
}

TEST(LnetWorld, ANodeThatIsNotThereIsSaidSo) {
  World world(1);
  Host& a = world.add({nid(1)});
  std::string found, beyond;
  ping(world, a, nid(9), found);
  ping(world, a, nid(9, 3), beyond);
  EXPECT_EQ(beyond, "no answer: no way leads to 0.0.0.9@o2ib3");
  world.run(world.now + kSecond);
  EXPECT_EQ(found, "no answer: unreachable");
}

TEST(LnetWorld, ANodeThatHasStartedAnewIsKnownAgain) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    World world(seed);
    Host& a = world.add({nid(1)});
    Host* b = &world.add({nid(2)});
    std::string found;
    ping(world, a, nid(2), found);
    world.run(world.now + kSecond);
    b = &world.restart(*b);
    found.clear();
    if (seed % 2 == 0) {
      ping(world, a, nid(2), found);
    } else {
      ping(world, *b, nid(1), found);
    }
    world.run(world.now + kSecond);
    EXPECT_EQ(found, seed % 2 == 0 ? "0.0.0.2@o2ib" : "0.0.0.1@o2ib") << "seed " << seed;
  }
}

struct Tried {
  TestService service;
  BulkKind kind;
  std::uint32_t bytes;
};
constexpr Tried kTried[] = {{TestService::ping, BulkKind::read, 4096},
                            {TestService::bulk, BulkKind::read, 4096},
                            {TestService::bulk, BulkKind::read, 1 << 20},
                            {TestService::bulk, BulkKind::write, 4096},
                            {TestService::bulk, BulkKind::write, 1 << 20}};

TestResult run_test(World& world, Host& client, Nid server, const Tried& tried,
                    std::uint32_t requests) {
  EXPECT_TRUE(client.tests->client().begin({.server = server,
                                            .service = tried.service,
                                            .kind = tried.kind,
                                            .bytes = tried.bytes,
                                            .requests = requests,
                                            .concurrency = 4},
                                           world.now));
  EXPECT_TRUE(world.run_until([&] { return client.tests->client().result().is_over; }));
  return client.tests->client().result();
}

void expect_all_counted(const Node& from, const Node& to) {
  const Node::Traffic sent = from.counters().sent, received = to.counters().received;
  EXPECT_EQ(sent.messages, received.messages);
  EXPECT_EQ(sent.bytes, received.bytes);
}

TEST(LnetWorld, SelfTestsMoveEveryByte) {
  for (const Tried& tried : kTried) {
    World world(tried.bytes);
    Host& a = world.add({nid(1)});
    Host& b = world.add({nid(2)});
    const TestResult result = run_test(world, a, nid(2), tried, 60);
    EXPECT_EQ(result.words, "");
    EXPECT_EQ(result.done, 60u);
    EXPECT_EQ(result.errors, 0u);
    EXPECT_FALSE(b.tests->server().has_session());
    expect_all_counted(*a.node, *b.node);
    expect_all_counted(*b.node, *a.node);
    world.run(world.now + 10 * kSecond);
    expect_all_buffers_free(a);
    expect_all_buffers_free(b);
  }
}

/// Two networks, and the one node that is at both.
TEST(LnetWorld, ARouterForwardsPingsAndBulks) {
  for (const Tried& tried : kTried) {
    World world(tried.bytes + 1);
    Host& a = world.add({nid(1, 0)}, {{o2ib(1), nid(3, 0)}});
    Host& b = world.add({nid(2, 1)}, {{o2ib(0), nid(3, 1)}});
    Host& router = world.add({nid(3, 0), nid(3, 1)});
    std::string found, of_router;
    ping(world, a, nid(2, 1), found);
    ping(world, a, nid(3, 0), of_router);
    world.run(world.now + kSecond);
    EXPECT_EQ(found, "0.0.0.2@o2ib1");
    EXPECT_EQ(of_router, "0.0.0.3@o2ib 0.0.0.3@o2ib1");
    const TestResult result = run_test(world, a, nid(2, 1), tried, 40);
    EXPECT_EQ(result.words, "");
    EXPECT_EQ(result.done, 40u);
    EXPECT_GT(router.node->counters().forwarded.messages, 80u);
    EXPECT_EQ(router.node->counters().dropped.messages, 0u);
    world.run(world.now + 10 * kSecond);
    for (const Host* host : {&a, &b, &router}) expect_all_buffers_free(*host);
  }
}

/// Whatever breaks, nothing wrong is taken for right, and no buffer is lost.
TEST(LnetWorld, BrokenConnectionsLoseNoBuffer) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    World world(seed, 0.02);
    Host& a = world.add({nid(1)});
    Host& b = world.add({nid(2)});
    run_test(world, a, nid(2), kTried[seed % std::size(kTried)], 30);
    world.run(world.now + 300 * kSecond);
    expect_all_buffers_free(a);
    expect_all_buffers_free(b);
    EXPECT_FALSE(b.tests->server().has_session()) << "seed " << seed;
  }
}

TEST(LnetWorld, IdleConnectionsAreKeptAlive) {
  World world(1);
  Host& a = world.add({nid(1)});
  world.add({nid(2)});
  std::string found;
  ping(world, a, nid(2), found);
  world.run(world.now + kSecond);
  const int before = world.messages;
  world.run(world.now + 1000 * kSecond);
  EXPECT_GE(world.messages - before, 10);
  EXPECT_LE(world.messages - before, 40);
  EXPECT_TRUE(a.node->peers().front().is_connected);
}

}  // namespace
}  // namespace verbatim::ulp::lnet
