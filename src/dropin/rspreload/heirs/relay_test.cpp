// Relays between a stream that is played here and real shadows: by seed, every byte once and in
// order, ends and resets as TCP's.
#include "dropin/rspreload/heirs/relay.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <random>
#include <string>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <sys/socket.h>

#include "dropin/rspreload/heirs/message.h"
#include "dropin/rspreload/heirs/shadow.h"

namespace verbatim::rspreload {
namespace {

/// What librdmacm's calls do in this test.
struct Played {
  std::string coming;  // From the peer.
  bool has_ended = false;
  bool was_reset = false;
  std::string sent;  // To the peer.
  std::size_t room = 0;
  bool is_shut = false;
  bool is_closed = false;
  bool closes_by_reset = false;
} played;

class Source final : public ulp::sockets::Source {
 public:
  int handle() const override { return -1; }
  short look(short) override { return 0; }
  void arm() override {}
  bool armed() override { return true; }
  void wake() override {}
};

class Bench {
 public:
  Bench() {
    played = {};
    auto shadow = make_shadow({});
    EXPECT_TRUE(shadow);
    program = std::move(shadow->programs);
    relay = std::make_unique<Relay>(0, std::make_shared<Source>(), std::move(shadow->owners));
  }
  /// Until nothing moves; then as the owner does.
  void turn() {
    while (relay && relay->turn()) {
    }
    if (relay && relay->is_over()) relay.reset();
  }
  /// How much of it the program could write.
  std::size_t write(std::string_view text) const {
    const ssize_t bytes =
        send(program.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    return bytes < 0 ? 0 : static_cast<std::size_t>(bytes);
  }
  /// What the program reads; "-": it would wait, "end", or "reset".
  std::string read(std::size_t most = 1000) const {
    std::string text(most, '\0');
    const ssize_t bytes = recv(program.get(), text.data(), most, MSG_DONTWAIT);
    if (bytes < 0) return errno == EAGAIN ? "-" : errno == ECONNRESET ? "reset" : "?";
    text.resize(static_cast<std::size_t>(bytes));
    return bytes == 0 ? "end" : text;
  }

  UniqueFd program;
  std::unique_ptr<Relay> relay;
};

TEST(Relay, EveryByteComesOnceAndInOrder) {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&random](std::size_t end) { return random() % end; };
    Bench bench;
    std::string out, in, got;
    for (int step = 0; step < 300; ++step) {
      std::string piece(1 + below(below(20) == 0 ? 90'000 : 100), '\0');
      for (char& one : piece) one = static_cast<char>(random());
      const std::size_t what = below(4);
      if (what == 0) out += piece.substr(0, bench.write(piece));
      if (what == 1) played.coming += piece, in += piece;
      if (what == 2) played.room = below(70'000);
      if (what == 3) {
        const std::string text = bench.read(1 + below(100'000));
        if (text != "-") got += text;
      }
      bench.turn();
    }
    played.room = 1 << 30;
    played.has_ended = true;
    shutdown(bench.program.get(), SHUT_WR);
    for (std::string text; (text = bench.read(1 << 20)) != "end"; bench.turn()) {
      if (text != "-") got += text;
    }
    bench.turn();
    EXPECT_TRUE(played.sent == out);
    EXPECT_TRUE(got == in);
    EXPECT_TRUE(played.is_closed && !played.closes_by_reset);
    EXPECT_EQ(bench.read(), "end");
  }
}

TEST(Relay, EachDirectionEndsAlone) {
  Bench bench;
  played.room = 100;
  bench.write("last words");
  shutdown(bench.program.get(), SHUT_WR);
  bench.turn();
  EXPECT_EQ(played.sent, "last words");
  EXPECT_TRUE(played.is_shut && !played.is_closed);
  played.coming = "after your end";
  bench.turn();
  EXPECT_EQ(bench.read(), "after your end");
  played.has_ended = true;
  bench.turn();
  EXPECT_EQ(bench.read(), "end");
  EXPECT_TRUE(played.is_closed);
}

TEST(Relay, TheLastCloseEndsTheConnectionBehindWhatWasWritten) {
  Bench bench;
  UniqueFd other(dup(bench.program.get()));
  bench.write("last words");
  bench.program.reset();
  bench.turn();
  EXPECT_FALSE(played.is_closed);
  other.reset();
  bench.turn();
  EXPECT_TRUE(played.sent.empty() && !played.is_closed);  // The peer has no room yet.
  played.room = 100;
  bench.turn();
  EXPECT_EQ(played.sent, "last words");
  EXPECT_TRUE(played.is_closed && !played.closes_by_reset);
}

TEST(Relay, WhatNobodyHasReadMakesAResetOfTheLastClose) {
  Bench bench;
  played.coming = "unread";
  bench.turn();
  bench.program.reset();
  bench.turn();
  EXPECT_TRUE(played.is_closed && played.closes_by_reset);
}

TEST(Relay, APeersResetIsTold) {
  Bench bench;
  played.coming = "before";
  bench.turn();
  played.was_reset = true;
  bench.turn();
  EXPECT_EQ(bench.read(), "before");
  EXPECT_EQ(bench.read(), "reset");
  EXPECT_EQ(bench.write("x"), 0u);
}

TEST(Shadow, AnOwnerThatDiesIsAReset) {
  auto shadow = make_shadow({});
  ASSERT_TRUE(shadow);
  shadow->owners.reset();
  char byte = 0;
  EXPECT_EQ(recv(shadow->programs.get(), &byte, 1, 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_EQ(recv(make_lost().get(), &byte, 1, 0), -1);
}

TEST(Shadow, KnowsTheNamesAndTcpsOptions) {
  Names names;
  names.local.ss_family = names.peer.ss_family = AF_INET;
  reinterpret_cast<sockaddr_in&>(names.peer).sin_port = 1234;
  const auto shadow = make_shadow(names);
  ASSERT_TRUE(shadow);
  const auto found = names_of_shadow(shadow->programs.get());
  ASSERT_TRUE(found);
  EXPECT_EQ(reinterpret_cast<const sockaddr_in&>(found->peer).sin_port, 1234);
  EXPECT_FALSE(names_of_shadow(shadow->owners.get()));
  int value = -1;
  socklen_t length = sizeof value;
  EXPECT_TRUE(shadow_option(shadow->programs.get(), SOL_SOCKET, SO_DOMAIN, &value, &length));
  EXPECT_EQ(value, AF_INET);
  EXPECT_TRUE(shadow_option(shadow->programs.get(), IPPROTO_TCP, TCP_NODELAY, nullptr, nullptr));
  EXPECT_FALSE(shadow_option(shadow->programs.get(), SOL_SOCKET, SO_TYPE, &value, &length));
  EXPECT_FALSE(shadow_option(shadow->owners.get(), IPPROTO_TCP, TCP_NODELAY, nullptr, nullptr));
}

TEST(Line, CarriesWordsAndDescriptors) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
  UniqueFd here(ends[0]), there(ends[1]);
  EXPECT_FALSE(receive_from(there.get(), MSG_DONTWAIT));
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_TRUE(send_over(here.get(), {.word = Word::closed, .serial = 7, .descriptor = {}}));
  EXPECT_TRUE(
      send_over(here.get(), {.word = Word::ask, .serial = 8, .descriptor = UniqueFd(dup(0))}));
  auto message = receive_from(there.get(), 0);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->serial, 7u);
  EXPECT_FALSE(message->descriptor);
  message = receive_from(there.get(), 0);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->word, Word::ask);
  EXPECT_TRUE(message->descriptor);
  // Nothing that a child of another version might send.
  send(here.get(), "short", 5, 0);
  EXPECT_FALSE(receive_from(there.get(), 0));
  here.reset();
  EXPECT_FALSE(receive_from(there.get(), 0));
  EXPECT_EQ(errno, ECONNRESET);
}

}  // namespace
}  // namespace verbatim::rspreload

// librdmacm's, in this test.
extern "C" {

using verbatim::rspreload::played;

ssize_t rrecv(int, void* buffer, size_t size, int) {
  if (played.was_reset || (played.coming.empty() && !played.has_ended)) {
    errno = played.was_reset ? ECONNRESET : EAGAIN;
    return -1;
  }
  const std::size_t bytes = std::min(size, played.coming.size());
  std::copy_n(played.coming.begin(), bytes, static_cast<char*>(buffer));
  played.coming.erase(0, bytes);
  return static_cast<ssize_t>(bytes);
}

ssize_t rsend(int, const void* buffer, size_t size, int) {
  const std::size_t bytes = std::min(size, played.room);
  if (bytes == 0) {
    errno = EAGAIN;
    return -1;
  }
  played.sent.append(static_cast<const char*>(buffer), bytes);
  played.room -= bytes;
  return static_cast<ssize_t>(bytes);
}

int rshutdown(int, int) {
  played.is_shut = true;
  return 0;
}
int rclose(int) {
  played.is_closed = true;
  return 0;
}
int rsetsockopt(int, int, int, const void*, socklen_t) {
  played.closes_by_reset = true;
  return 0;
}

}  // extern "C"
