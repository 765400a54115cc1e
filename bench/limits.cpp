// bench_limits: the machine's limits, without any layer in between. See usage().
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kUdpPayloadMax = 65507;
constexpr std::uint64_t kRoundTripsOfBatch = 1000;
constexpr std::size_t kCopiedOfBatch = std::size_t{16} << 20;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

void check(bool good, const char* what) {
  if (!good) fail(what);
}

/// Binds the calling thread to the CPU at index `place` of those that this program may use.
void stay_on_processor(int place) {
  cpu_set_t allowed;
  check(sched_getaffinity(0, sizeof allowed, &allowed) == 0, "sched_getaffinity");
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &allowed) || place-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    check(sched_setaffinity(0, sizeof one, &one) == 0, "sched_setaffinity");
    return;
  }
  std::fprintf(stderr, "bench_limits: this needs two processors\n");
  std::exit(1);
}

/// Returns the median time of one `batch()`, of as many as fit in `seconds`.
template <typename Batch>
double median_seconds(double seconds, Batch batch) {
  std::vector<double> samples;
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  auto before = Clock::now();
  do {
    batch();
    const auto after = Clock::now();
    samples.push_back(std::chrono::duration<double>(after - before).count());
    before = after;
  } while (before < deadline);
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::ranges::nth_element(samples, middle);
  return *middle;
}

/// Two threads wait for each other's store to one cache line. Prints microseconds one way.
void ping_pong(double seconds) {
  constexpr std::uint64_t kEnd = ~std::uint64_t{0};
  alignas(kCacheLine) static std::atomic<std::uint64_t> line{0};
  // This thread stores odd values, the other one even ones.
  std::thread other([] {
    stay_on_processor(1);
    for (std::uint64_t answer = 2;; answer += 2) {
      std::uint64_t seen = 0;
      while ((seen = line.load(std::memory_order_acquire)) != answer - 1) {
        if (seen == kEnd) return;
      }
      line.store(answer, std::memory_order_release);
    }
  });
  stay_on_processor(0);
  std::uint64_t value = 0;
  const double batch = median_seconds(seconds, [&value] {
    for (std::uint64_t i = 0; i < kRoundTripsOfBatch; ++i) {
      line.store(value + 1, std::memory_order_release);
      value += 2;
      while (line.load(std::memory_order_acquire) != value) {
      }
    }
  });
  line.store(kEnd, std::memory_order_release);
  other.join();
  std::printf("%.4f us\n", batch * 1e6 / kRoundTripsOfBatch / 2);
}

/// Copies between the same two buffers, as perftest does. Prints GB/s.
void copy(double seconds, std::size_t bytes) {
  std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes, 2);
  const std::size_t copies = std::max<std::size_t>(1, kCopiedOfBatch / bytes);
  const double batch = median_seconds(seconds, [&] {
    for (std::size_t i = 0; i < copies; ++i) {
      std::memcpy(to.data(), from.data(), bytes);
      asm volatile("" : : "r"(to.data()) : "memory");  // Prevents that a copy is optimised away.
    }
  });
  std::printf("%.4f GB/s\n", static_cast<double>(bytes * copies) / batch / 1e9);
}

/// A UDP socket on a free port of loopback.
struct Socket {
  static constexpr int kReceiveBuffer = 1 << 20;

  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};

  Socket() {
    check(fd >= 0, "socket");
    socklen_t size = sizeof address;
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    check(bind(fd, plain, size) == 0 && getsockname(fd, plain, &size) == 0, "bind");
    set(SOL_SOCKET, SO_RCVBUF, kReceiveBuffer);
  }
  ~Socket() { close(fd); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  template <typename Value>
  void set(int level, int option, Value value) const {
    check(setsockopt(fd, level, option, &value, sizeof value) == 0, "setsockopt");
  }

  /// Returns how many calls of `bytes` certainly fit in the receive buffer.
  std::uint64_t room_in_calls(std::size_t bytes) const {
    int buffer = 0;
    socklen_t size = sizeof buffer;
    check(getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, &size) == 0, "SO_RCVBUF");
    // The kernel counts its own memory for a datagram: up to twice the bytes and some more.
    return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(buffer) / (2 * bytes + 2048));
  }
};

/// Shared by the two threads of a UDP run.
struct UdpRun {
  Socket receiver;
  std::atomic<std::uint64_t> received = 0;  // Bytes. Only the receiving thread writes it.
  std::atomic<bool> has_ended = false;      // No more is sent.
};

void receive(UdpRun& run) {
  stay_on_processor(1);
  std::vector<char> buffer(kUdpPayloadMax);
  while (true) {
    const ssize_t bytes = recv(run.receiver.fd, buffer.data(), buffer.size(), 0);
    if (bytes >= 0) {
      run.received.fetch_add(static_cast<std::uint64_t>(bytes), std::memory_order_release);
    } else if (errno != EAGAIN) {
      fail("recv");
    } else if (run.has_ended.load(std::memory_order_acquire)) {
      return;
    }
  }
}

/// One thread sends to the other, `segments` datagrams of `bytes` per call, never more than the
/// receiver has room for. Prints GB/s and millions of datagrams per second.
void udp(double seconds, std::size_t bytes, std::size_t segments) {
  const std::size_t call_bytes = bytes * segments;
  if (call_bytes > kUdpPayloadMax) {
    std::fprintf(stderr, "bench_limits: a call sends at most %zu bytes\n", kUdpPayloadMax);
    std::exit(2);
  }
  UdpRun run;
  run.receiver.set(SOL_SOCKET, SO_RCVTIMEO, timeval{.tv_usec = 100'000});
  const Socket sender;
  const auto* const to = reinterpret_cast<const sockaddr*>(&run.receiver.address);
  check(connect(sender.fd, to, sizeof run.receiver.address) == 0, "connect");
  if (segments > 1) {
    run.receiver.set(SOL_UDP, UDP_GRO, 1);
    sender.set(SOL_UDP, UDP_SEGMENT, static_cast<int>(bytes));
  }
  std::thread receiver([&run] { receive(run); });

  stay_on_processor(0);
  const std::vector<char> data(call_bytes, 1);
  const std::uint64_t window = run.receiver.room_in_calls(call_bytes) * call_bytes;
  std::uint64_t sent = 0;
  const auto began = Clock::now();
  const auto deadline = began + std::chrono::duration<double>(seconds);
  while (Clock::now() < deadline) {
    if (sent - run.received.load(std::memory_order_acquire) + call_bytes > window) {
      std::this_thread::yield();
      continue;
    }
    check(send(sender.fd, data.data(), data.size(), 0) == static_cast<ssize_t>(call_bytes), "send");
    sent += call_bytes;
  }
  const double elapsed = std::chrono::duration<double>(Clock::now() - began).count();
  run.has_ended.store(true, std::memory_order_release);
  receiver.join();
  if (run.received != sent) {
    std::fprintf(stderr, "bench_limits: of %llu bytes, %llu were lost\n",
                 static_cast<unsigned long long>(sent),
                 static_cast<unsigned long long>(sent - run.received));
    std::exit(1);
  }
  const double rate = static_cast<double>(sent) / elapsed;
  std::printf("%.4f GB/s %.4f M/s\n", rate / 1e9, rate / static_cast<double>(bytes) / 1e6);
}

/// Returns the two ends of a connection over loopback: UDP sockets, or a TCP connection.
std::pair<int, int> connect_two(bool tcp) {
  sockaddr_in address{.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  const auto open = [&] {
    const int fd = socket(AF_INET, tcp ? SOCK_STREAM : SOCK_DGRAM, 0);
    check(fd >= 0, "socket");
    return fd;
  };
  const int one = open();
  const int two = open();
  check(bind(one, plain, size) == 0 && getsockname(one, plain, &size) == 0, "bind");
  if (tcp) check(listen(one, 1) == 0, "listen");
  check(connect(two, plain, size) == 0, "connect");
  if (!tcp) {
    check(getsockname(two, plain, &size) == 0 && connect(one, plain, size) == 0, "connect");
    return {one, two};
  }
  const int accepted = accept(one, nullptr, nullptr);
  close(one);
  const int on = 1;
  for (const int fd : {accepted, two}) {
    check(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "TCP_NODELAY");
  }
  return {accepted, two};
}

/// Returns false at the end of the connection, or if `ended` is set.
bool await_message(int fd, std::vector<char>& message, const std::atomic<bool>& ended) {
  for (std::size_t got = 0; got < message.size();) {
    const ssize_t bytes = recv(fd, message.data() + got, message.size() - got, MSG_DONTWAIT);
    if (bytes == 0) return false;
    if (bytes > 0) got += static_cast<std::size_t>(bytes);
    if (bytes < 0 && errno != EAGAIN) fail("recv");
    if (bytes < 0 && ended.load(std::memory_order_relaxed)) return false;
  }
  return true;
}

void say_message(int fd, const std::vector<char>& message) {
  check(send(fd, message.data(), message.size(), 0) == static_cast<ssize_t>(message.size()),
        "send");
}

/// A message goes back and forth between two threads that spin on their sockets. Prints
/// microseconds one way.
void latency(double seconds, std::size_t bytes, bool tcp) {
  const auto [here, there] = connect_two(tcp);
  std::atomic<bool> ended = false;
  std::thread other([&ended, bytes, fd = there] {
    stay_on_processor(1);
    std::vector<char> message(bytes);
    while (await_message(fd, message, ended)) say_message(fd, message);
  });
  stay_on_processor(0);
  std::vector<char> message(bytes);
  const double batch = median_seconds(seconds, [&, fd = here] {
    for (std::uint64_t i = 0; i < kRoundTripsOfBatch; ++i) {
      say_message(fd, message);
      await_message(fd, message, ended);
    }
  });
  ended.store(true, std::memory_order_relaxed);
  other.join();
  close(here);
  close(there);
  std::printf("%.4f us\n", batch * 1e6 / kRoundTripsOfBatch / 2);
}

int usage() {
  std::fprintf(
      stderr,
      "usage: bench_limits ping_pong SECONDS        a cache line between two processors\n"
      "       bench_limits copy SECONDS BYTES       memcpy, the same two buffers\n"
      "       bench_limits udp SECONDS BYTES COUNT  UDP over loopback, COUNT datagrams a "
      "call\n"
      "                                             (UDP_SEGMENT and UDP_GRO where more "
      "than 1)\n"
      "       bench_limits udp_latency SECONDS BYTES   to and fro between two threads that "
      "spin\n"
      "       bench_limits tcp_latency SECONDS BYTES   on their sockets, over loopback\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 2 ? argv[1] : "";
  const double seconds = argc > 2 ? std::atof(argv[2]) : 0;
  const std::size_t bytes = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 0;
  const std::size_t count = argc > 4 ? std::strtoul(argv[4], nullptr, 10) : 0;
  if (seconds <= 0) return usage();
  if (what == "ping_pong" && argc == 3) {
    ping_pong(seconds);
  } else if (what == "copy" && argc == 4 && bytes > 0) {
    copy(seconds, bytes);
  } else if (what == "udp" && argc == 5 && bytes > 0 && count > 0) {
    udp(seconds, bytes, count);
  } else if ((what == "udp_latency" || what == "tcp_latency") && argc == 4 && bytes > 0) {
    latency(seconds, bytes, what == "tcp_latency");
  } else {
    return usage();
  }
  return 0;
}
