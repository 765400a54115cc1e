#include "ulp/tcp/driver.h"

#include <array>
#include <cstring>
#include <map>

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace verbatim::ulp::tcp {
namespace {

/// Sends back each message; "end" ends the connection, "keep" keeps the message until the test
/// gives it back.
class Echo final : public rdma::Handler {
 public:
  Driver* driver = nullptr;
  std::vector<ConnectionId> connections, established;
  std::vector<ReceiveId> kept;
  std::vector<std::string> ends;
  int done = 0;
  std::map<ConnectionId, std::string> texts;
  std::vector<std::byte> page;

 private:
  void on_requested(const rdma::Requested& requested, TimeNs) override {
    connections.push_back(requested.connection);
    EXPECT_TRUE(driver->accept(requested.connection, {}, {}));
  }
  void on_established(const rdma::Established& one, TimeNs, WorkList&) override {
    established.push_back(one.connection);
  }
  ReceiveUse on_message(ConnectionId connection, const Message& message, TimeNs now,
                        WorkList&) override {
    std::string& text = texts[connection];
    text.assign(reinterpret_cast<const char*>(message.memory.data), message.memory.bytes);
    const Slice slice{page.data(), static_cast<std::uint32_t>(page.size()), {}};
    payload_ = slice;
    const Work echo = Send{.header = std::as_bytes(std::span(text)),
                           .payload = {&payload_, page.empty() ? 0u : 1u},
                           .done = Tag{7}};
    driver->carry_out(connection, {&echo, 1}, now);
    const Work end = Disconnect{"told to end"};
    if (text == "end") driver->carry_out(connection, {&end, 1}, now);
    if (text != "keep") return ReceiveUse::done;
    kept.push_back(message.receive);
    return ReceiveUse::kept;
  }
  void on_done(ConnectionId, Tag tag, CompletionStatus, TimeNs, WorkList&) override {
    EXPECT_EQ(tag, Tag{7});
    ++done;
  }
  void on_end(ConnectionId, const rdma::End& end, TimeNs) override { ends.push_back(end.words); }

  Slice payload_;
};

class TcpDriver : public testing::Test {
 protected:
  TcpDriver() {
    echo_.driver = &driver_;
    const auto listener = driver_.listen(*SocketAddress::parse("127.0.0.1"));
    if (listener) place_ = driver_.address_of(*listener);
  }
  UniqueFd connect() {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(::connect(socket.get(), place_.data(), place_.size()), 0);
    turn();
    return socket;
  }
  void turn() {
    for (int i = 0; i < 8; ++i) loop_->turn(0);
  }
  void send(const UniqueFd& socket, std::string_view text) {
    EXPECT_EQ(::send(socket.get(), text.data(), text.size(), 0), std::ssize(text));
    turn();
  }
  /// What has come, at most 64 bytes; "" at the end.
  static std::string receive(const UniqueFd& socket) {
    char bytes[64];
    const ssize_t count = recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0) return "nothing";
    return {bytes, static_cast<std::size_t>(count)};
  }

  std::unique_ptr<service::Loop> loop_ = *service::Loop::create();
  Echo echo_;
  Driver driver_{echo_, *loop_, {.connections_max = 2, .first_number = 100}};
  SocketAddress place_;
};

TEST_F(TcpDriver, EchoesMessages) {
  const UniqueFd socket = connect();
  ASSERT_EQ(echo_.connections.size(), 1u);
  EXPECT_EQ(rdma::number_of(echo_.connections[0]), 100u);
  send(socket, "hello");
  EXPECT_EQ(receive(socket), "hello");
  EXPECT_EQ(echo_.done, 1);
}

TEST_F(TcpDriver, PayloadFollowsItsHeader) {
  const UniqueFd socket = connect();
  echo_.page.assign(3, std::byte{'p'});
  send(socket, "head");
  EXPECT_EQ(receive(socket), "headppp");
}

TEST_F(TcpDriver, EndsWhenEitherSideDoes) {
  UniqueFd first = connect();
  first.reset();
  turn();
  EXPECT_EQ(echo_.ends, std::vector<std::string>{""});
  const UniqueFd second = connect();
  send(second, "end");
  EXPECT_EQ(receive(second), "end");
  EXPECT_EQ(receive(second), "");
  EXPECT_EQ(echo_.ends.back(), "told to end");
  EXPECT_EQ(driver_.connection_count(), 0u);
  // The number is used again, by another connection.
  const UniqueFd third = connect();
  EXPECT_EQ(rdma::number_of(echo_.connections[2]), rdma::number_of(echo_.connections[1]));
  EXPECT_NE(echo_.connections[2], echo_.connections[1]);
}

TEST_F(TcpDriver, WhileAMessageIsKeptNoOtherComes) {
  const UniqueFd socket = connect();
  send(socket, "keep");
  EXPECT_EQ(receive(socket), "keep");
  send(socket, "next");
  EXPECT_EQ(receive(socket), "nothing");
  driver_.post_again(echo_.kept.at(0));
  turn();
  EXPECT_EQ(receive(socket), "next");
}

TEST_F(TcpDriver, ConnectionsAreBounded) {
  const UniqueFd first = connect(), second = connect(), third = connect();
  EXPECT_EQ(driver_.connection_count(), 2u);
  EXPECT_EQ(receive(third), "");
}

TEST_F(TcpDriver, APeerThatDoesNotReadIsNotRead) {
  const UniqueFd socket = connect();
  echo_.page.assign(8 << 20, std::byte{});
  const std::string text(100'000, 'x');
  for (int i = 0; i < 100; ++i) {
    const ssize_t sent = ::send(socket.get(), text.data(), text.size(), MSG_DONTWAIT);
    turn();
    if (sent < 0) break;
  }
  EXPECT_LT(::send(socket.get(), text.data(), text.size(), MSG_DONTWAIT), 0);
}

/// Gives sockets when the test wants it.
class SlowConnector final : public Connector {
 public:
  std::vector<Give> waiting;

 private:
  void connect(const SocketAddress&, Give give) override { waiting.push_back(std::move(give)); }
};

TEST_F(TcpDriver, AConnectorsSocketComesLaterOrNever) {
  SlowConnector connector;
  Echo handler;
  Driver driver(handler, *loop_, {.connections_max = 3, .connector = &connector});
  handler.driver = &driver;
  const auto given = driver.connect(place_), refused = driver.connect(place_);
  const auto ended = driver.connect(place_);
  ASSERT_TRUE(given && refused && ended);
  EXPECT_FALSE(driver.connect(place_));  // Those that wait count.
  driver.disconnect(*ended, "over", 0);
  turn();
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM, 0));
  ASSERT_EQ(::connect(socket.get(), place_.data(), place_.size()), 0);
  connector.waiting.at(0)(std::move(socket));
  connector.waiting.at(1)(refuse(ECONNREFUSED, "nobody is there"));
  connector.waiting.at(2)(UniqueFd(::socket(AF_INET, SOCK_STREAM, 0)));  // Too late.
  turn();
  EXPECT_EQ(handler.established, std::vector{*given});
  EXPECT_EQ(handler.ends, (std::vector<std::string>{"over", "nobody is there"}));
  EXPECT_EQ(driver.connection_count(), 1u);
}

/// Has room for a few bytes, in two pieces.
class Room final : public Placer {
 public:
  std::string first = "..", second = "...", counts;

 private:
  std::span<const Slice> place_of(ConnectionId) override {
    const auto slice = [](std::string& text) {
      return Slice{
          reinterpret_cast<std::byte*>(text.data()), static_cast<std::uint32_t>(text.size()), {}};
    };
    slices_ = {slice(first), slice(second)};
    return slices_;
  }
  void on_placed(ConnectionId, std::uint32_t bytes, TimeNs) override {
    counts += std::to_string(bytes);
  }

  std::array<Slice, 2> slices_;
};

TEST_F(TcpDriver, BytesGoToTheirPlaceAndTheRestIntoAMessage) {
  Echo handler;
  Room room;
  Driver driver(handler, *loop_, {.placer = &room, .message_bytes = 64});
  handler.driver = &driver;
  const auto listener = driver.listen(*SocketAddress::parse("127.0.0.1", 0));
  ASSERT_TRUE(listener);
  place_ = driver.address_of(*listener);
  const UniqueFd socket = connect();
  send(socket, "abc");
  EXPECT_EQ(receive(socket), "nothing");
  send(socket, "ABCDEFG");
  EXPECT_EQ(receive(socket), "FG");
  EXPECT_EQ(room.first + room.second + room.counts, "ABCDE35");
}

TEST_F(TcpDriver, WhatCannotBeListenedAtIsToldInWords) {
  const auto refused = driver_.listen(place_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EADDRINUSE);
}

}  // namespace
}  // namespace verbatim::ulp::tcp
