#include "ulp/srp/initiator/initiator.h"

#include <cerrno>

#include <gtest/gtest.h>

#include "ulp/srp/initiator/add_target_line.h"
#include "ulp/srp/initiator/pair_for_test.h"

namespace verbatim::ulp::srp {
namespace {

using Kind = storage::DiskRequest::Kind;

std::vector<std::byte> pattern(std::size_t bytes, std::uint8_t first) {
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i) made[i] = static_cast<std::byte>(first + i / 7);
  return made;
}

class SrpInitiator : public testing::Test {
 protected:
  void log_in(const InitiatorSettings& settings = Pair::usual()) {
    pair = std::make_unique<Pair>(target, settings);
    pair->settle();
    pair->sent.clear();
  }
  int ask(storage::DiskRequest request) {
    request.user = Tag{++user};
    EXPECT_TRUE(pair->request(request));
    pair->settle();
    EXPECT_FALSE(pair->answers.empty());
    if (pair->answers.empty()) return -1;
    const auto answer = pair->answers.back();
    pair->answers.clear();
    EXPECT_EQ(answer.user, Tag{user});
    return answer.error;
  }
  int write(std::uint64_t offset, std::vector<std::byte>& data) {
    return ask({.kind = Kind::write,
                .offset = offset,
                .bytes = data.size(),
                .memory = Pair::memory_of(data)});
  }
  int read(std::uint64_t offset, std::vector<std::byte>& data) {
    return ask({.kind = Kind::read,
                .offset = offset,
                .bytes = data.size(),
                .memory = Pair::memory_of(data)});
  }

  TargetBench target;
  std::unique_ptr<Pair> pair;
  std::uint32_t user = 0;
};

TEST_F(SrpInitiator, LogsInAndAsksTheUnit) {
  for (const LoginForm form : {LoginForm::rdma_cm, LoginForm::infiniband_cm}) {
    InitiatorSettings settings = Pair::usual();
    settings.form = form;
    log_in(settings);
    const auto* const facts = pair->initiator->facts();
    ASSERT_NE(facts, nullptr);
    EXPECT_EQ(facts->bytes, 1000 * kBlock);
    EXPECT_EQ(facts->requests_max, 7u);  // Of the target's 8 one is for an abort.
    EXPECT_EQ(facts->transfer_bytes_max, 1u << 20);
    pair.reset();
  }
}

TEST_F(SrpInitiator, WritesAreRead) {
  log_in();
  for (const std::size_t bytes : {std::size_t{512}, std::size_t{8192}, std::size_t{8704}}) {
    auto sent = pattern(bytes, static_cast<std::uint8_t>(bytes / 100));
    EXPECT_EQ(write(1024, sent), 0);
    std::vector<std::byte> found(bytes);
    EXPECT_EQ(read(1024, found), 0);
    EXPECT_EQ(found, sent);
  }
  // Opcode, formats, operation: short writes carry their data.
  EXPECT_EQ(pair->sent,
            (std::vector<std::string>{"02308a", "020188", "02308a", "020188", "02108a", "020188"}));
  EXPECT_EQ(ask({.kind = Kind::flush}), 0);
  EXPECT_EQ(ask({.kind = Kind::write_zeroes, .offset = 1024, .bytes = 8704}), 0);
  std::vector<std::byte> found = pattern(8704, 1);
  EXPECT_EQ(read(1024, found), 0);
  EXPECT_EQ(found, std::vector<std::byte>(8704));
}

TEST_F(SrpInitiator, DescriptorsAreIndirectIfNothingElseIsKnown) {
  InitiatorSettings settings = Pair::usual();
  settings.formats = kIndirectFormat;
  log_in(settings);
  auto sent = pattern(16384, 3);
  EXPECT_EQ(write(0, sent), 0);
  std::vector<std::byte> found(16384);
  EXPECT_EQ(read(0, found), 0);
  EXPECT_EQ(found, sent);
  EXPECT_EQ(pair->sent, (std::vector<std::string>{"02208a", "020288"}));
}

TEST_F(SrpInitiator, LeavesACreditForAnAbort) {
  log_in();
  std::vector<std::byte> data(512);
  const storage::DiskRequest request{
      .kind = Kind::read, .bytes = 512, .memory = Pair::memory_of(data), .user = Tag{1}};
  for (int i = 0; i < 7; ++i) EXPECT_TRUE(pair->request(request));
  EXPECT_FALSE(pair->request(request));
  pair->settle();
  EXPECT_EQ(pair->answers.size(), 7u);
  EXPECT_TRUE(pair->request(request));
  pair->settle();
}

TEST_F(SrpInitiator, WhatIsOutsideIsRefused) {
  log_in();
  std::vector<std::byte> data(1024);
  EXPECT_EQ(read(999 * kBlock, data), EINVAL);
}

TEST_F(SrpInitiator, WhatIsNotAnsweredIsAbortedAndSentAgain) {
  log_in();
  auto sent = pattern(16384, 9);
  EXPECT_TRUE(pair->request({.kind = Kind::write,
                             .bytes = sent.size(),
                             .memory = Pair::memory_of(sent),
                             .user = Tag{4}}));
  pair->settle(true);
  EXPECT_EQ(pair->initiator->deadline(), 30 * kSecond);
  pair->pass(30 * kSecond);
  EXPECT_EQ(pair->sent, (std::vector<std::string>{"02108a", "010000"}));  // ABORT TASK
  pair->settle(true);
  EXPECT_EQ(pair->sent.back(), "010000");  // A task that the store has is aborted when it is back.
  pair->settle();
  // Then nothing is under way, and the report of port groups is asked for.
  EXPECT_EQ(*(pair->sent.end() - 2), "02108a");
  EXPECT_EQ(pair->sent.back(), "0201a3");
  ASSERT_EQ(pair->answers.size(), 1u);
  EXPECT_EQ(pair->answers[0].error, 0);
}

TEST_F(SrpInitiator, ATargetThatAnswersNothingEndsTheSession) {
  log_in();
  std::vector<std::byte> data(512);
  EXPECT_TRUE(pair->request(
      {.kind = Kind::read, .bytes = 512, .memory = Pair::memory_of(data), .user = Tag{4}}));
  for (const TimeNs time : {30 * kSecond, 5 * kSecond, 5 * kSecond}) {
    EXPECT_FALSE(pair->has_ended);
    const bool is_resetting = pair->sent.size() == 5;
    EXPECT_EQ(pair->request({.kind = Kind::flush, .user = Tag{5}}), !is_resetting)
        << "what is sent behind a reset would be repeated after it, and done twice";
    pair->pass(time);
  }
  // Abort, reset.
  EXPECT_EQ(pair->sent,
            (std::vector<std::string>{"020188", "020091", "010000", "020091", "010000"}));
  EXPECT_EQ(pair->initiators_end, "the target answers no task management");
  ASSERT_NE(pair->initiator->failure(), nullptr);
  EXPECT_FALSE(pair->initiator->failure()->is_final);
  EXPECT_FALSE(pair->request({.kind = Kind::flush, .user = Tag{5}}));
  EXPECT_EQ(pair->initiator->deadline(), kNever);
}

TEST_F(SrpInitiator, RefusalsHaveBothSidesValues) {
  InitiatorSettings stranger = Pair::usual();
  stranger.initiator = port_id(9);
  log_in(stranger);
  ASSERT_TRUE(pair->rejected);
  EXPECT_EQ(pair->rejected->words,
            "the target rejects the login of 0x00000000000000000000000000000009 to "
            "0x00000000000000000000000000000002, 8260 bytes a message: it does not admit this "
            "initiator, or has too many channels (reason 0x10006)");
  EXPECT_TRUE(pair->rejected->is_final);
  const auto nobody = pair->initiator->on_rejected({}, 8, {});
  EXPECT_EQ(nobody.words, "the connection was rejected (reason 8: nobody listens there)");
  EXPECT_FALSE(nobody.is_final);
}

TEST_F(SrpInitiator, MessagesThatAreNoTargetsEndTheSession) {
  const struct {
    std::vector<std::byte> message;
    const char* words;
  } rows[] = {
      {std::vector<std::byte>(8), "the target sends 8 bytes: the shortest message has 16"},
      {std::vector<std::byte>(48, std::byte{0x02}), "a message of type 0x02 is no target's"},
      {std::vector<std::byte>(20, std::byte{0xc1}), "a response of 20 bytes says that it has more"},
      {std::vector<std::byte>(16, std::byte{0x80}),
       "the target ends the session (SRP_T_LOGOUT, reason 0x80808080)"}};
  for (const auto& row : rows) {
    log_in();
    auto bytes = row.message;
    storage::InitiatorOutput out;
    pair->initiator->on_message(
        {}, {.memory = {bytes.data(), static_cast<std::uint32_t>(bytes.size()), {}}}, 0, out);
    ASSERT_NE(pair->initiator->failure(), nullptr);
    EXPECT_EQ(pair->initiator->failure()->words, row.words);
    pair.reset();
  }
}

TEST_F(SrpInitiator, AnswersWhatTheTargetAsks) {
  log_in();
  for (const auto& [asked, answered] : {std::pair{Opcode::credit_request, Opcode::credit_response},
                                        std::pair{Opcode::event_request, Opcode::event_response}}) {
    const ResponseBytes message = encode_request(asked, 3, 77);
    std::vector<std::byte> bytes(message.begin(), message.end());
    storage::InitiatorOutput out;
    pair->initiator->on_message(
        {}, {.memory = {bytes.data(), static_cast<std::uint32_t>(bytes.size()), {}}}, 0, out);
    ASSERT_EQ(out.on({}).size(), 1u);
    const auto& send = std::get<Send>(out.on({})[0]);
    EXPECT_EQ(opcode_of(send.header), answered);
    EXPECT_EQ(tag_of(send.header), 77u);
  }
}

/// Two places, each a region of its own; the store, messages and work are late by seed; the
/// connection is cut, and a store is stuck until its command is aborted.
class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) { log_in(); }
  void run(int wanted) {
    for (int steps = 0; over_ < wanted && steps < 400 * wanted; ++steps) {
      step();
      ASSERT_FALSE(testing::Test::HasFailure());
    }
    EXPECT_GE(over_, wanted);
    pair_->cut();
  }

 private:
  static constexpr std::uint32_t kPlaces = 6, kPlaceBlocks = 40;
  struct Place {
    bool is_waiting = false, is_writing = false;
    std::vector<std::byte> memory, truth = std::vector<std::byte>(kPlaceBlocks * kBlock);
    bool is_unknown = true;  // A write may be there or not.
  };

  void log_in() {
    pair_.reset();
    pair_ = std::make_unique<Pair>(target_);
    ASSERT_FALSE(pair_->rejected);
    for (Place& place : places_) {
      if (!place.is_waiting) continue;
      place.is_waiting = false;
      place.is_unknown |= place.is_writing;
    }
  }
  void step() {
    using Part = Pair::Part;
    pair_->step(Part{static_cast<std::uint8_t>(random_.below(4))}, random_.below(100));
    pair_->pass(random_.below(500) == 0 ? 31 * kSecond : random_.below(10) * kMillisecond);
    for (const auto& answer : std::exchange(pair_->answers, {})) on_answer(answer);
    if (random_.below(700) == 0) {
      pair_->cut();
      log_in();
    } else if (pair_->has_ended) {
      EXPECT_EQ(pair_->targets_end, "");
      pair_->cut();
      log_in();
    }
    if (pair_->initiator->facts() != nullptr && random_.below(3) == 0)
      ask(static_cast<std::uint32_t>(random_.below(kPlaces)));
  }
  void ask(std::uint32_t number) {
    Place& place = places_[number];
    if (place.is_waiting) return;
    place.is_writing = place.is_unknown || random_.below(2) == 0;
    place.memory.resize(place.truth.size());
    for (std::byte& byte : place.memory)
      byte = place.is_writing ? static_cast<std::byte>(random_.below(256)) : std::byte{};
    place.is_waiting = pair_->request({.kind = place.is_writing ? Kind::write : Kind::read,
                                       .offset = std::uint64_t{number} * kPlaceBlocks * kBlock,
                                       .bytes = place.memory.size(),
                                       .memory = Pair::memory_of(place.memory),
                                       .user = Tag{number + 1}});
  }
  void on_answer(const storage::DiskAnswer& answer) {
    Place& place = places_[raw(answer.user) - 1];
    EXPECT_TRUE(place.is_waiting) << "answered twice";
    place.is_waiting = false;
    place.is_unknown |= place.is_writing;
    if (answer.error == EAGAIN) return;
    EXPECT_EQ(answer.error, 0);
    ++over_;
    place.is_unknown = false;
    if (place.is_writing) {
      place.truth = place.memory;
    } else {
      EXPECT_EQ(place.memory, place.truth);
    }
  }

  sim::Random random_;
  TargetBench target_;
  std::unique_ptr<Pair> pair_;
  std::array<Place, kPlaces> places_;
  int over_ = 0;
};

TEST(SrpInitiatorWorld, EveryByteByManySeeds) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    World(seed).run(150);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace verbatim::ulp::srp
