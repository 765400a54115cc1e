#include "mad/rmpp/rmpp_engine.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace verbatim::mad {
namespace {

using wire::MadClass;
using wire::MadHeader;
using wire::MadMethod;
using wire::RmppHeader;
using wire::RmppStatus;
using wire::RmppType;

constexpr std::size_t kSaHeader = 56;
constexpr std::size_t kSaData = 200;

RmppPeer peer(std::uint16_t lid) { return {.path = {.dlid = Lid{lid}}, .qpn = Qpn(1)}; }

/// A message of subnet administration with `data` bytes that depend on the transaction.
std::vector<std::byte> message(std::uint64_t transaction, std::size_t data,
                               MadMethod method = MadMethod::get_table_response) {
  std::vector<std::byte> bytes(kSaHeader + data);
  encode(MadHeader{.management_class = MadClass::subnet_administration,
                   .class_version = 2,
                   .method = method,
                   .transaction = transaction},
         std::span(bytes).first<MadHeader::kSize>());
  for (std::size_t i = 36; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(transaction * 31 + i * 7 + i / 256);
  }
  return bytes;
}

RmppHeader header_of(const RmppPacket& packet) { return wire::decode_rmpp_header(packet.mad); }
MadMethod method_of(const RmppPacket& packet) {
  return wire::decode_mad_header(packet.mad)->method;
}

/// A message arrives as it was sent, but for the RMPP header, which is that of its first segment.
bool is_same(ByteSpan got, ByteSpan sent) {
  return got.size() == sent.size() &&
         std::ranges::equal(got.first(MadHeader::kSize), sent.first(MadHeader::kSize)) &&
         std::ranges::equal(got.subspan(kRmppPayloadAt), sent.subspan(kRmppPayloadAt));
}

/// One end, and all that it has to send.
struct End {
  RmppEngine engine;
  std::vector<RmppPacket> packets(TimeNs now) {
    std::vector<RmppPacket> all;
    while (auto packet = engine.take_packet(now)) all.push_back(*packet);
    return all;
  }
  void take(const RmppPacket& packet, std::uint16_t from, TimeNs now) {
    engine.on_packet(peer(from), packet.mad, now);
  }
};

TEST(Rmpp, ShortMessageIsFirstAndLastSegment) {
  End sender;
  ASSERT_TRUE(sender.engine.send(peer(2), message(1, 112), {}));
  const auto packets = sender.packets(0);
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_EQ(header_of(packets[0]), (RmppHeader{.type = RmppType::data,
                                               .is_last = true,
                                               .is_first = true,
                                               .is_active = true,
                                               .segment = 1,
                                               .length = 20 + 112}));
}

/// As Linux: each segment's class header counts, the last one's padding does not.
TEST(Rmpp, LadderOfThreeSegments) {
  End sender;
  End receiver;
  const auto sent = message(1, 2 * kSaData + 56);
  ASSERT_TRUE(sender.engine.send(peer(2), sent, {}));
  auto packets = sender.packets(0);
  ASSERT_EQ(packets.size(), 1u);  // The window is 1 until the receiver says more.
  EXPECT_EQ(header_of(packets[0]).length, 3 * 220u - 144);
  receiver.take(packets[0], 1, 0);

  auto acks = receiver.packets(0);
  ASSERT_EQ(acks.size(), 1u);
  EXPECT_EQ(method_of(acks[0]), MadMethod::get_table);
  EXPECT_EQ(header_of(acks[0]).type, RmppType::ack);
  EXPECT_EQ(header_of(acks[0]).segment, 1u);
  EXPECT_EQ(header_of(acks[0]).length, 65u);
  sender.take(acks[0], 2, 0);

  packets = sender.packets(0);
  ASSERT_EQ(packets.size(), 2u);
  EXPECT_EQ(header_of(packets[0]).length, 0u);
  EXPECT_TRUE(header_of(packets[1]).is_last);
  EXPECT_EQ(header_of(packets[1]).length, 220u - 144);
  for (const auto& packet : packets) receiver.take(packet, 1, 0);
  const auto got = receiver.engine.take_message();
  ASSERT_TRUE(got);
  EXPECT_TRUE(is_same(got->bytes, sent));

  acks = receiver.packets(0);
  ASSERT_EQ(acks.size(), 1u);
  sender.take(acks[0], 2, 0);
  EXPECT_EQ(sender.engine.take_finished()->status, RmppStatus::normal);
  EXPECT_EQ(sender.engine.deadline(), kNever);
}

TEST(Rmpp, AcknowledgesEachWindow) {
  End sender;
  End receiver;
  ASSERT_TRUE(sender.engine.send(peer(2), message(1, 140 * kSaData), {}));
  std::vector<std::uint32_t> acknowledged;
  for (auto packets = sender.packets(0); !packets.empty(); packets = sender.packets(0)) {
    for (const auto& packet : packets) receiver.take(packet, 1, 0);
    for (const auto& ack : receiver.packets(0)) {
      acknowledged.push_back(header_of(ack).segment);
      sender.take(ack, 2, 0);
    }
  }
  EXPECT_EQ(acknowledged, (std::vector<std::uint32_t>{1, 65, 129, 140}));
}

TEST(Rmpp, LostAcknowledgementIsRepeatedForTheDuplicate) {
  End sender;
  End receiver;
  ASSERT_TRUE(sender.engine.send(peer(2), message(1, 8), {.ack_timeout = kSecond, .retries = 1}));
  receiver.take(sender.packets(0)[0], 1, 0);
  ASSERT_TRUE(receiver.engine.take_message());
  receiver.packets(0);  // Lost.
  EXPECT_EQ(sender.engine.deadline(), kSecond);
  sender.engine.on_time(kSecond);
  receiver.take(sender.packets(kSecond)[0], 1, kSecond);
  EXPECT_FALSE(receiver.engine.take_message());
  sender.take(receiver.packets(kSecond)[0], 2, kSecond);
  EXPECT_EQ(sender.engine.take_finished()->status, RmppStatus::normal);
}

TEST(Rmpp, SilentPeerEndsWithRetries) {
  End sender;
  ASSERT_TRUE(sender.engine.send(peer(2), message(7, 8), {.ack_timeout = kSecond, .retries = 2}));
  unsigned segments = 0;
  unsigned aborts = 0;
  for (TimeNs now = 0; now <= 3 * kSecond; now += kSecond) {
    sender.engine.on_time(now);
    for (const auto& packet : sender.packets(now)) {
      (header_of(packet).type == RmppType::data ? segments : aborts) += 1;
    }
  }
  EXPECT_EQ(segments, 3u);
  EXPECT_EQ(aborts, 1u);
  const auto finished = sender.engine.take_finished();
  EXPECT_EQ(finished->transaction, 7u);
  EXPECT_EQ(finished->status, RmppStatus::too_many_retries);
}

TEST(Rmpp, ReceiverGivesUpAfterItsTotalTime) {
  End sender;
  End receiver;
  ASSERT_TRUE(sender.engine.send(peer(2), message(1, 3 * kSaData), {}));
  receiver.take(sender.packets(0)[0], 1, 0);
  receiver.packets(0);
  receiver.engine.on_time(receiver.engine.deadline());
  const auto aborts = receiver.packets(0);
  ASSERT_EQ(aborts.size(), 1u);
  EXPECT_EQ(header_of(aborts[0]).type, RmppType::abort);
  EXPECT_EQ(header_of(aborts[0]).status, RmppStatus::total_time_exceeded);
  sender.take(aborts[0], 2, 0);
  EXPECT_EQ(sender.engine.take_finished()->status, RmppStatus::total_time_exceeded);
  EXPECT_EQ(receiver.engine.deadline(), kNever);
}

TEST(Rmpp, ImpossibleAcknowledgementsAbort) {
  for (const auto& [segment, window, status] :
       {std::tuple{5u, 3u, RmppStatus::window_below_segment},
        std::tuple{2u, 9u, RmppStatus::segment_beyond_window}}) {
    End sender;
    ASSERT_TRUE(sender.engine.send(peer(2), message(1, 3 * kSaData), {}));
    RmppPacket ack = sender.packets(0)[0];
    ack.mad[3] = static_cast<std::byte>(MadMethod::get_table);
    encode(
        RmppHeader{.type = RmppType::ack, .is_active = true, .segment = segment, .length = window},
        std::span(ack.mad));
    sender.take(ack, 2, 0);
    EXPECT_EQ(sender.engine.take_finished()->status, status);
    EXPECT_EQ(header_of(sender.packets(0)[0]).status, status);
  }
}

/// A request of several segments is acknowledged with segment 0 from its sender, too: the peer may
/// answer now (GetMulti).
TEST(Rmpp, RequestTurnsTheDirection) {
  End client;
  End server;
  ASSERT_TRUE(client.engine.send(peer(2), message(1, 300, MadMethod::get_multi), {}));
  std::vector<RmppPacket> packets = client.packets(0);
  for (int step = 0; step < 2; ++step) {
    for (const auto& packet : packets) server.take(packet, 1, 0);
    for (const auto& ack : server.packets(0)) client.take(ack, 2, 0);
    packets = client.packets(0);
  }
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_EQ(header_of(packets[0]).type, RmppType::ack);
  EXPECT_EQ(header_of(packets[0]).segment, 0u);
  EXPECT_EQ(method_of(packets[0]), MadMethod::get_multi);
}

TEST(Rmpp, RefusesWhatItCannotSend) {
  End end;
  auto short_message = message(1, 0);
  short_message.resize(40);
  EXPECT_EQ(end.engine.send(peer(2), short_message, {}).error().code, EINVAL);
  auto performance = message(1, 8);
  performance[1] = static_cast<std::byte>(MadClass::performance_management);
  EXPECT_EQ(end.engine.send(peer(2), performance, {}).error().code, EINVAL);
  EXPECT_TRUE(end.engine.send(peer(2), message(1, 8), {}));
  EXPECT_EQ(end.engine.send(peer(2), message(1, 8), {}).error().code, EBUSY);
}

/// Two engines send each other messages over a network that loses, repeats and reorders: each
/// message arrives as it was sent, once, and in the end nothing is remembered.
class LossyRmpp {
 public:
  explicit LossyRmpp(unsigned seed) : random_(seed), loss_percent_(seed % 30) {}

  void run() {
    for (std::uint64_t transaction = 1; transaction <= 6; ++transaction) {
      const std::size_t end = transaction % 2;
      const std::size_t data = pick(3) == 0 ? pick(40'000) : pick(600);
      sent_[end].push_back(message(transaction, data));
      ASSERT_TRUE(ends_[end].engine.send(peer(static_cast<std::uint16_t>(2 - end)),
                                         sent_[end].back(),
                                         {.ack_timeout = kSecond / 2, .retries = 40}));
    }
    while (step()) {
      ASSERT_LT(now_, 200 * kSecond);
    }
    for (std::size_t end : {0, 1}) {
      for (const auto& bytes : sent_[end]) EXPECT_EQ(arrivals_of(bytes, 1 - end), 1);
      EXPECT_EQ(finished_[end], sent_[end].size());
    }
  }

 private:
  struct InFlight {
    TimeNs time;
    std::size_t to;
    RmppPacket packet;
  };

  std::size_t pick(std::size_t below) { return random_() % below; }

  /// Returns false when nothing is left to happen.
  bool step() {
    for (std::size_t end : {0, 1}) drain(end);
    TimeNs next = std::min(ends_[0].engine.deadline(), ends_[1].engine.deadline());
    for (const InFlight& flying : network_) next = std::min(next, flying.time);
    if (next == kNever) return false;
    now_ = std::max(now_, next);
    std::vector<InFlight> due;
    std::erase_if(network_, [&](const InFlight& flying) {
      if (flying.time > now_) return false;
      due.push_back(flying);
      return true;
    });
    for (const InFlight& flying : due) {
      ends_[flying.to].take(flying.packet, static_cast<std::uint16_t>(2 - flying.to), now_);
    }
    for (End& end : ends_) end.engine.on_time(now_);
    return true;
  }

  void drain(std::size_t end) {
    for (const RmppPacket& packet : ends_[end].packets(now_)) {
      for (int copies = pick(20) == 0 ? 2 : 1; copies > 0; --copies) {
        if (pick(100) < loss_percent_) continue;
        network_.push_back({now_ + kMillisecond + pick(3 * kMillisecond), 1 - end, packet});
      }
    }
    while (auto got = ends_[end].engine.take_message()) got_[end].push_back(got->bytes);
    while (auto finished = ends_[end].engine.take_finished()) {
      EXPECT_EQ(finished->status, RmppStatus::normal);
      ++finished_[end];
    }
  }

  std::ptrdiff_t arrivals_of(const std::vector<std::byte>& bytes, std::size_t end) const {
    return std::ranges::count_if(got_[end], [&](const auto& got) { return is_same(got, bytes); });
  }

  std::mt19937 random_;
  std::size_t loss_percent_;
  std::array<End, 2> ends_;
  std::array<std::vector<std::vector<std::byte>>, 2> sent_;
  std::array<std::vector<std::vector<std::byte>>, 2> got_;
  std::array<std::size_t, 2> finished_{};
  std::vector<InFlight> network_;
  TimeNs now_ = 0;
};

/// The peer resends what we cannot remember, and gives up. More messages come all the same.
TEST(Rmpp, MessagesThatHaveComeAreNoTransfers) {
  End receiver;
  constexpr std::size_t kMessages = RmppEngine::kTransfersMax + RmppEngine::kRememberedMax + 100;
  for (std::size_t i = 0; i < kMessages; ++i) {
    End sender;
    ASSERT_TRUE(sender.engine.send(peer(2), message(i, 8), {}));
    receiver.take(sender.packets(0)[0], 1, static_cast<TimeNs>(i));
    ASSERT_TRUE(receiver.engine.take_message()) << i;
    ASSERT_EQ(header_of(receiver.packets(0).at(0)).type, RmppType::ack) << i;
  }
  receiver.engine.on_time(RmppReceiver::kMemory + kMessages);
  EXPECT_EQ(receiver.engine.deadline(), kNever) << "all of them are forgotten";
}

TEST(Rmpp, TransfersThatDoNotEndAreBounded) {
  End receiver;
  const auto first_segment = [&](std::size_t transaction) {
    End sender;
    EXPECT_TRUE(sender.engine.send(peer(2), message(transaction, 2 * kSaData), {}));
    receiver.take(sender.packets(0)[0], 1, 0);
    return header_of(receiver.packets(0).at(0)).type;
  };
  for (std::size_t i = 0; i < RmppEngine::kTransfersMax; ++i) {
    ASSERT_EQ(first_segment(i), RmppType::ack);
  }
  EXPECT_EQ(first_segment(RmppEngine::kTransfersMax), RmppType::stop);
}

TEST(Rmpp, EveryMessageArrivesOnceOverALossyNetwork) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    LossyRmpp(seed).run();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace verbatim::mad
