#include "cm/iwarp/stream_manager.h"

#include <deque>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "base/overloaded.h"

/// Two managers, with queues of bytes as sockets between them.
namespace verbatim::cm {
namespace {

std::string text_of(const PrivateData& data) {
  return {reinterpret_cast<const char*>(data.begin()), data.size()};
}
ByteSpan bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

class Side {
 public:
  explicit Side(std::uint64_t seed) : manager(seed) {}

  /// Carries out the effects on sockets; events for the program go to `said`.
  void carry_out(const StreamEffects& effects) {
    for (const StreamEffect& effect : effects) {
      std::visit(
          Overloaded{[this](const OpenStream& open) { opened.push_back(open.connection); },
                     [this](const SendBytes& send) {
                       sent.insert(sent.end(), send.bytes.begin(), send.bytes.end());
                     },
                     [this](const HandOver& over) {
                       agreement = over.agreement;
                       say(over.is_initiator ? "hand over as initiator" : "hand over");
                     },
                     [this](const EndStream&) { say("end own side"); },
                     [this](const CloseStream& close) {
                       say(close.is_turned_out ? "turned out" : "close");
                     },
                     [this](const StreamRequest& request) {
                       id = request.connection;
                       say(fmt::format("request {}/{} {}", request.inbound_reads,
                                       request.outbound_reads, text_of(request.private_data)));
                     },
                     [this](const StreamReply& reply) {
                       say(fmt::format("reply {}/{} {}", reply.inbound_reads, reply.outbound_reads,
                                       text_of(reply.private_data)));
                     },
                     [this](const StreamFailed& failed) {
                       say(fmt::format("failed {} {}", failed.error, text_of(failed.private_data)));
                     },
                     [this](const StreamEnded&) { say("ended"); }},
          effect);
    }
  }
  template <typename Call>
  auto step(Call call) {
    StreamEffects effects;
    if constexpr (std::is_void_v<decltype(call(effects))>) {
      call(effects);
      carry_out(effects);
    } else {
      auto result = call(effects);
      carry_out(effects);
      return result;
    }
  }
  void connect(const StreamOffer& offer) {
    id = *step([&](StreamEffects& out) {
      return manager.connect(SocketAddress::ipv4({10, 0, 0, 1}),
                             SocketAddress::ipv4({10, 0, 0, 2}, 7), offer, now, out);
    });
  }
  void connected() {
    step([&](StreamEffects& out) { manager.on_connected(id, now, out); });
  }
  void accepted(const IpEndpoints& ends = {}, ListenerId listener = ListenerId{1},
                bool few_are_left = false) {
    id = *step([&](StreamEffects& out) {
      return manager.on_accepted(listener, ends, few_are_left, now, out);
    });
  }
  bool accept(const StreamOffer& offer) {
    return step([&](StreamEffects& out) { return manager.accept(id, offer, out); }).has_value();
  }
  /// Delivers as many bytes as the manager wants, one at a time.
  void take_from(Side& peer) {
    while (!peer.sent.empty() && manager.bytes_wanted(id) > 0) {
      const std::byte byte = peer.sent.front();
      peer.sent.pop_front();
      step([&](StreamEffects& out) { manager.on_bytes(id, std::span(&byte, 1), out); });
    }
  }
  void end(int error) {
    step([&](StreamEffects& out) { manager.on_end(id, error, now, out); });
  }
  bool disconnect() {
    return step([&](StreamEffects& out) { return manager.disconnect(id, now, out); }).has_value();
  }
  void pass(TimeNs span) {
    now += span;
    step([&](StreamEffects& out) { manager.on_timeout(now, out); });
  }
  std::string told() { return std::exchange(said_, {}); }

  StreamManager manager;
  TimeNs now = kSecond;
  ConnectionId id{};
  std::deque<std::byte> sent;
  std::vector<ConnectionId> opened;
  MpaParameters agreement;

 private:
  void say(const std::string& word) { said_ += (said_.empty() ? "" : ", ") + word; }
  std::string said_;
};

class Streams : public testing::Test {
 protected:
  /// Delivers a request to the program of the listening side.
  void ask(const StreamOffer& offer = {.inbound_reads = 4, .outbound_reads = 5}) {
    a.connect(offer);
    a.connected();
    b.accepted();
    b.take_from(a);
  }
  void establish() {
    ask();
    b.accept({.inbound_reads = 8, .outbound_reads = 8});
    a.take_from(b);
    ASSERT_TRUE(a.step([&](StreamEffects& out) { return a.manager.establish(a.id, out); }));
    a.told();
    b.told();
  }
  Side a{1}, b{2};
};

TEST_F(Streams, AskedAcceptedAndHandedOver) {
  a.connect({.inbound_reads = 4, .outbound_reads = 5, .private_data = bytes_of("hello")});
  EXPECT_EQ(a.opened.size(), 1u);
  a.connected();
  b.accepted();
  b.take_from(a);
  EXPECT_EQ(b.told(), "request 5/4 hello");
  EXPECT_TRUE(
      b.accept({.inbound_reads = 3, .outbound_reads = 9, .private_data = bytes_of("welcome")}));
  EXPECT_EQ(b.told(), "hand over");
  a.take_from(b);
  EXPECT_EQ(a.told(), "reply 4/3 welcome");
  ASSERT_TRUE(a.step([&](StreamEffects& out) { return a.manager.establish(a.id, out); }));
  EXPECT_EQ(a.told(), "hand over as initiator");
  EXPECT_EQ(a.agreement.outbound_reads, 3);
  EXPECT_EQ(b.agreement.inbound_reads, 3);
  EXPECT_EQ(a.manager.deadline(), kNever);
  EXPECT_EQ(b.manager.deadline(), kNever);
}

TEST_F(Streams, WhatFollowsTheReplyIsTheQueuePairs) {
  ask();
  b.accept({});
  b.sent.push_back(std::byte{0x42});
  a.take_from(b);
  EXPECT_EQ(b.sent.size(), 1u);
}

TEST_F(Streams, ARejectionTellsWhy) {
  ask();
  b.told();
  ASSERT_TRUE(b.step(
      [&](StreamEffects& out) { return b.manager.reject(b.id, bytes_of("not now"), b.now, out); }));
  a.take_from(b);
  EXPECT_EQ(a.told(), fmt::format("close, failed {} not now", ECONNREFUSED));
  EXPECT_EQ(b.told(), "");  // Not before the peer has closed.
  b.end(0);
  EXPECT_EQ(b.told(), "close");
  EXPECT_EQ(a.manager.connections() + b.manager.connections(), 0u);
}

TEST_F(Streams, WhoKnowsRevisionOneAloneIsAskedAgain) {
  a.connect({});
  a.connected();
  a.sent.clear();
  Side old(3);
  const wire::MpaFrame refusal{.is_reply = true, .is_rejection = true, .revision = 1};
  std::array<std::byte, wire::MpaFrame::kSize> bytes;
  encode(refusal, bytes);
  old.sent.assign(bytes.begin(), bytes.end());
  a.take_from(old);
  EXPECT_EQ(a.opened.size(), 2u);
  a.connected();
  const std::vector<std::byte> request(a.sent.begin(), a.sent.end());
  EXPECT_EQ((*parse_mpa(request))->frame.revision, 1);
}

TEST_F(Streams, WhoListensInAMomentIsFound) {
  a.connect({});
  a.end(ECONNREFUSED);
  EXPECT_EQ(a.manager.deadline(), a.now + StreamManager::kTryAgain);
  a.pass(a.manager.deadline() - a.now);
  EXPECT_EQ(a.opened.size(), 2u);
  a.connected();
  a.end(ECONNRESET);  // The listener closed with the connection in its backlog.
  a.pass(a.manager.deadline() - a.now);
  EXPECT_EQ(a.opened.size(), 3u);
  EXPECT_EQ(a.told(), "");
}

TEST_F(Streams, AnEndRightBehindTheReplyIsTheQueuePairsToSee) {
  ask();
  b.accept({});
  a.take_from(b);
  a.told();
  a.end(0);
  EXPECT_EQ(a.told(), "");
  ASSERT_TRUE(a.step([&](StreamEffects& out) { return a.manager.establish(a.id, out); }));
  EXPECT_EQ(a.told(), "hand over as initiator");
  a.end(0);
  EXPECT_EQ(a.told(), "close, ended");
}

TEST_F(Streams, NobodyListens) {
  a.connect({});
  a.now += StreamManager::kMoment;
  a.end(ECONNREFUSED);
  EXPECT_EQ(a.told(), fmt::format("close, failed {} ", ECONNREFUSED));
}

TEST_F(Streams, AReplyThatDoesNotComeIsATimeOut) {
  a.connect({});
  a.connected();
  ASSERT_EQ(a.manager.deadline(), a.now + StreamManager::kTimeout);
  a.pass(a.manager.deadline() - a.now);
  EXPECT_EQ(a.told(), fmt::format("close, failed {} ", ETIMEDOUT));
}

TEST_F(Streams, WhatIsNoReplyIsAProtocolError) {
  a.connect({});
  a.connected();
  b.sent.assign(20, std::byte{'x'});
  a.take_from(b);
  EXPECT_EQ(a.told(), fmt::format("close, failed {} ", EPROTO));
}

TEST_F(Streams, WhatIsNoRequestIsClosedWithoutAWord) {
  b.accepted();
  a.sent.assign(20, std::byte{'x'});
  b.take_from(a);
  EXPECT_EQ(b.told(), "close");
}

TEST_F(Streams, SilentSocketsEnd) {
  b.accepted();
  b.pass(b.manager.deadline() - b.now);
  EXPECT_EQ(b.told(), "close");
  EXPECT_EQ(b.manager.connections(), 0u);
}

TEST_F(Streams, WhereTheSilentHaveTheirPartOfTheDescriptorsTheOldestGoes) {
  b.manager.set_descriptors(64);
  const auto accept_from = [&](std::uint8_t host, ListenerId listener = ListenerId{1}) {
    b.accepted({.source = SocketAddress::ipv4({10, 0, 0, host}, 1024)}, listener);
    return b.id;
  };
  // One source gets half of the 16 places at one listener.
  for (int i = 0; i < 8; ++i) accept_from(1);
  EXPECT_EQ(b.told(), "");
  accept_from(1);
  EXPECT_EQ(b.told(), "turned out");
  const ConnectionId at_another = accept_from(1, ListenerId{2});
  for (std::uint8_t host = 2; host < 9; ++host) accept_from(host);
  EXPECT_EQ(b.told(), "");
  EXPECT_EQ(b.manager.connections(), 16u);
  // Then the oldest of all is dropped, eight times.
  for (std::uint8_t host = 9; host < 17; ++host) accept_from(host);
  EXPECT_GT(b.manager.bytes_wanted(at_another), 0u);
  accept_from(17);
  EXPECT_EQ(b.manager.bytes_wanted(at_another), 0u);
  EXPECT_EQ(b.manager.connections(), 16u);
}

/// An IPv6 host may have all addresses of its /64.
TEST_F(Streams, TheSilentOfOneIpv6NetworkAreOneSource) {
  b.manager.set_descriptors(64);
  const auto accept_from = [&](int host) {
    b.accepted({.source = SocketAddress::parse(fmt::format("fd00::{}", host), 1024).value()});
  };
  for (int host = 1; host <= 8; ++host) accept_from(host);
  EXPECT_EQ(b.told(), "");
  accept_from(9);
  EXPECT_EQ(b.told(), "turned out");
}

TEST_F(Streams, ThoseWhoAskAreInNobodysWay) {
  b.manager.set_descriptors(64);
  ask();
  EXPECT_NE(b.told(), "");
  const ConnectionId asked = b.id;
  for (int i = 0; i < 100; ++i) b.accepted();
  b.id = asked;
  EXPECT_TRUE(b.accept({}));
}

TEST_F(Streams, RequestsThatTheProgramDoesNotAnswerAreBounded) {
  b.manager.set_descriptors(64);
  for (int i = 0; i < 16; ++i) {
    a.sent.clear();
    ask();
    EXPECT_EQ(b.told(), "request 5/4 ");
  }
  a.sent.clear();
  ask();
  EXPECT_EQ(b.told(), "turned out");
}

TEST_F(Streams, ThoseWhoWereRejectedAndDoNotCloseMakeRoom) {
  b.manager.set_descriptors(64);
  for (int i = 0; i < 8; ++i) {
    a.sent.clear();
    ask();
    b.step([&](StreamEffects& out) { b.manager.release(b.id, b.now, out); });
  }
  b.told();
  b.accepted();
  EXPECT_EQ(b.told(), "turned out");
}

TEST_F(Streams, WhereNoDescriptorIsLeftTheOldestSilentOneGoes) {
  const auto make_room = [&] {
    return b.step([&](StreamEffects& out) { return b.manager.make_room(out); });
  };
  EXPECT_FALSE(make_room());
  b.accepted();
  EXPECT_TRUE(make_room());
  EXPECT_EQ(b.told(), "turned out");
  EXPECT_FALSE(make_room());
  // With few descriptors left, there is less room.
  b.manager.set_descriptors(1024);
  for (int i = 0; i < 100; ++i) b.accepted();
  EXPECT_EQ(b.told(), "");
  b.accepted({}, ListenerId{1}, true);
  EXPECT_EQ(b.manager.connections(), 16u);
}

TEST_F(Streams, TheEndOfAConnectionIsToldOnce) {
  establish();
  a.end(0);
  a.end(0);
  EXPECT_EQ(a.told(), "close, ended");
}

TEST_F(Streams, AnEndIsToldWhenTheOwnSideHasEnded) {
  establish();
  ASSERT_TRUE(a.disconnect());
  a.pass(StreamManager::kTryAgain);
  EXPECT_EQ(a.told(), "end own side, end own side");
  a.step([&](StreamEffects& out) { a.manager.on_own_end(a.id, out); });
  EXPECT_EQ(a.told(), "close, ended");
}

TEST_F(Streams, AnOwnSideThatDoesNotEndHasItsTime) {
  establish();
  ASSERT_TRUE(a.disconnect());
  a.pass(StreamManager::kTimeout);
  EXPECT_EQ(a.told(), "end own side, close, ended");
}

TEST_F(Streams, APeerThatDidNotWaitCannotBeAccepted) {
  ask();
  b.told();
  b.end(ECONNRESET);
  EXPECT_FALSE(b.accept({}));
  b.step([&](StreamEffects& out) { b.manager.release(b.id, b.now, out); });
  EXPECT_EQ(b.told(), "close");
}

TEST_F(Streams, ForgottenRequestsAreRejected) {
  ask();
  b.step([&](StreamEffects& out) { b.manager.release(b.id, b.now, out); });
  a.take_from(b);
  EXPECT_EQ(a.told(), fmt::format("close, failed {} ", ECONNREFUSED));
}

TEST_F(Streams, CallsThatDoNotFitTheStateAreRefused) {
  ask();
  EXPECT_FALSE(a.manager.establish(a.id, *std::make_unique<StreamEffects>()));
  EXPECT_FALSE(b.manager.disconnect(b.id, b.now, *std::make_unique<StreamEffects>()));
  EXPECT_FALSE(a.accept({}));
}

TEST_F(Streams, PrivateDataThatMpaDoesNotCarryIsRefused) {
  const std::vector<std::byte> much(509);
  StreamEffects effects;
  EXPECT_FALSE(a.manager.connect({}, {}, {.private_data = much}, a.now, effects));
  EXPECT_TRUE(effects.empty());
}

}  // namespace
}  // namespace verbatim::cm
