#include "ulp/rdma/driver.h"

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "sim/random.h"
#include "ulp/rdma/fake/fake_adapter_for_test.h"

namespace verbatim::ulp::rdma {
namespace {

constexpr std::uint32_t kReceives = 64;
const SocketAddress kServer = SocketAddress::ipv4({10, 0, 0, 1}, 4420);

/// A program with many connections on a faulty adapter: what it does, and what its peers do, come
/// from the seed. It checks what the driver promises to engines.
class World final : public Handler {
 public:
  World(std::uint64_t seed, const Faults& faults) : fake_(seed, {}), random_(seed ^ 0x5eed) {
    loop_ = *service::Loop::create([this] { return now_; });
    driver_ = *Driver::create(*this, {.connections_max = 12,
                                      .receives = kReceives,
                                      .receive_bytes = 64,
                                      .headers = 4,
                                      .header_bytes = 128});
    EXPECT_TRUE(driver_->attach(*loop_));
    EXPECT_TRUE(driver_->listen(IpService{kServer}));
    fake_.faults = faults;
  }

  void act() {
    now_ += random_.below(30 * kMicrosecond);
    for (std::uint64_t i = random_.below(8); i > 0; --i) fake_.step();
    switch (random_.below(12)) {
      case 0:
        fake_.request();
        break;
      case 1:
        connect();
        break;
      case 2:
        if (const auto id = some()) driver_->disconnect(*id, "", now_);
        break;
      case 3:
        if (const auto id = some(); id && waiting_.erase(*id) > 0) answer(*id);
        break;
      default:
        if (const auto id = some()) carry_out(*id);
    }
    turn();
  }
  void remove_device() { fake_.remove_device(); }

  /// Ends all. Faults of posting end first: a receive that is refused is posted the next time.
  void end() {
    driver_->disconnect_all(now_);
    for (int i = 0; i < 4000 && driver_->connection_count() > 0; ++i) {
      fake_.step();
      now_ += 20 * kMillisecond;
      turn();
    }
    EXPECT_EQ(driver_->connection_count(), 0u);
    EXPECT_TRUE(known_.empty()) << "on_end is missing";
    EXPECT_EQ(driver_->receives().lent(), 0u);
    EXPECT_EQ(driver_->receives().mistakes(), 0u);
    fake_.faults = {};
    now_ += kSecond;
    turn();
    EXPECT_EQ(driver_->receives().posted(), driver_->receives().count());
    driver_->detach(*loop_);
    driver_.reset();
    EXPECT_EQ(fake_.objects_left(), "");
    EXPECT_EQ(fake_.violations(), std::vector<std::string>{});
  }
  std::uint64_t tags_given_back() const { return given_back_; }
  std::uint64_t messages() const { return messages_; }

 private:
  struct Known {
    std::deque<std::pair<Tag, const std::byte*>> out;  // In the order of posting.
    std::vector<ReceiveId> kept;
  };

  void turn() {
    loop_->turn(0);
    loop_->turn(0);
  }
  std::optional<ConnectionId> some() {
    if (known_.empty()) return std::nullopt;
    return std::next(known_.begin(), static_cast<long>(random_.below(known_.size())))->first;
  }
  void connect() {
    const auto id = driver_->connect(IpService{kServer}, {.sizes = sizes()});
    if (!id) return;
    EXPECT_TRUE(known_.emplace(*id, Known{}).second);
  }
  QueueSizes sizes() {
    return {.sends = static_cast<std::uint32_t>(random_.between(1, 8)), .send_slices = 2};
  }
  void answer(ConnectionId id) {
    if (random_.below(4) == 0) return driver_->reject(id);
    static_cast<void>(driver_->accept(id, sizes()));
  }
  std::span<const Slice> slices(std::size_t count) {
    auto& made = slices_.emplace_back();
    for (; count > 0; --count) made.push_back({&memory_[next_byte_++ % memory_.size()], 1});
    return made;
  }
  void carry_out(ConnectionId id) {
    WorkList work;
    add_work(id, work);
    driver_->carry_out(id, work, now_);
  }
  /// Only what is posted to a connection that has a queue pair comes back.
  void add_work(ConnectionId id, WorkList& work) {
    if (driver_->connection(id) == nullptr) return;
    Known& known = known_.at(id);
    for (std::uint64_t i = random_.below(4); i > 0; --i) {
      const bool tagged = random_.below(2) == 0;
      const Tag tag = tagged ? Tag{++last_tag_} : kNoTag;
      const auto some_slices = slices(random_.between(1, 5));
      switch (random_.below(4)) {
        case 0:
          work.push(Write{.from = some_slices, .done = tag});
          break;
        case 1:
          work.push(Read{.into = some_slices, .done = tag});
          break;
        default:
          work.push(Send{.header = ByteSpan(header_).first(random_.below(header_.size())),
                         .payload = some_slices.first(1),
                         .done = tag});
      }
      if (tagged) {
        const bool is_send = std::holds_alternative<Send>(work.back());
        known.out.emplace_back(tag, is_send ? some_slices.front().data : some_slices.back().data);
      }
    }
    if (random_.below(3) == 0 && !known.kept.empty()) {
      work.push(PostAgain{known.kept.back()});
      known.kept.pop_back();
    }
    if (random_.below(100) == 0) work.push(Disconnect{"enough"});
  }

  void on_requested(const Requested& requested, TimeNs) override {
    EXPECT_TRUE(known_.emplace(requested.connection, Known{}).second);
    if (random_.below(4) == 0) {
      waiting_.insert(requested.connection);
    } else {
      answer(requested.connection);
    }
  }
  void on_established(const Established& established, TimeNs, WorkList& work) override {
    EXPECT_TRUE(known_.contains(established.connection));
    add_work(established.connection, work);
  }
  ReceiveUse on_message(ConnectionId id, const Message& message, TimeNs, WorkList& work) override {
    ++messages_;
    EXPECT_TRUE(known_.contains(id)) << "a message after the end";
    add_work(id, work);
    if (random_.below(3) > 0) return ReceiveUse::done;
    known_.at(id).kept.push_back(message.receive);
    return ReceiveUse::kept;
  }
  void on_done(ConnectionId id, Tag tag, CompletionStatus, TimeNs, WorkList& work) override {
    ASSERT_TRUE(known_.contains(id)) << "a tag after the end";
    auto& out = known_.at(id).out;
    ASSERT_FALSE(out.empty()) << "a tag twice";
    EXPECT_EQ(out.front().first, tag) << "out of order";
    EXPECT_FALSE(fake_.uses(out.front().second)) << "the adapter has the bytes still";
    out.pop_front();
    ++given_back_;
    if (random_.below(2) == 0) add_work(id, work);
  }
  void on_end(ConnectionId id, const End&, TimeNs) override {
    ASSERT_TRUE(known_.contains(id)) << "an end twice";
    EXPECT_EQ(known_.at(id).out.size(), 0u) << "tags that have not come back";
    for (const ReceiveId receive : known_.at(id).kept) driver_->post_again(receive);
    known_.erase(id);
    waiting_.erase(id);
  }

  FakeAdapter fake_;
  sim::Random random_;
  TimeNs now_ = kSecond;
  std::unique_ptr<service::Loop> loop_;
  std::unique_ptr<Driver> driver_;
  std::map<ConnectionId, Known> known_;
  std::set<ConnectionId> waiting_;  // For an answer.
  std::deque<std::vector<Slice>> slices_;
  std::array<std::byte, 1 << 16> memory_{};
  std::array<std::byte, 120> header_{};
  std::size_t next_byte_ = 0;
  std::uint32_t last_tag_ = 0;
  std::uint64_t given_back_ = 0, messages_ = 0;
};

constexpr Faults kFaults{.post_refused = 3,
                         .queue_pair_refused = 50,
                         .call_refused = 50,
                         .not_connected = 100,
                         .work_fails = 10,
                         .peer_ends = 20,
                         .event_twice = 500,
                         .event_lost = 100,
                         .resize_refused = 100};

TEST(Driver, EveryLoanComesBackOnceAndTheEndIsQuiet) {
  std::uint64_t tags = 0, messages = 0;
  for (std::uint64_t seed = 1; seed <= 60 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    World world(seed, kFaults);
    for (int i = 0; i < 1500; ++i) world.act();
    world.end();
    tags += world.tags_given_back();
    messages += world.messages();
  }
  EXPECT_GT(tags, 10'000u);  // The world does something.
  EXPECT_GT(messages, 10'000u);
}

TEST(Driver, TheSameWhereTheDeviceIsRemoved) {
  for (std::uint64_t seed = 1; seed <= 40 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    World world(seed, kFaults);
    for (int i = 0; i < 400; ++i) world.act();
    world.remove_device();
    for (int i = 0; i < 100; ++i) world.act();
    world.end();
  }
}

TEST(Driver, TheSameWithoutFaults) {
  for (std::uint64_t seed = 1; seed <= 20 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    World world(seed, {});
    for (int i = 0; i < 1500; ++i) world.act();
    world.end();
  }
}

}  // namespace
}  // namespace verbatim::ulp::rdma
