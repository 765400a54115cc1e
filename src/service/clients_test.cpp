#include "service/clients.h"

#include <csignal>
#include <filesystem>
#include <random>
#include <string>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "service/folder.h"

namespace verbatim::service {
namespace {

constexpr Protocol kProtocol{.magic = 0x31415926, .version = 1};
enum Type : std::uint16_t { kEcho = 1, kFail, kFlood, kReply };

ByteSpan bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string text_of(const Incoming& incoming) {
  return {reinterpret_cast<const char*>(incoming.bytes.data()), incoming.bytes.size()};
}

/// A daemon in this thread: a client asks, the loop turns, the client reads.
struct ClientsTest : testing::Test {
  void SetUp() override {
    std::string folder = testing::TempDir() + "verbatim-clients-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    auto listener = listen_at(socket());
    ASSERT_TRUE(listener) << listener.error().text;
    clients = Clients::create(*loop, std::move(*listener), kProtocol, {.clients = 8}).value();
    clients->on(kEcho, [this](Client& client, const Incoming& asked) -> Result<void> {
      clients->send(client, kReply, asked.bytes);
      return {};
    });
    clients->on(kFail, [](Client&, const Incoming&) -> Result<void> {
      return refuse(ENOSPC, "the disk is full");
    });
    clients->on(kFlood, [this](Client& client, const Incoming&) -> Result<void> {
      for (int i = 0; i < 1000; ++i) clients->send(client, kReply, std::vector<std::byte>(32'000));
      return {};
    });
    clients->on_gone([this](const Client&) { ++gone; });
  }
  void TearDown() override {
    clients.reset();
    std::filesystem::remove_all(folder_);
  }
  std::string socket() const { return folder_ + "/socket"; }
  Channel connect() { return Channel(connect_to(socket()).value(), kProtocol); }
  void turn(int times = 4) {
    for (int i = 0; i < times; ++i) {
      now += 10 * kMillisecond;
      loop->turn(0);
    }
  }
  /// Asks, and returns the reply, or the refusal in words.
  std::string ask(Channel& channel, std::uint16_t type, std::string_view text = {}) {
    EXPECT_TRUE(channel.send_and_wait(type, bytes_of(text)));
    turn();
    auto answer = channel.receive(MSG_DONTWAIT);
    if (answer) answer = unless_refused(std::move(*answer));
    return answer ? text_of(*answer) : answer.error().text;
  }

  TimeNs now = 0;
  std::unique_ptr<Loop> loop = Loop::create([this] { return now; }).value();
  std::unique_ptr<Clients> clients;
  int gone = 0;
  std::string folder_;
};

TEST_F(ClientsTest, EachRequestGoesToItsHandler) {
  Channel one = connect(), other = connect();
  EXPECT_EQ(ask(one, kEcho, "a"), "a");
  EXPECT_EQ(ask(other, kEcho, "b"), "b");
  EXPECT_EQ(ask(one, kFail), "the disk is full");
  EXPECT_EQ(ask(one, 77), "no request has type 77");
  EXPECT_EQ(ask(one, kEcho, "still there"), "still there");
  EXPECT_EQ(clients->count(), 2U);
}

TEST_F(ClientsTest, NonsenseIsRefusedInWordsAndClosed) {
  Channel nonsense = connect();
  ASSERT_EQ(::send(nonsense.fd(), "nonsense", 8, 0), 8);
  turn();
  EXPECT_EQ(unless_refused(*nonsense.receive(MSG_DONTWAIT)).error().code, EPROTO);
  EXPECT_EQ(nonsense.receive(MSG_DONTWAIT).error().code, ECONNRESET);
  Channel older(connect_to(socket()).value(), {.magic = kProtocol.magic, .version = 0});
  ASSERT_TRUE(older.send(kEcho, {}));
  turn();
  // It cannot read the refusal either, but sees that there is another version.
  EXPECT_EQ(older.receive(MSG_DONTWAIT).error().code, EPROTONOSUPPORT);
  EXPECT_EQ(clients->count(), 0U);
  EXPECT_EQ(gone, 2);
}

TEST_F(ClientsTest, BeyondTheLimitNewcomersAreToldSo) {
  std::vector<Channel> all;
  for (int i = 0; i < 8; ++i) all.push_back(connect());
  turn();
  Channel more = connect();
  turn();
  EXPECT_EQ(unless_refused(*more.receive(MSG_DONTWAIT)).error().code, EAGAIN);
  EXPECT_EQ(clients->count(), 8U);
  all.pop_back();
  turn();
  Channel next = connect();
  EXPECT_EQ(ask(next, kEcho, "room again"), "room again");
}

TEST_F(ClientsTest, ASlowReaderIsClosedAndHoldsUpNobody) {
  Channel slow = connect(), other = connect();
  ASSERT_TRUE(slow.send(kFlood, {}));
  turn();
  EXPECT_EQ(ask(other, kEcho, "x"), "x");
  EXPECT_EQ(clients->count(), 1U);
  EXPECT_EQ(gone, 1);
}

TEST_F(ClientsTest, AFloodOfRequestsLeavesOthersTheirTurn) {
  Channel noisy = connect(), other = connect();
  turn();
  while (noisy.send(kEcho, bytes_of("x")) && !noisy.wants_to_send()) {
  }
  ASSERT_TRUE(other.send(kEcho, bytes_of("y")));
  now += 1;
  loop->turn(0);
  EXPECT_EQ(text_of(*other.receive(MSG_DONTWAIT)), "y") << "in the same turn";
}

TEST_F(ClientsTest, WithoutDescriptorsNewcomersAreToldSo) {
  Channel before = connect();
  EXPECT_EQ(ask(before, kEcho, "x"), "x");
  const UniqueFd newcomer = connect_to(socket()).value();
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const UniqueFd highest(dup(0));
  // No number is free but the spare one, which the daemon gives up.
  std::vector<UniqueFd> hoard;
  const rlimit few{.rlim_cur = static_cast<rlim_t>(highest.get()) + 1, .rlim_max = limit.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  for (UniqueFd one(dup(0)); one; one = UniqueFd(dup(0))) hoard.push_back(std::move(one));
  turn();
  setrlimit(RLIMIT_NOFILE, &limit);
  hoard.clear();
  Channel refused(UniqueFd(dup(newcomer.get())), kProtocol);
  EXPECT_EQ(unless_refused(*refused.receive(MSG_DONTWAIT)).error().code, EMFILE);
  turn(20);
  Channel after = connect();
  EXPECT_EQ(ask(after, kEcho, "y"), "y");
  EXPECT_EQ(ask(before, kEcho, "x"), "x");
}

TEST_F(ClientsTest, AKilledClientIsGoneThoughAChildHasItsSocket) {
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const UniqueFd reading(pipes[0]), writing(pipes[1]);
  const pid_t child = fork();
  if (child == 0) {
    const auto socket_of_both = connect_to(socket());
    const pid_t grandchild = fork();
    if (grandchild > 0) write(writing.get(), &grandchild, sizeof grandchild);
    pause();
  }
  pid_t grandchild = 0;
  ASSERT_EQ(read(reading.get(), &grandchild, sizeof grandchild),
            static_cast<ssize_t>(sizeof grandchild));
  turn();
  EXPECT_EQ(clients->count(), 1U);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  turn();
  EXPECT_EQ(clients->count(), 0U);
  EXPECT_EQ(gone, 1);
  kill(grandchild, SIGKILL);
}

/// Whatever clients do in whatever order, the daemon serves those that behave.
TEST_F(ClientsTest, RandomClients) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::vector<Channel> others;
    Channel good = connect();
    turn(1);
    for (int step = 0; step < 100; ++step) {
      const auto any = [&]() -> Channel& { return others[random() % others.size()]; };
      switch (random() % 6) {
        case 0:
          if (others.size() < 6) others.push_back(connect());
          break;
        case 1:
          if (!others.empty())
            others.erase(others.begin() + static_cast<long>(random() % others.size()));
          break;
        case 2:
          if (!others.empty())
            static_cast<void>(::send(any().fd(), "??", random() % 3, MSG_NOSIGNAL));
          break;
        case 3:
          if (!others.empty()) static_cast<void>(any().send(kFlood, {}));
          break;
        case 4:
          if (!others.empty()) static_cast<void>(any().send(kEcho, bytes_of("x")));
          break;
        default:
          turn(1);
      }
    }
    EXPECT_EQ(ask(good, kEcho, "good"), "good");
    others.clear();
    turn();
    EXPECT_EQ(clients->count(), 1U);
    good = connect();
    turn();
  }
}

}  // namespace
}  // namespace verbatim::service
