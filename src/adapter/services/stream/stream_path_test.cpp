#include <array>
#include <thread>

#include <poll.h>
#include <sys/socket.h>

#include "adapter/services/stream/stream_test_util.h"
#include "base/bytes.h"

/// The path chosen by two queue pairs over iWARP that could use the direct one.
namespace verbatim::adapter {
namespace {

constexpr MpaParameters kAgreement{.has_crc = false,
                                   .inbound_reads = 4,
                                   .outbound_reads = 4,
                                   .ready = MpaParameters::RtrMessage::read};

/// The test relays `left`'s first segment, and all that follows.
class StreamPath : public StreamPair {
 protected:
  /// The FPDU of an empty READ: length, DDP and RDMAP headers, CRC.
  using Invitation = std::array<std::byte, 2 + 18 + 28 + 4>;
  static constexpr std::size_t kLastOfNumber = 2 + 18 + 27;

  explicit StreamPath(TestNode::Path path = TestNode::Path::direct) : StreamPair(path) {}

  void start() {
    prepare(left);
    prepare(right);
    ASSERT_TRUE(start_stream(right, {.socket = std::move(there.passive), .agreement = kAgreement}));
    ASSERT_TRUE(start_stream(
        left, {.socket = std::move(here.active), .agreement = kAgreement, .is_initiator = true}));
    const auto got = recv(here.passive.get(), cookie.data(), cookie.size(), MSG_WAITALL);
    ASSERT_EQ(got, static_cast<ssize_t>(cookie.size()));
  }
  void hand_over() const {
    ASSERT_EQ(send(there.active.get(), cookie.data(), cookie.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(cookie.size()));
  }
  /// From now on the test relays whatever either side sends.
  void relay() {
    relay_ = std::jthread([this](const std::stop_token& stop) {
      std::array<pollfd, 2> ends{
          {{here.passive.get(), POLLIN, 0}, {there.active.get(), POLLIN, 0}}};
      while (!stop.stop_requested()) {
        if (poll(ends.data(), ends.size(), 5) <= 0) continue;
        for (std::size_t i = 0; i < ends.size(); ++i) {
          if (ends[i].revents != 0 && !pass_on(ends[i].fd, ends[1 - i].fd)) return;
        }
      }
    });
  }
  static bool pass_on(int from, int to) {
    std::array<std::byte, 4096> bytes;
    const auto got = recv(from, bytes.data(), bytes.size(), 0);
    return got > 0 && send(to, bytes.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) == got;
  }
  static bool is_sent_something(const UniqueFd& end) {
    pollfd one{end.get(), POLLIN, 0};
    return poll(&one, 1, 5000) == 1;
  }
  /// Takes what `left` says next. Returns true if that is an empty WRITE, by which an initiator
  /// that gets no answer repeats that it is ready.
  bool repeats_that_it_is_ready() const {
    constexpr std::size_t kHeaderBytes = 14;
    std::array<std::byte, 2 + kHeaderBytes + 4> said;
    const auto got = recv(here.passive.get(), said.data(), said.size(), MSG_WAITALL);
    return got == static_cast<ssize_t>(said.size()) &&
           load_be<std::uint16_t>(said.data()) == kHeaderBytes;
  }
  /// Each side sends one message, which the other one receives.
  void exchange() {
    for (auto [from, to] : {std::pair(&left, &right), std::pair(&right, &left)}) {
      receive(*to, 1000, 8);
      ASSERT_EQ(0, from->post(Operation::send, from->segment(0, 8)));
    }
    for (Side* const side : {&left, &right}) {
      EXPECT_EQ(Status::success, side->next().status);
      EXPECT_EQ(Status::success, side->next().status);
    }
  }
  /// Returns true if polls soon stop reading streams.
  static bool leaves_stream(const TestNode& node) {
    const TimeNs end = monotonic_now() + 5 * kSecond;
    while (node.adapter->progress().is_due() && monotonic_now() < end) std::this_thread::yield();
    return monotonic_now() < end;
  }
  /// Returns true if all its requests were executed beside its stream.
  static bool is_direct(const Side& side) {
    const std::uint32_t local_number = side.qp->number().value() % kProgramQueuePairsMax;
    const auto& sent = side.node.adapter->arena().queue_pair(local_number).direct_sent;
    return side.qp->query().dest_qpn.value() != 0 && sent.messages.value() == side.posted;
  }

  link::TcpPair here, there;
  Invitation cookie{};

 private:
  std::jthread relay_;
};

/// They do not give up waiting for each other, however late the test relays.
class PatientStreamPath : public StreamPath {
 protected:
  PatientStreamPath() : StreamPath(TestNode::Path::only_direct) {}
};

TEST_F(PatientStreamPath, OfOneMachineTheyGoPastTheStream) {
  start();
  hand_over();
  relay();
  exchange();
  EXPECT_TRUE(is_direct(left) && is_direct(right));
  move_bytes();
  EXPECT_TRUE(is_direct(left) && is_direct(right));
}

TEST_F(StreamPath, WhoGoesPastTheStreamLooksAtItNoMore) {
  connect(kAgreement);
  exchange();
  EXPECT_TRUE(leaves_stream(a));
  EXPECT_TRUE(leaves_stream(b));
}

TEST_F(StreamPath, AnInvitationOfAnotherNumberIsNone) {
  start();
  cookie[kLastOfNumber] ^= std::byte{1};
  hand_over();
  relay();
  exchange();
  EXPECT_FALSE(is_direct(left) || is_direct(right));
}

TEST_F(StreamPath, AnInvitationToAQueuePairThatDoesNotInviteIsNone) {
  start();
  Side stranger(a, QpType::rc);
  prepare(stranger);
  cookie[kLastOfNumber - 8] ^= std::byte(left.qp->number().value() ^ stranger.qp->number().value());
  hand_over();
  relay();
  exchange();
  EXPECT_FALSE(is_direct(left) || is_direct(right));
}

TEST_F(StreamPath, AnEndChoosesTheStreamAndInvitesNoMore) {
  start();
  ASSERT_EQ(0, left.post(Operation::send, left.segment(0, 8)));
  ASSERT_TRUE(left.qp->modify({.state = QpState::err}, kState));
  EXPECT_EQ(Status::success, left.next().status);
  EXPECT_TRUE(is_sent_something(here.passive));
  hand_over();
  receive(left, 0, 8);
  EXPECT_EQ(Status::flushed, left.next().status);
  ASSERT_EQ(0, right.post(Operation::send, right.segment(0, 8)));
  EXPECT_EQ(Status::success, right.next().status);
  EXPECT_TRUE(is_sent_something(there.active));
  EXPECT_FALSE(is_direct(right));
}

TEST_F(StreamPath, WhoCannotReachThePeerThatReachesItTakesTheStream) {
  start();
  hand_over();
  pollfd answer{there.active.get(), POLLIN, 0};
  ASSERT_EQ(1, poll(&answer, 1, 5000));
  TestNode::known().erase(right.qp->number().value() / kProgramQueuePairsMax);
  relay();
  exchange();
  EXPECT_TRUE(is_direct(right));
  move_bytes();
  EXPECT_FALSE(is_direct(left));
}

TEST_F(StreamPath, TheEndOfAPeerIsHeardWithoutRdmaCm) {
  connect(kAgreement);
  exchange();
  ASSERT_TRUE(leaves_stream(b));
  receive(right, 0, 8);
  ASSERT_TRUE(left.qp->modify({.state = QpState::err}, kState));
  EXPECT_EQ(Status::flushed, right.next().status);
  EXPECT_EQ(QpState::err, right.qp->query().state);
}

TEST_F(StreamPath, AConnectionThatIsOverReachesNoOther) {
  connect(kAgreement);
  exchange();
  // Makes it look as if a queue pair with the same number belonged to another peer.
  DirectTarget& target =
      b.adapter->arena().target(right.qp->number().value() % kProgramQueuePairsMax);
  {
    const TargetLock target_lock(target);
    target.peer_name.name.bytes[0] ^= 1;
  }
  receive(right, 1000, 8);
  ASSERT_EQ(0, left.post(Operation::send, left.segment(0, 8)));
  Completion none;
  EXPECT_EQ(0u, b.adapter->poll(*right.cq, std::span(&none, 1)));
}

TEST_F(PatientStreamPath, RequestsWaitForTheChoice) {
  start();
  receive(right, 1000, 8);
  ASSERT_EQ(0, left.post(Operation::write, left.segment(0, 8), &right, 0));
  ASSERT_EQ(0, left.post(Operation::send, left.segment(0, 8)));
  EXPECT_TRUE(repeats_that_it_is_ready());  // And has sent nothing before.
  hand_over();
  relay();
  EXPECT_EQ(Status::success, left.next().status);
  EXPECT_EQ(Status::success, left.next().status);
  EXPECT_EQ(Status::success, right.next().status);
  EXPECT_TRUE(is_direct(left) && is_direct(right));
}

TEST_F(StreamPath, ARefusedWriteHasSucceededAndEndsBoth) {
  connect(kAgreement);
  receive(right, 0, 8);
  right.key = MemoryKey{raw(right.key) ^ 0x100};
  ASSERT_EQ(0, left.post(Operation::write, left.segment(0, 8), &right, 0));
  right.key = MemoryKey{raw(right.key) ^ 0x100};
  EXPECT_EQ(Status::success, left.next().status);
  EXPECT_EQ(Status::flushed, right.next().status);
  receive(left, 0, 8);
  EXPECT_EQ(Status::flushed, left.next().status);
  EXPECT_EQ(QpState::err, left.qp->query().state);
}

}  // namespace
}  // namespace verbatim::adapter
