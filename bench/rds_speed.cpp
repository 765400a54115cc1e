// A program with an AF_RDS socket that measures: round trips, and messages in one direction. Both
// ends poll (MSG_DONTWAIT), or sleep. It has no other library than libc: `bench/rds.py` starts it.
//
//   bench_rds_speed answer ADDRESS PORT                   until it is ended
//   bench_rds_speed ask ADDRESS PEER PORT COUNT BYTES poll|sleep
//   bench_rds_speed take ADDRESS PORT COUNT
//   bench_rds_speed give ADDRESS PEER PORT COUNT BYTES
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

namespace {

constexpr int kFamily = 21;  // AF_RDS
constexpr std::size_t kBytesMax = 1 << 20;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "bench_rds_speed: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

sockaddr_in at(const char* address, const char* port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
  if (inet_pton(AF_INET, address, &to.sin_addr) != 1) fail(address);
  return to;
}

int open_socket(const char* address, const char* port) {
  const int fd = socket(kFamily, SOCK_SEQPACKET, 0);
  const sockaddr_in own = at(address, port);
  if (fd < 0 || bind(fd, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0) fail("bind");
  return fd;
}

double seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

std::size_t receive(int fd, std::vector<char>& bytes, int flags, sockaddr_in& from) {
  for (;;) {
    socklen_t length = sizeof from;
    const ssize_t got = recvfrom(fd, bytes.data(), bytes.size(), flags,
                                 reinterpret_cast<sockaddr*>(&from), &length);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EAGAIN && errno != EINTR) fail("recvfrom");
  }
}

void send(int fd, const std::vector<char>& bytes, std::size_t count, const sockaddr_in& to) {
  if (sendto(fd, bytes.data(), count, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to) !=
      static_cast<ssize_t>(count))
    fail("sendto");
}

/// As the one that asks does: the first byte of a message says whether this end sleeps.
void answer(int fd) {
  std::vector<char> bytes(kBytesMax);
  sockaddr_in from{};
  std::printf("answers\n");
  std::fflush(stdout);
  for (int flags = 0;;) {
    const std::size_t got = receive(fd, bytes, flags, from);
    flags = got > 0 && bytes[0] == 'p' ? MSG_DONTWAIT : 0;
    send(fd, bytes, got, from);
  }
}

void ask(int fd, const sockaddr_in& to, long count, std::size_t size, bool polls) {
  std::vector<char> bytes(size), answer(kBytesMax);
  sockaddr_in from{};
  const int flags = polls ? MSG_DONTWAIT : 0;
  const auto turn = [&](char word) {
    if (size > 0) bytes[0] = word;
    send(fd, bytes, size, to);
    receive(fd, answer, flags, from);
  };
  for (int i = 0; i < 1000; ++i) turn(polls ? 'p' : 's');
  const double began = seconds(), used = processor_seconds();
  for (long i = 0; i < count; ++i) turn(polls ? 'p' : 's');
  const double all = static_cast<double>(count);
  const double took = seconds() - began;
  std::printf("%.3f us a round trip, %.3f us of processor time here\n", 1e6 * took / all,
              1e6 * (processor_seconds() - used) / all);
  turn('s');
}

void take(int fd, long count) {
  std::vector<char> bytes(kBytesMax);
  sockaddr_in from{};
  std::printf("takes\n");
  std::fflush(stdout);
  receive(fd, bytes, 0, from);
  const double began = seconds(), used = processor_seconds();
  for (long i = 1; i < count; ++i) receive(fd, bytes, 0, from);
  const double all = static_cast<double>(count - 1);
  std::printf("%.0f messages a second, %.3f us of processor time each here\n",
              all / (seconds() - began), 1e6 * (processor_seconds() - used) / all);
}

void give(int fd, const sockaddr_in& to, long count, std::size_t size) {
  const std::vector<char> bytes(size);
  const double used = processor_seconds();
  for (long i = 0; i < count; ++i) send(fd, bytes, size, to);
  std::printf("%.3f us of processor time each here\n",
              1e6 * (processor_seconds() - used) / static_cast<double>(count));
}

}  // namespace

int main(int count, char** words) {
  const std::string what = count > 1 ? words[1] : "";
  if (what == "answer" && count == 4) {
    answer(open_socket(words[2], words[3]));
  } else if (what == "take" && count == 5) {
    take(open_socket(words[2], words[3]), std::atol(words[4]));
  } else if (what == "ask" && count == 8) {
    ask(open_socket(words[2], "0"), at(words[3], words[4]), std::atol(words[5]),
        static_cast<std::size_t>(std::atol(words[6])), words[7] == std::string("poll"));
  } else if (what == "give" && count == 7) {
    give(open_socket(words[2], "0"), at(words[3], words[4]), std::atol(words[5]),
         static_cast<std::size_t>(std::atol(words[6])));
  } else {
    return 2;
  }
  return 0;
}
