// Programs with RDS sockets, for Linux's rds_rdma and for ours. It has no other library than libc.
//
//   rds_session echo ADDRESS PORT [BUFFER]          answers each message with the same one
//   rds_session ask ADDRESS PEER PORT COUNT BYTES [BUFFER]
//                                                   sends messages and checks the answers
//   rds_session ping ADDRESS PEER COUNT             sends to port 0, and waits for the answers
//   rds_session flood ADDRESS PEER PORT COUNT BYTES sends without waiting for answers
//   rds_session drain ADDRESS PORT COUNT            receives them: each once and in order
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace {

constexpr int kFamily = 21, kLevel = 276;       // AF_RDS, SOL_RDS
constexpr int kTransport = 8, kInfiniband = 0;  // SO_RDS_TRANSPORT, RDS_TRANS_IB
constexpr std::size_t kBytesMax = 1 << 20;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "rds_session: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

[[noreturn]] void fail_at(const char* what, unsigned long number) {
  std::fprintf(stderr, "rds_session: %s, message %lu\n", what, number);
  std::exit(1);
}

sockaddr_in at(const char* address, const char* port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
  if (inet_pton(AF_INET, address, &to.sin_addr) != 1) fail(address);
  return to;
}

int open_socket(const char* address, const char* port, int buffer) {
  const int fd = socket(kFamily, SOCK_SEQPACKET, 0);
  if (fd < 0) fail("socket");
  if (setsockopt(fd, kLevel, kTransport, &kInfiniband, sizeof kInfiniband) != 0)
    fail("SO_RDS_TRANSPORT");
  for (const int option : {SO_SNDBUF, SO_RCVBUF}) {
    if (buffer != 0 && setsockopt(fd, SOL_SOCKET, option, &buffer, sizeof buffer) != 0)
      fail("buffers");
  }
  const timeval patience{60, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const sockaddr_in own = at(address, port);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0) fail("bind");
  return fd;
}

void send(int fd, const sockaddr_in& to, const std::vector<char>& bytes) {
  const ssize_t sent =
      sendto(fd, bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  if (sent != static_cast<ssize_t>(bytes.size())) fail("sendto");
}

/// Returns who has sent it.
sockaddr_in receive(int fd, std::vector<char>& bytes) {
  sockaddr_in from{};
  socklen_t length = sizeof from;
  bytes.resize(kBytesMax);
  ssize_t got = 0;
  do {  // A program that was stopped is interrupted.
    got = recvfrom(fd, bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&from), &length);
  } while (got < 0 && errno == EINTR);
  if (got < 0) fail("recvfrom");
  bytes.resize(static_cast<std::size_t>(got));
  return from;
}

std::vector<char> content(unsigned long number, std::size_t size) {
  std::vector<char> bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<char>(number * 31 + i * 7 + i / 4096);
  return bytes;
}

void echo(const char* address, const char* port, int buffer) {
  const int fd = open_socket(address, port, buffer);
  std::printf("echoes\n");
  std::fflush(stdout);
  for (std::vector<char> bytes;;) send(fd, receive(fd, bytes), bytes);
}

void ask(char** words, int buffer) {
  const int fd = open_socket(words[0], "0", buffer);
  const sockaddr_in to = at(words[1], words[2]);
  const unsigned long count = std::strtoul(words[3], nullptr, 10);
  const std::size_t size = std::strtoul(words[4], nullptr, 10);
  std::vector<char> answer;
  for (unsigned long i = 0; i < count; ++i) {
    const std::vector<char> bytes = content(i, size);
    send(fd, to, bytes);
    const sockaddr_in from = receive(fd, answer);
    if (from.sin_port != to.sin_port || from.sin_addr.s_addr != to.sin_addr.s_addr)
      fail_at("a stranger answers", i);
    if (answer != bytes) fail_at("another answer", i);
  }
  std::printf("%lu messages of %zu bytes\n", count, size);
}

void ping(char** words) {
  const int fd = open_socket(words[0], "0", 0);
  const sockaddr_in to = at(words[1], "0");
  const unsigned long count = std::strtoul(words[2], nullptr, 10);
  std::vector<char> answer;
  for (unsigned long i = 0; i < count; ++i) {
    send(fd, to, {});
    const sockaddr_in from = receive(fd, answer);
    if (from.sin_port != 0 || !answer.empty()) fail_at("no answer to a ping", i);
  }
  std::printf("%lu pings\n", count);
}

void flood(char** words) {
  const int fd = open_socket(words[0], "0", 0);
  const sockaddr_in to = at(words[1], words[2]);
  const unsigned long count = std::strtoul(words[3], nullptr, 10);
  const std::size_t size = std::strtoul(words[4], nullptr, 10);
  for (unsigned long i = 0; i < count; ++i) send(fd, to, content(i, size));
  // Linux drops what a closed socket has not sent: wait for the word that all has come.
  std::vector<char> answer;
  receive(fd, answer);
  std::printf("%lu messages of %zu bytes\n", count, size);
}

void drain(char** words) {
  const int fd = open_socket(words[0], words[1], 0);
  std::printf("drains\n");
  std::fflush(stdout);
  const unsigned long count = std::strtoul(words[2], nullptr, 10);
  std::vector<char> bytes;
  sockaddr_in from{};
  for (unsigned long i = 0; i < count; ++i) {
    from = receive(fd, bytes);
    if (bytes != content(i, bytes.size())) fail_at("not the next message", i);
  }
  send(fd, from, {});
  // Until the answer has left.
  sleep(1);
  std::printf("%lu messages\n", count);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const auto buffer = [&](int place) { return argc > place ? std::atoi(argv[place]) : 0; };
  if (mode == "echo" && argc >= 4) return echo(argv[2], argv[3], buffer(4)), 0;
  if (mode == "ask" && argc >= 7) return ask(argv + 2, buffer(7)), 0;
  if (mode == "ping" && argc == 5) return ping(argv + 2), 0;
  if (mode == "flood" && argc == 7) return flood(argv + 2), 0;
  if (mode == "drain" && argc == 5) return drain(argv + 2), 0;
  std::fprintf(stderr, "usage: rds_session echo|ask|ping|flood|drain ADDRESS ...\n");
  return 2;
}
