// ping_pong: measures the latency of a message between two nodes, with SEND and coroutines. The
// client sends, the server sends the same bytes back; half of that time is the latency.
//
//   verbatim run --node a --address 127.0.0.2 -- build/bin/examples/ping_pong &
//   verbatim run --node b --address 127.0.0.3 -- build/bin/examples/ping_pong 127.0.0.2

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <verbatim/verbatim.h>

using namespace verbatim;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::uint16_t kPort = 7471;
constexpr std::size_t kMaxBytes = 65536;
constexpr int kRounds = 1000;

// Two halves: one receives a message while the other sends the message before it.
Slice half(const Buffer& buffer, int which) {
  return buffer.slice(static_cast<std::size_t>(which) * kMaxBytes, kMaxBytes);
}

// The server: sends each message back, until an empty one ends the test.
Task<> echo(QueuePair& qp, const Buffer& buffer) {
  RequestToken next = qp.receive(half(buffer, 0));
  for (int i = 0;; i = 1 - i) {
    Slice answer = half(buffer, i);
    answer.size = (co_await next).value().bytes;
    if (answer.size == 0) co_return;
    // Before the answer, because the next message may come at once.
    next = qp.receive(half(buffer, 1 - i));
    (co_await qp.send(answer)).value();
  }
}

// The client: returns the microseconds of one way for each round.
Task<std::vector<double>> ping(QueuePair& qp, const Buffer& buffer, std::size_t size) {
  std::vector<double> times;
  for (int round = 0; round < kRounds; ++round) {
    std::memset(buffer.bytes().data(), round, size);
    RequestToken answer = qp.receive(half(buffer, 1));
    const auto begin = Clock::now();
    (co_await qp.send(buffer.slice(0, size))).value();
    (co_await answer).value();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / 2);
    if (std::memcmp(buffer.bytes().data(), half(buffer, 1).data, size) != 0)
      throw std::runtime_error("other bytes came back than were sent");
  }
  co_return times;
}

void serve(const ProtectionDomain& domain) {
  Listener listener = Listener::open(domain, {.port = kPort}).value();
  std::printf("waiting for a client at port %u\n", listener.port());
  QueuePair qp = listener.accept().value();
  const Buffer buffer = domain.allocate(2 * kMaxBytes).value();
  run(qp.completions(), echo(qp, buffer));
}

void measure(const ProtectionDomain& domain, const std::string& server) {
  QueuePair qp = connect(domain, server, kPort).value();
  const Buffer buffer = domain.allocate(2 * kMaxBytes).value();
  std::printf("%8s %10s %10s %10s\n", "bytes", "least us", "median us", "99% us");
  for (std::size_t size = 8; size <= kMaxBytes; size *= 8) {
    std::vector<double> times = run(qp.completions(), ping(qp, buffer, size));
    std::sort(times.begin(), times.end());
    std::printf("%8zu %10.2f %10.2f %10.2f\n", size, times.front(), times[kRounds / 2],
                times[kRounds * 99 / 100]);
  }
  qp.send(buffer.slice(0, 0)).wait().value();
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
    std::fputs("usage: ping_pong [SERVER_ADDRESS]\nWithout an address, it is the server.\n",
               stderr);
    return 2;
  }
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  argc == 1 ? serve(domain) : measure(domain, argv[1]);
} catch (const std::exception& error) {
  std::fprintf(stderr, "ping_pong: %s\n", error.what());
  return 1;
}
