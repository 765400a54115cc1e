#include "ulp/disk/disk.h"

#include <array>
#include <cerrno>

#include <gtest/gtest.h>

namespace verbatim::ulp::disk {
namespace {

using storage::Channel;
using Kind = Ask::Kind;

/// A session that the test answers for.
class FakeSession final : public storage::Initiator {
 public:
  explicit FakeSession(FakeSession*& self) : self_(self) { self = this; }
  ~FakeSession() override { self_ = nullptr; }
  void begin(TimeNs, storage::InitiatorOutput& out) override { out.connect.push({}); }
  void on_established(Channel, ByteSpan, TimeNs, storage::InitiatorOutput&) override {
    is_there = true;
  }
  /// Answers what has come first; its error is the message's length.
  ReceiveUse on_message(Channel, const Message& message, TimeNs,
                        storage::InitiatorOutput& out) override {
    out.answers.push({requests.front().user, static_cast<int>(message.memory.bytes)});
    requests.erase(requests.begin());
    return ReceiveUse::done;
  }
  void on_done(Channel, Tag, CompletionStatus, TimeNs, storage::InitiatorOutput&) override {}
  bool on_request(const storage::DiskRequest& request, TimeNs, storage::InitiatorOutput&) override {
    if (requests.size() == 3) return false;
    requests.push_back(request);
    return true;
  }
  void on_time(TimeNs, storage::InitiatorOutput&) override {}
  TimeNs deadline() const override { return kNever; }
  void resume(TimeNs, storage::InitiatorOutput&) override {}
  void log_out(TimeNs, storage::InitiatorOutput& out) override {
    out.on(Channel{0}).push(Disconnect{""});
  }
  storage::Failure on_rejected(Channel, int reason, ByteSpan) override {
    return {"rejected", reason == 28};
  }
  storage::PathState path_state() const override { return state; }
  const storage::DiskFacts* facts() const override { return is_there ? &known : nullptr; }
  const storage::Failure* failure() const override { return nullptr; }

  std::vector<storage::DiskRequest> requests;
  storage::DiskFacts known{.bytes = 1 << 20, .transfer_bytes_max = 4096, .clear_bytes_max = 8192};
  bool is_there = false;
  storage::PathState state{};

 private:
  FakeSession*& self_;
};

constexpr PathChannel kFirst{0, Channel{0}};

class DiskTest : public testing::Test, public Outside {
 protected:
  void connect(std::uint32_t, const storage::ConnectRequest&) override { ++connects_; }
  void carry_out(PathChannel, std::span<const Work>) override {}
  void disconnect(PathChannel) override { ++disconnects_; }
  void on_answered(Ask& ask) override { ask.is_answered = true; }
  void tell(const std::string& line) override { told_ += line + "\n"; }

  Disk::Settings settings() {
    std::vector<storage::PeerMemory> buffers;
    for (std::uint32_t i = 0; i < 4; ++i)
      buffers.push_back({{memory_.data() + i * 4096, 4096, MemoryKey{1}}, MemoryKey{2}});
    return {.new_sessions = {[this] { return std::make_unique<FakeSession>(session_); }},
            .buffers = std::move(buffers)};
  }
  void log_in() { disk_.on_established(kFirst, {}, now_); }
  /// The first request's answer.
  void answer(int error = 0) {
    disk_.on_message(kFirst, {.memory = {nullptr, static_cast<std::uint32_t>(error), {}}}, now_);
  }
  void pass(TimeNs time) {
    now_ += time;
    if (disk_.deadline() <= now_) disk_.on_time(now_);
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(4 * 4096);
  FakeSession* session_ = nullptr;
  int connects_ = 0, disconnects_ = 0;
  std::string told_;
  TimeNs now_ = kSecond;
  Disk disk_{settings(), *this};
};

TEST_F(DiskTest, RequestsAreCutIntoPieces) {
  disk_.begin(now_);
  log_in();
  std::vector<std::byte> data(10240, std::byte{7});
  Ask ask{.kind = Kind::write, .offset = 512, .bytes = data.size(), .data = data.data()};
  disk_.ask(ask, now_);
  ASSERT_EQ(session_->requests.size(), 3u);
  EXPECT_EQ(session_->requests[2].offset, 512u + 8192);
  EXPECT_EQ(session_->requests[2].bytes, 2048u);
  EXPECT_EQ(session_->requests[2].memory.data()[2047], std::byte{7});
  answer(), answer();
  EXPECT_FALSE(ask.is_answered);
  answer();
  EXPECT_TRUE(ask.is_answered);
  EXPECT_EQ(ask.error, 0);
}

TEST_F(DiskTest, RegisteredMemoryIsNotCopied) {
  disk_.begin(now_);
  log_in();
  std::vector<std::byte> data(8192);
  const storage::PeerMemory registered{{data.data(), 8192, MemoryKey{7}}, MemoryKey{8}};
  Ask ask{.kind = Kind::read, .bytes = 8192, .data = data.data(), .registered = &registered};
  disk_.ask(ask, now_);
  ASSERT_EQ(session_->requests.size(), 2u);
  const storage::PeerMemory& second = session_->requests[1].memory;
  EXPECT_EQ(second.here, (Slice{data.data() + 4096, 4096, MemoryKey{7}}));
  EXPECT_EQ(second.remote_key, MemoryKey{8});
  memory_.assign(memory_.size(), std::byte{1});
  answer(), answer();
  EXPECT_TRUE(ask.is_answered);
  EXPECT_EQ(data, std::vector<std::byte>(8192)) << "a buffer was copied";
}

TEST_F(DiskTest, AnErrorIsTheRequestsAndEndsIt) {
  disk_.begin(now_);
  log_in();
  std::vector<std::byte> data(40960);
  Ask ask{.kind = Kind::read, .bytes = data.size(), .data = data.data()};
  disk_.ask(ask, now_);
  answer(ENOSPC);
  while (!session_->requests.empty()) answer();
  EXPECT_TRUE(ask.is_answered);
  EXPECT_EQ(ask.error, ENOSPC);
  EXPECT_EQ(disk_.open(), 0u);
}

TEST_F(DiskTest, ABusyTargetIsAskedAgain) {
  disk_.begin(now_);
  log_in();
  Ask ask{.kind = Kind::flush};
  disk_.ask(ask, now_);
  answer(EAGAIN);
  EXPECT_TRUE(session_->requests.empty());
  pass(100 * kMillisecond);
  ASSERT_EQ(session_->requests.size(), 1u);
  for (int i = 0; i < 2000 && !ask.is_answered; ++i) {
    if (!session_->requests.empty()) answer(EAGAIN);
    pass(100 * kMillisecond);
  }
  EXPECT_EQ(ask.error, EIO);  // At last.
}

TEST_F(DiskTest, WhatIsNoRequestIsRefused) {
  disk_.begin(now_);
  log_in();
  const auto error = [&](Kind kind, std::uint64_t offset, std::uint64_t bytes) {
    Ask ask{.kind = kind, .offset = offset, .bytes = bytes};
    disk_.ask(ask, now_);
    return ask.is_answered ? ask.error : -1;
  };
  EXPECT_EQ(error(Kind::read, 100, 512), EINVAL);
  EXPECT_EQ(error(Kind::read, 0, 100), EINVAL);
  EXPECT_EQ(error(Kind::write, 1 << 20, 512), EINVAL);
  EXPECT_EQ(error(Kind::write, ~std::uint64_t{511}, 1024), EINVAL);
  EXPECT_EQ(error(Kind::read, 0, 0), 0);
}

TEST_F(DiskTest, ALostTargetIsWaitedForButNotForEver) {
  disk_.begin(now_);
  log_in();
  Ask ask{.kind = Kind::flush}, second{.kind = Kind::flush}, third{.kind = Kind::flush};
  disk_.ask(ask, now_);
  disk_.on_end(kFirst, "cable", now_);
  EXPECT_EQ(told_, "the target is lost, and waited for: cable\n");
  pass(0);
  EXPECT_EQ(connects_, 2);
  log_in();
  ASSERT_EQ(session_->requests.size(), 1u);  // Again.
  answer();
  EXPECT_EQ(ask.error, 0);
  EXPECT_TRUE(ask.is_answered);

  disk_.on_end(kFirst, "cable", now_);
  disk_.ask(second, now_);
  for (int i = 0; i < 121; ++i) {
    pass(kSecond);
    disk_.on_end(kFirst, "cable", now_);
  }
  EXPECT_TRUE(second.is_answered);
  EXPECT_EQ(second.error, EIO);
  pass(kSecond);
  log_in();  // It is back.
  disk_.ask(third, now_);
  answer();
  EXPECT_EQ(third.error, 0);
}

TEST_F(DiskTest, TheFirstLoginsFailureIsSaid) {
  disk_.begin(now_);
  disk_.on_rejected(kFirst, 28, {}, now_);
  ASSERT_NE(disk_.refusal(), nullptr);
  EXPECT_EQ(*disk_.refusal(), "rejected");
}

TEST_F(DiskTest, TheFirstLoginIsTriedForAWhile) {
  disk_.begin(now_);
  disk_.on_rejected(kFirst, 1, {}, now_);
  EXPECT_EQ(disk_.refusal(), nullptr);
  for (int i = 0; i < 6; ++i) {
    pass(kSecond);
    disk_.on_end(kFirst, "no way", now_);
  }
  EXPECT_NE(disk_.refusal(), nullptr);
}

TEST_F(DiskTest, AnotherDiskIsNotServed) {
  disk_.begin(now_);
  log_in();
  disk_.on_end(kFirst, "cable", now_);
  pass(0);
  session_->known.bytes = 1 << 19;
  log_in();
  EXPECT_EQ(disconnects_, 1);
  EXPECT_EQ(disk_.words(),
            "the disk has 524288 bytes in blocks of 512 now: it had 1048576 in blocks of 512");
  disk_.on_end(kFirst, "", now_);
  EXPECT_FALSE(disk_.is_there());
}

/// A disk with two paths, each with buffers enough.
class PathsTest : public testing::Test, public Outside {
 protected:
  void connect(std::uint32_t, const storage::ConnectRequest&) override {}
  void carry_out(PathChannel, std::span<const Work>) override {}
  void disconnect(PathChannel at) override { disconnected_.push_back(at.path); }
  void on_answered(Ask& ask) override { ask.is_answered = true; }
  void tell(const std::string& line) override { told_ += line + "\n"; }

  Disk::Settings settings() {
    Disk::Settings settings;
    for (FakeSession*& session : sessions_)
      settings.new_sessions.push_back([&session] {
        auto made = std::make_unique<FakeSession>(session);
        made->known.identity = "one";
        return made;
      });
    for (std::uint32_t i = 0; i < 8; ++i)
      settings.buffers.push_back({{memory_.data() + i * 4096, 4096, MemoryKey{1}}, MemoryKey{2}});
    return settings;
  }
  void log_in(std::uint32_t path) { disk_.on_established({path, Channel{0}}, {}, now_); }
  void begin() {
    disk_.begin(now_);
    log_in(0), log_in(1);
  }
  void answer(std::uint32_t path) { disk_.on_message({path, Channel{0}}, {}, now_); }
  /// An input that changes nothing but what the session says.
  void answer_nothing() { disk_.on_done({1, Channel{0}}, kNoTag, CompletionStatus::success, now_); }
  void lose(std::uint32_t path) { disk_.on_end({path, Channel{0}}, "cable", now_); }
  void pass(TimeNs time) {
    now_ += time;
    if (disk_.deadline() <= now_) disk_.on_time(now_);
  }
  std::size_t open(std::uint32_t path) const { return sessions_[path]->requests.size(); }
  void write(Ask& ask, std::uint64_t offset) {
    ask.kind = Kind::write;
    ask.offset = offset, ask.bytes = 512, ask.data = data_.data();
    disk_.ask(ask, now_);
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(8 * 4096);
  std::vector<std::byte> data_ = std::vector<std::byte>(512);
  std::array<FakeSession*, 2> sessions_{};
  std::vector<std::uint32_t> disconnected_;
  std::string told_;
  TimeNs now_ = kSecond;
  Disk disk_{settings(), *this};
};

TEST_F(PathsTest, RequestsGoByGoodPathsInTurn) {
  begin();
  std::array<Ask, 4> asks;
  for (Ask& ask : asks) write(ask, 0);
  EXPECT_EQ(open(0), 2u);
  EXPECT_EQ(open(1), 2u);
}

TEST_F(PathsTest, ABetterPathIsTakenAlone) {
  begin();
  sessions_[0]->state = storage::PathState::non_optimized;
  std::array<Ask, 3> asks;
  write(asks[0], 0), write(asks[1], 0);
  EXPECT_EQ(open(1), 2u);
  sessions_[1]->state = storage::PathState::none;
  write(asks[2], 0);
  EXPECT_EQ(open(0), 1u);
}

TEST_F(PathsTest, WhatALostPathHadIsRepeatedAtOnceByTheOther) {
  begin();
  std::array<Ask, 2> asks;
  write(asks[0], 0), write(asks[1], 4096);
  lose(0);
  EXPECT_EQ(open(1), 2u);
  EXPECT_EQ(told_, "path 1 is lost, and another one taken: cable\n");
  answer(1), answer(1);
  EXPECT_TRUE(asks[0].is_answered && asks[1].is_answered);
  pass(0);
  log_in(0);
  Ask third, fourth;
  write(third, 8192), write(fourth, 8192);
  EXPECT_EQ(open(0), 1u) << "it is used again";
}

TEST_F(PathsTest, BytesThatALostPathWasWritingAreWrittenAnewLater) {
  begin();
  Ask first, second, read{.kind = Kind::read, .bytes = 512, .data = data_.data()}, other;
  write(first, 0);
  ASSERT_EQ(open(0), 1u);
  lose(0);
  answer(1);
  EXPECT_TRUE(first.is_answered);
  write(second, 0);
  EXPECT_EQ(open(1), 0u) << "the target may still write what the lost path has brought";
  disk_.ask(read, now_), write(other, 512);
  EXPECT_EQ(open(1), 2u) << "what does not write there need not wait";
  answer(1), answer(1);
  for (int i = 0; i < 149; ++i) pass(100 * kMillisecond);
  EXPECT_EQ(open(1), 0u);
  pass(100 * kMillisecond);
  EXPECT_EQ(open(1), 1u);
}

TEST_F(PathsTest, APathToAnotherDiskIsNotTaken) {
  disk_.begin(now_);
  log_in(0);
  sessions_[1]->known.identity = "two";
  log_in(1);
  EXPECT_EQ(disconnected_, std::vector<std::uint32_t>{1});
  EXPECT_EQ(disk_.path_facts(1).words, "it leads to disk two: another path leads to one");
  disk_.on_end({1, Channel{0}}, "", now_);
  EXPECT_EQ(disk_.path_facts(1).words, "it leads to disk two: another path leads to one");
  std::array<Ask, 2> asks;
  for (Ask& ask : asks) write(ask, 0);
  EXPECT_EQ(open(0), 2u);
}

TEST_F(PathsTest, APathThatWasNotThereAtFirstIsTakenLater) {
  disk_.begin(now_);
  disk_.on_rejected({1, Channel{0}}, 28, {}, now_);
  EXPECT_EQ(disk_.refusal(), nullptr);
  log_in(0);
  pass(0);
  log_in(1);
  EXPECT_TRUE(disk_.path_facts(1).is_there);
}

TEST_F(PathsTest, ADiskThatNoPathMayReachIsWaitedFor) {
  begin();
  Ask ask;
  for (FakeSession* const session : sessions_) session->state = storage::PathState::none;
  pass(0);
  write(ask, 0);
  EXPECT_EQ(open(0) + open(1), 0u);
  answer_nothing();
  EXPECT_FALSE(disk_.is_there());
  sessions_[1]->state = storage::PathState::non_optimized;
  answer_nothing();
  EXPECT_EQ(open(1), 1u);
  EXPECT_EQ(told_,
            "the target is lost, and waited for: the target lets no path reach it\n"
            "the target is back\n");
}

}  // namespace
}  // namespace verbatim::ulp::disk
