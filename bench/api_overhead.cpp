#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <span>
#include <string_view>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

#include "bench/trace.h"
#include "verbatim/verbatim.h"

/// The cost of a WRITE of 8 bytes with the C interface, with the C++ library, and awaited by a
/// coroutine: post, poll the completion, check it. All in one run, alternating; each has its own
/// queue pair with the same options, connected to one of this process.
namespace {

using verbatim::Buffer;
using verbatim::CompletionQueue;
using verbatim::Context;
using verbatim::Flags;
using verbatim::ProtectionDomain;
using verbatim::QueuePair;
using verbatim::RemoteSlice;
using verbatim::RequestToken;
using verbatim::Slice;
using verbatim::Task;
namespace exchange = verbatim::exchange;

constexpr std::uint32_t kBytes = 8;

/// Two queue pairs that are connected to each other.
struct Pair {
  explicit Pair(const ProtectionDomain& domain) {
    int sockets[2];
    trace::require(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "socketpair");
    auto accepted = std::async(std::launch::async,
                               [&] { return exchange::connect_over(domain, sockets[1]).value(); });
    ends.push_back(exchange::connect_over(domain, sockets[0]).value());
    ends.push_back(accepted.get());
    close(sockets[0]);
    close(sockets[1]);
  }
  QueuePair& asker() { return ends[0]; }

  std::vector<QueuePair> ends;
};

/// The C interface, as a program uses it.
void by_verbs(ibv_qp* queue_pair, ibv_cq* queue, const Buffer& from, const RemoteSlice& to,
              bool inlined, int count) {
  for (int i = 0; i < count; ++i) {
    ibv_sge segment{reinterpret_cast<std::uintptr_t>(from.bytes().data()), kBytes,
                    from.native()->lkey};
    ibv_send_wr request{};
    request.wr_id = static_cast<std::uint64_t>(i);
    request.sg_list = &segment;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = inlined ? IBV_SEND_SIGNALED | IBV_SEND_INLINE : IBV_SEND_SIGNALED;
    request.wr.rdma = {to.address, to.remote_key};
    ibv_send_wr* bad = nullptr;
    trace::require(ibv_post_send(queue_pair, &request, &bad) == 0, "ibv_post_send");
    ibv_wc entry;
    int polled = 0;
    while (polled == 0) polled = ibv_poll_cq(queue, 1, &entry);
    trace::require(polled == 1 && entry.status == IBV_WC_SUCCESS, "ibv_poll_cq");
  }
}

void by_library(QueuePair& queue_pair, const Buffer& from, const RemoteSlice& to, bool inlined,
                int count) {
  for (int i = 0; i < count; ++i) {
    queue_pair.write(from.slice(0, kBytes), to, {.inlined = inlined}).wait().value();
  }
}

Task<> awaited(QueuePair& queue_pair, const Buffer& from, const RemoteSlice& to, bool inlined,
               int count) {
  for (int i = 0; i < count; ++i) {
    (co_await queue_pair.write(from.slice(0, kBytes), to, {.inlined = inlined})).value();
  }
}

enum Way { verbs, library, coroutine };
constexpr std::array kNames{"ibv_post_send, ibv_poll_cq", "write, wait", "co_await write"};

struct Bench {
  explicit Bench(bool inline_data) : inlined(inline_data) {}

  void run(int way, int count) {
    QueuePair& asker = pairs[static_cast<std::size_t>(way)].asker();
    switch (way) {
      case verbs:
        return by_verbs(asker.native(), asker.completions().native(), from, to, inlined, count);
      case library:
        return by_library(asker, from, to, inlined, count);
      case coroutine:
        return verbatim::run(asker.completions(), awaited(asker, from, to, inlined, count));
    }
  }

  const bool inlined;
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  std::array<Pair, 3> pairs{Pair(domain), Pair(domain), Pair(domain)};
  const Buffer from = domain.allocate(4096).value();
  const Buffer into = domain.allocate(4096).value();
  const RemoteSlice to = into.token(0, kBytes);
};

/// Prints the median, and the range of the middle half.
void print_row(const char* name, std::vector<double> values, const char* unit) {
  std::sort(values.begin(), values.end());
  const auto at = [&](std::size_t quarter) { return values[values.size() * quarter / 4]; };
  std::printf("%-34s %8.1f %s (%.1f to %.1f)\n", name, at(2), unit, at(1), at(3));
}

void measure_time(bool inlined, int rounds, int count) {
  using Clock = std::chrono::steady_clock;
  Bench bench(inlined);
  std::array<std::vector<double>, 3> times;
  std::array<std::vector<double>, 3> more;
  for (int way = 0; way < 3; ++way) bench.run(way, count);
  for (int round = 0; round < rounds; ++round) {
    for (int way = 0; way < 3; ++way) {
      const auto begin = Clock::now();
      bench.run(way, count);
      const std::chrono::duration<double, std::nano> took = Clock::now() - begin;
      times[static_cast<std::size_t>(way)].push_back(took.count() / count);
    }
    for (std::size_t way = 0; way < 3; ++way)
      more[way].push_back(times[way].back() - times[verbs].back());
  }
  for (std::size_t way = 0; way < 3; ++way) print_row(kNames[way], times[way], "ns");
  print_row("write, wait: more than verbs", more[library], "ns");
  print_row("co_await write: more than verbs", more[coroutine], "ns");
}

/// Instructions of one request: those of a run of 17 less those of a run of 1, divided by 16. With
/// `where`, the location of each of the latter.
void count_steps(bool inlined, bool where) {
  constexpr int kMore = 16;
  for (int way = 0; way < 3; ++way) {
    const auto parts = trace::parts_of([&] {
      Bench bench(inlined);
      bench.run(way, 2'000);
      trace::breakpoint();
      bench.run(way, 1 + kMore);
      trace::breakpoint();
      bench.run(way, 1);
      trace::breakpoint();
      _exit(0);
    });
    trace::require(parts.size() == 2, "breakpoints");
    const char* const name = kNames[static_cast<std::size_t>(way)];
    if (where) {
      trace::print(name, parts[1]);
    } else {
      std::printf("%-34s %8.1f instructions\n", name,
                  static_cast<double>(parts[0].size() - parts[1].size()) / kMore);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  const bool where = words.size() == 2 && words[1] == "where";
  if ((words.size() != 3 && !where) || (words[0] != "inline" && words[0] != "registered")) {
    std::fputs("Usage: bench_api_overhead inline|registered ROUNDS REQUESTS | where\n", stderr);
    return 2;
  }
  const bool inlined = words[0] == "inline";
  count_steps(inlined, where);
  if (!where) measure_time(inlined, std::atoi(argv[2]), std::atoi(argv[3]));
  return 0;
}
