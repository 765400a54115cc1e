// rsockets through the C interface: guarantees that programs with sockets rely on, and wrong use.
#include <cerrno>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <rdma/rsocket.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test_util.h"

namespace rdmacm_test {
namespace {

/// An rsocket that is closed by the destructor.
class Socket {
 public:
  explicit Socket(int number) : number_(number) { EXPECT_NE(number, -1); }
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  int get() const { return number_; }
  void close() {
    if (number_ < 0) return;
    EXPECT_EQ(rclose(std::exchange(number_, -1)), 0);
  }

 private:
  int number_;
};

Socket stream() { return Socket(rsocket(AF_INET, SOCK_STREAM, 0)); }

struct Listener {
  Socket socket = stream();
  sockaddr_in address = address_of(own_address(), 0);

  Listener() {
    EXPECT_EQ(rbind(socket.get(), as_sockaddr(address), sizeof address), 0);
    EXPECT_EQ(rlisten(socket.get(), 8), 0);
    socklen_t length = sizeof address;
    EXPECT_EQ(rgetsockname(socket.get(), as_sockaddr(address), &length), 0);
    EXPECT_NE(address.sin_port, 0);
  }
};

/// Two connected ends in one process.
struct Pair {
  Listener listener;
  Socket a = stream();
  Socket b = Socket(-2);

  Pair() : b(connected()) {}
  Socket connected() {
    std::thread connecting([this] {
      EXPECT_EQ(rconnect(a.get(), as_sockaddr(listener.address), sizeof listener.address), 0);
    });
    Socket accepted(raccept(listener.socket.get(), nullptr, nullptr));
    connecting.join();
    return accepted;
  }
};

std::vector<char> pattern(std::size_t bytes) {
  std::vector<char> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(i * 31 + i / 251);
  return data;
}

std::vector<char> read_to_end(int socket) {
  std::vector<char> data;
  std::vector<char> piece(70'000);
  for (ssize_t got = 0; (got = rrecv(socket, piece.data(), piece.size(), 0)) > 0;) {
    data.insert(data.end(), piece.begin(), piece.begin() + got);
  }
  return data;
}

TEST(Rsocket, BytesGoBothWaysAtOnceUntilShutdown) {
  Pair pair;
  const auto data = pattern(2'000'000);
  const auto send_all = [&data](int socket) {
    EXPECT_EQ(rsend(socket, data.data(), data.size(), 0), ssize_t(data.size()));
    EXPECT_EQ(rshutdown(socket, SHUT_WR), 0);
  };
  std::thread from_a([&] { send_all(pair.a.get()); });
  std::thread from_b([&] { send_all(pair.b.get()); });
  std::vector<char> at_a;
  std::thread to_a([&] { at_a = read_to_end(pair.a.get()); });
  EXPECT_EQ(read_to_end(pair.b.get()), data);
  to_a.join();
  EXPECT_EQ(at_a, data);
  from_a.join();
  from_b.join();
}

TEST(Rsocket, WhatWasSentBeforeCloseIsReadAfterIt) {
  Pair pair;
  const auto data = pattern(50'000);
  EXPECT_EQ(rsend(pair.a.get(), data.data(), data.size(), 0), ssize_t(data.size()));
  pair.a.close();
  EXPECT_EQ(read_to_end(pair.b.get()), data);
  EXPECT_EQ(rsend(pair.b.get(), data.data(), 1, 0), -1);
  EXPECT_EQ(errno, EPIPE);  // As TCP's after the peer's end; rdma-core's has ECONNRESET.
}

TEST(Rsocket, PeekWaitallAndGatheredPieces) {
  Pair pair;
  char hello[] = "hello ";
  char world[] = "world";
  const iovec pieces[] = {{hello, 6}, {world, 5}};
  EXPECT_EQ(rwritev(pair.a.get(), pieces, 2), 11);
  char text[16] = {};
  EXPECT_EQ(rrecv(pair.b.get(), text, 5, MSG_PEEK), 5);
  EXPECT_EQ(std::string(text), "hello");
  std::memset(text, 0, sizeof text);
  EXPECT_EQ(rrecv(pair.b.get(), text, 11, MSG_WAITALL), 11);
  EXPECT_EQ(std::string(text), "hello world");
}

TEST(Rsocket, NonblockingSaysSoAndPollTellsWhen) {
  Pair pair;
  EXPECT_EQ(rfcntl(pair.b.get(), F_SETFL, O_NONBLOCK), 0);
  EXPECT_TRUE(rfcntl(pair.b.get(), F_GETFL) & O_NONBLOCK);
  char byte = 0;
  EXPECT_EQ(rrecv(pair.b.get(), &byte, 1, 0), -1);
  EXPECT_EQ(errno, EAGAIN);
  pollfd waiting{pair.b.get(), POLLIN | POLLOUT, 0};
  EXPECT_EQ(rpoll(&waiting, 1, 0), 1);
  EXPECT_EQ(waiting.revents, POLLOUT);
  waiting.events = POLLIN;
  EXPECT_EQ(rpoll(&waiting, 1, 20), 0);
  std::thread later([&pair] { EXPECT_EQ(rsend(pair.a.get(), "x", 1, 0), 1); });
  EXPECT_EQ(rpoll(&waiting, 1, kTimeoutMs), 1);
  EXPECT_EQ(waiting.revents, POLLIN);
  later.join();
  EXPECT_EQ(rrecv(pair.b.get(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'x');
}

TEST(Rsocket, SelectSeesRsocketsAndPipes) {
  Pair pair;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "p", 1), 1);
  fd_set read;
  FD_ZERO(&read);
  FD_SET(ends[0], &read);
  FD_SET(pair.b.get(), &read);
  timeval limit{5, 0};
  EXPECT_EQ(rselect(FD_SETSIZE, &read, nullptr, nullptr, &limit), 1);
  EXPECT_TRUE(FD_ISSET(ends[0], &read));
  EXPECT_FALSE(FD_ISSET(pair.b.get(), &read));
  close(ends[0]);
  close(ends[1]);
}

TEST(Rsocket, NonblockingConnect) {
  Listener listener;
  Socket client = stream();
  EXPECT_EQ(rfcntl(client.get(), F_SETFL, O_NONBLOCK), 0);
  const int result = rconnect(client.get(), as_sockaddr(listener.address), sizeof listener.address);
  EXPECT_TRUE(result == 0 || errno == EINPROGRESS);
  std::thread accepting([&listener] { Socket(raccept(listener.socket.get(), nullptr, nullptr)); });
  pollfd waiting{client.get(), POLLOUT, 0};
  EXPECT_EQ(rpoll(&waiting, 1, kTimeoutMs), 1);
  int error = -1;
  socklen_t length = sizeof error;
  EXPECT_EQ(rgetsockopt(client.get(), SOL_SOCKET, SO_ERROR, &error, &length), 0);
  EXPECT_EQ(error, 0);
  accepting.join();
}

TEST(Rsocket, NobodyListens) {
  Socket client = stream();
  sockaddr_in nobody = address_of(own_address(), 9);
  EXPECT_EQ(rconnect(client.get(), as_sockaddr(nobody), sizeof nobody), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
}

TEST(Rsocket, MappedBuffersAreWrittenInPlace) {
  Pair pair;
  std::vector<char> unmapped(64);
  EXPECT_EQ(riomap(pair.b.get(), unmapped.data(), 64, PROT_WRITE, 0, 0), -1);
  EXPECT_EQ(errno, ENOMEM);  // No map was requested with RDMA_IOMAPSIZE.
}

TEST(Rsocket, Datagrams) {
  const auto bound = [](sockaddr_in& address) {
    Socket socket(rsocket(AF_INET, SOCK_DGRAM, 0));
    address = address_of(own_address(), 0);
    socklen_t length = sizeof address;
    EXPECT_EQ(rbind(socket.get(), as_sockaddr(address), sizeof address), 0);
    EXPECT_EQ(rgetsockname(socket.get(), as_sockaddr(address), &length), 0);
    return socket;
  };
  sockaddr_in at_a{};
  sockaddr_in at_b{};
  Socket a = bound(at_a);
  Socket b = bound(at_b);
  for (int i = 0; i < 20; ++i) {  // The first are sent over UDP, the others between queue pairs.
    const std::string text = "datagram " + std::to_string(i);
    ASSERT_EQ(rsendto(a.get(), text.data(), text.size(), 0, as_sockaddr(at_b), sizeof at_b),
              ssize_t(text.size()));
    char received[64] = {};
    sockaddr_in from{};
    socklen_t length = sizeof from;
    ASSERT_EQ(rrecvfrom(b.get(), received, sizeof received, 0, as_sockaddr(from), &length),
              ssize_t(text.size()));
    EXPECT_EQ(received, text);
    EXPECT_EQ(from.sin_port, at_a.sin_port);
    EXPECT_EQ(rsendto(b.get(), "y", 1, 0, as_sockaddr(from), sizeof from), 1);
    EXPECT_EQ(rrecv(a.get(), received, sizeof received, 0), 1);
  }
  const std::vector<char> much(3000);
  EXPECT_EQ(rsendto(a.get(), much.data(), much.size(), 0, as_sockaddr(at_b), sizeof at_b), -1);
  EXPECT_EQ(errno, EMSGSIZE);
}

TEST(Rsocket, AForkedChildHasNoneOfItsParents) {
  Pair pair;
  const pid_t child = fork();
  if (child == 0) {
    const bool none = rclose(pair.a.get()) == -1 && errno == EBADF;
    // A new socket gets the number; the parent's is not changed.
    close(pair.a.get());
    const int own = rsocket(AF_INET, SOCK_STREAM, 0);
    _exit(none && own >= 0 && rclose(own) == 0 ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(rsend(pair.a.get(), "here", 4, 0), 4);
  std::vector<char> got(4);
  EXPECT_EQ(rrecv(pair.b.get(), got.data(), got.size(), MSG_WAITALL), 4);
}

TEST(Rsocket, WrongUse) {
  const auto errno_of = [](auto result) {
    EXPECT_EQ(result, -1);
    return errno;
  };
  EXPECT_EQ(errno_of(rsocket(AF_UNIX, SOCK_STREAM, 0)), ENOTSUP);
  EXPECT_EQ(errno_of(rsocket(AF_INET, SOCK_RAW, 0)), ENOTSUP);
  EXPECT_EQ(errno_of(rclose(0)), EBADF);
  EXPECT_EQ(errno_of(rsend(0, "x", 1, 0)), EBADF);
  Socket fresh = stream();
  char byte = 0;
  EXPECT_EQ(errno_of(rrecv(fresh.get(), &byte, 1, 0)), ENOTCONN);
  EXPECT_EQ(errno_of(rshutdown(fresh.get(), SHUT_WR)), ENOTCONN);
  EXPECT_EQ(errno_of(raccept(fresh.get(), nullptr, nullptr)), EINVAL);
  sockaddr_in peer{};
  socklen_t length = sizeof peer;
  EXPECT_EQ(errno_of(rgetpeername(fresh.get(), as_sockaddr(peer), &length)), ENOTCONN);
  Pair pair;
  EXPECT_EQ(rshutdown(pair.a.get(), SHUT_WR), 0);
  EXPECT_EQ(errno_of(rsend(pair.a.get(), "x", 1, 0)), EPIPE);
  int value = 64;
  EXPECT_EQ(errno_of(rsetsockopt(pair.a.get(), SOL_RDMA, RDMA_SQSIZE, &value, sizeof value)),
            EINVAL);
}

}  // namespace
}  // namespace rdmacm_test
