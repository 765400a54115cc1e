#include <array>
#include <atomic>
#include <future>
#include <set>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test_util.h"

namespace infinity {
namespace {

using namespace kit;

TEST(Factory, UserDataOfBothSidesUpToTheWholeRoom) {
  const std::string most(1024, 'x');
  const Pair pair("asks", most);
  EXPECT_EQ(pair.a->getUserDataSize(), 1024u);
  EXPECT_EQ(std::memcmp(pair.a->getUserData(), most.data(), 1024), 0);
  EXPECT_TRUE(pair.b->hasUserData());
  EXPECT_EQ(std::string(static_cast<char*>(pair.b->getUserData()), pair.b->getUserDataSize()),
            "asks");
  EXPECT_NE(pair.a->getQueuePairNumber(), pair.b->getQueuePairNumber());
  EXPECT_LE(pair.a->getSequenceNumber(), 0xffffffu);
}

TEST(Factory, NoUserDataIsNone) {
  Pair pair;
  EXPECT_FALSE(pair.a->hasUserData());
  EXPECT_EQ(pair.a->getUserData(), nullptr);
  char byte = 0;
  EXPECT_NE(error_of([&] {
              pair.factory.connectToRemoteHost(own_address(), 1, &byte, 1025);
            }).find("1025 bytes of user data; there is room for 1024"),
            std::string::npos);
}

TEST(Factory, TokensTravelAsRawBytes) {
  Context shows;
  Buffer shown(&shows, 4096);
  put(shown, "shown");
  const std::unique_ptr<RegionToken> token(shown.createRegionToken());
  Context context;
  QueuePairFactory factory(&context);
  Listening listening(shows);
  auto accepted = std::async(std::launch::async, [&] {
    return std::unique_ptr<QueuePair>(
        listening.acceptIncomingConnection(token.get(), sizeof(RegionToken)));
  });
  const std::unique_ptr<QueuePair> connected(
      factory.connectToRemoteHost(is_iwarp() ? own_address() : "localhost", listening.port()));
  auto* const seen = static_cast<RegionToken*>(connected->getUserData());
  EXPECT_EQ(seen->getSizeInBytes(), 4096u);
  Buffer here(&context, 4096);
  connected->read(&here, seen, context.defaultRequestToken);
  EXPECT_TRUE(done(*context.defaultRequestToken));
  EXPECT_EQ(text(here, 5), "shown");
}

/// Eight threads connect at once with one factory; their messages arrive with the right queue
/// pairs.
TEST(Factory, EightThreadsConnectAtOnce) {
  constexpr uint32_t kThreads = 8;
  Context server;
  Context client;
  Listening listening(server);
  QueuePairFactory factory(&client);
  std::vector<std::unique_ptr<Buffer>> places;
  for (uint32_t i = 0; i < kThreads; ++i) {
    places.push_back(std::make_unique<Buffer>(&server, 64));
    server.postReceiveBuffer(places.back().get());
  }
  std::array<std::unique_ptr<QueuePair>, kThreads> connected;
  std::array<std::unique_ptr<QueuePair>, kThreads> accepted;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      accepted[i].reset(listening.acceptIncomingConnection());  // From several threads, too.
    });
    threads.emplace_back([&, i] {
      uint32_t number = i;
      connected[i].reset(factory.connectToRemoteHost(own_address(), listening.port(), &number, 4));
      Buffer message(&client, 64);
      RequestToken request(&client);
      std::memcpy(message.getData(), &i, sizeof i);
      connected[i]->send(&message, 4, &request);
      EXPECT_TRUE(done(request));
    });
  }
  std::set<uint32_t> seen;
  for (uint32_t i = 0; i < kThreads; ++i) {
    const receive_element_t message = next_message(server);
    ASSERT_NE(message.queuePair, nullptr);
    const uint32_t number = *static_cast<uint32_t*>(message.buffer->getData());
    EXPECT_EQ(*static_cast<uint32_t*>(message.queuePair->getUserData()), number);
    seen.insert(number);
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(seen.size(), kThreads);
}

TEST(Factory, SeveralContextsReceiveWhatIsTheirs) {
  Pair first;
  Pair second;
  Buffer place_of_first(&first.context_b, 64);
  Buffer place_of_second(&second.context_b, 64);
  first.context_b.postReceiveBuffer(&place_of_first);
  second.context_b.postReceiveBuffer(&place_of_second);
  Buffer message(&second.context_a, 64);
  put(message, "to the second");
  second.a->send(&message, 13, second.context_a.defaultRequestToken);
  EXPECT_TRUE(done(*second.context_a.defaultRequestToken));
  EXPECT_EQ(next_message(second.context_b).queuePair, second.b.get());
  receive_element_t none;
  EXPECT_FALSE(first.context_b.receive(&none));
}

TEST(Factory, ALoopbackReceivesItsOwnMessages) {
  Context context;
  QueuePairFactory factory(&context);
  char data[] = "own";
  const std::unique_ptr<QueuePair> loop(factory.createLoopback(data, 3));
  EXPECT_EQ(std::string(static_cast<char*>(loop->getUserData()), 3), "own");
  Buffer from(&context, 64);
  Buffer to(&context, 64);
  Buffer place(&context, 64);
  context.postReceiveBuffer(&place);
  put(from, "loop");
  const std::unique_ptr<RegionToken> token(to.createRegionToken());
  loop->write(&from, token.get(), context.defaultRequestToken);
  ASSERT_TRUE(done(*context.defaultRequestToken));
  Buffer sink(&context, 8);
  loop->read(&sink, token.get(), 8,
             context.defaultRequestToken);  // Waits for the WRITE over iWARP.
  ASSERT_TRUE(done(*context.defaultRequestToken));
  EXPECT_EQ(text(to, 4), "loop");
  loop->send(&from, 4, context.defaultRequestToken);
  ASSERT_TRUE(done(*context.defaultRequestToken));
  const receive_element_t message = next_message(context);
  EXPECT_EQ(message.buffer, &place);
  EXPECT_EQ(message.queuePair, loop.get());
}

TEST(Factory, NobodyListens) {
  Context context;
  QueuePairFactory factory(&context);
  EXPECT_NE(error_of([&] {
              factory.connectToRemoteHost(own_address(), 1);
            }).find("is the other program listening (bindToPort)?"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              factory.connectToRemoteHost("no.such.host.invalid", 1);
            }).find("has no address"),
            std::string::npos);
  EXPECT_NE(error_of([&] { factory.acceptIncomingConnection(); }).find("bindToPort"),
            std::string::npos);
  const Listening listening(context);
  EXPECT_NE(error_of([&] { factory.bindToPort(listening.port()); }).find("cannot be listened at"),
            std::string::npos);
}

int raw_connection(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{.sin_family = AF_INET, .sin_port = htons(port)};
  inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  return fd;
}

/// Strangers, and a peer with Infinity's own library, which only knows LIDs: each is reported, and
/// the next peer is connected.
TEST(Factory, WhoDoesNotConnectKeepsNobodyOut) {
  Context server;
  Context client;
  Listening listening(server);
  QueuePairFactory factory(&client);
  testing::internal::CaptureStderr();
  auto accepted = std::async(std::launch::async, [&] {
    return std::unique_ptr<QueuePair>(listening.acceptIncomingConnection());
  });
  close(raw_connection(listening.port()));  // Sends nothing.

  const int stranger = raw_connection(listening.port());
  const std::string noise(1040, '\xff');
  EXPECT_EQ(send(stranger, noise.data(), noise.size(), 0), 1040);

  const int upstream = raw_connection(listening.port());
  std::array<unsigned char, 1040> greeting{};
  greeting[0] = 9;   // LID.
  greeting[4] = 77;  // Queue pair.
  greeting[12] = 5;  // Bytes of user data.
  EXPECT_EQ(send(upstream, greeting.data(), greeting.size(), 0), 1040);
  std::array<unsigned char, 2048> answer{};
  EXPECT_EQ(recv(upstream, answer.data(), answer.size(), MSG_WAITALL), 1040);  // And no more.
  EXPECT_EQ(answer[2], 'V');
  EXPECT_EQ(answer[3], 'B');

  const std::unique_ptr<QueuePair> connected(
      factory.connectToRemoteHost(own_address(), listening.port()));
  EXPECT_TRUE(accepted.get());
  close(stranger);
  close(upstream);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("has closed the TCP connection"), std::string::npos) << told;
  EXPECT_NE(told.find("speaks something else"), std::string::npos) << told;
  EXPECT_NE(told.find("library is Infinity itself"), std::string::npos) << told;
}

/// A server with Infinity's own library has zeros where ours has its mark.
TEST(Factory, AnInfinityServerOverAnotherLinkIsToldOf) {
  Context context;
  QueuePairFactory factory(&context);
  Listening port_of(context);
  const int server = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{.sin_family = AF_INET};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(server, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  ASSERT_EQ(listen(server, 1), 0);
  socklen_t size = sizeof at;
  getsockname(server, reinterpret_cast<sockaddr*>(&at), &size);
  std::thread answers([&] {
    const int peer = accept(server, nullptr, nullptr);
    std::array<char, 1040> bytes{};
    EXPECT_EQ(recv(peer, bytes.data(), bytes.size(), MSG_WAITALL), 1040);
    bytes.fill(0);
    EXPECT_EQ(send(peer, bytes.data(), bytes.size(), 0), 1040);
    EXPECT_EQ(recv(peer, bytes.data(), 1, 0), 0);  // Ours sends nothing more.
    close(peer);
  });
  EXPECT_NE(error_of([&] {
              factory.connectToRemoteHost("127.0.0.1", ntohs(at.sin_port));
            }).find("both programs need this library"),
            std::string::npos);
  answers.join();
  close(server);
}

/// The peer's program is killed: the outstanding request and later ones fail.
TEST(Factory, APeerThatDies) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Context context;
    Buffer shown(&context, 4096);
    const std::unique_ptr<RegionToken> token(shown.createRegionToken());
    Listening listening(context);
    const uint16_t port = listening.port();
    if (write(ready[1], &port, sizeof port) != sizeof port) _exit(1);
    const std::unique_ptr<QueuePair> peer(
        listening.acceptIncomingConnection(token.get(), sizeof *token));
    pause();
    _exit(1);
  }
  uint16_t port = 0;
  ASSERT_EQ(read(ready[0], &port, sizeof port), static_cast<ssize_t>(sizeof port));
  Context context;
  QueuePairFactory factory(&context);
  const std::unique_ptr<QueuePair> connected(factory.connectToRemoteHost(own_address(), port));
  auto* const token = static_cast<RegionToken*>(connected->getUserData());
  Buffer here(&context, 4096);
  RequestToken request(&context);
  connected->read(&here, token, &request);
  EXPECT_TRUE(done(request));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  testing::internal::CaptureStderr();
  // Over iWARP, WRITEs complete early; a READ needs the peer.
  connected->read(&here, token, &request);
  EXPECT_FALSE(done(request));
  connected->read(&here, token, &request);
  EXPECT_FALSE(done(request));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("infinity: a request of queue pair "),
            std::string::npos);
  close(ready[0]);
  close(ready[1]);
}

TEST(Factory, AMessageThatIsTooLongIsToldOfAndItsBufferPostedAgain) {
  Connected pair;
  Buffer place(&pair.context_b, 16);
  pair.context_b.postReceiveBuffer(&place);
  testing::internal::CaptureStderr();
  pair.a->send(&pair.here, 17, &pair.request);
  pair.request.waitUntilCompleted();
  pair.a->read(&pair.here, pair.token.get(), &pair.request);  // The connection has ended.
  EXPECT_FALSE(done(pair.request));
  receive_element_t message;
  EXPECT_FALSE(pair.context_b.receive(&message));
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("the message is longer than the buffer"), std::string::npos) << told;

  // Another connection of the same context takes it.
  auto accepted = std::async(std::launch::async, [&] {
    return std::unique_ptr<QueuePair>(pair.listening.acceptIncomingConnection());
  });
  const std::unique_ptr<QueuePair> second(
      pair.factory.connectToRemoteHost(own_address(), pair.listening.port()));
  const std::unique_ptr<QueuePair> peer = accepted.get();
  second->send(&pair.here, 16, &pair.request);
  EXPECT_TRUE(done(pair.request));
  message = next_message(pair.context_b);
  EXPECT_EQ(message.buffer, &place);
  EXPECT_EQ(message.queuePair, peer.get());
}

}  // namespace
}  // namespace infinity
