// Random operations between processes that are killed at random: `soak SECONDS [SEED]`. Each
// process has an area in every other's memory that only it writes, and knows the expected content.
// It exits with 1 at the first wrong byte, lost or doubled message, request that takes too long, or
// error that no death explains.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/endpoint.h"
#include "tests/programs/reap.h"

namespace {

constexpr int kProcesses = 4;
constexpr std::uint64_t kAreaBytes = 3 << 20;  // More than one call moves.
constexpr std::uint64_t kMessageBytes = 4096;
constexpr int kReceives = 64;
constexpr auto kTimeout = std::chrono::seconds(10);

using Clock = std::chrono::steady_clock;

/// What a process tells the others about its end of a connection.
struct End {
  std::atomic<std::uint32_t> epoch;      // The process's; 0: it does not run.
  std::atomic<std::uint32_t> for_epoch;  // Epoch of the peer that it is for; written last.
  std::uint32_t qpn;
  std::uint32_t rkey;
  std::uint64_t area;
};
struct Shared {
  End ends[kProcesses][kProcesses];
  std::atomic<std::uint32_t> epochs[kProcesses];
  std::atomic<std::uint64_t> operations[kProcesses];
  std::atomic<std::uint64_t> slowest_us;
};
Shared* shared = nullptr;
int self = 0;

[[noreturn]] void fail(const char* what, int peer, long long detail = 0) {
  std::fprintf(stderr, "soak: process %d, peer %d: %s (%lld, errno %d)\n", self, peer, what, detail,
               errno);
  std::_Exit(1);
}

void check(bool holds, const char* what, int peer = -1, long long detail = 0) {
  if (!holds) fail(what, peer, detail);
}

/// One process's end of the connection to one peer, with its knowledge of the peer's memory.
class Connection {
 public:
  // The buffers come from malloc, so their pages also contain other data.
  Connection(int peer, std::mt19937_64& random)
      : peer_(peer),
        random_(random),
        device_(4 * kReceives),
        area_(device_, kAreaBytes),
        local_(device_, kAreaBytes),
        inbox_(device_, kReceives * kMessageBytes) {}

  /// Maintains the connection and does one operation over it.
  void step() {
    const std::uint32_t now = shared->epochs[peer_].load();
    if (now == 0) return;
    if (qp_ == nullptr || now != peer_epoch_) return begin(now);
    if (!connected_) return connect();
    take_messages();
    if (connected_) operate();
  }

 private:
  void begin(std::uint32_t peer_epoch) {
    if (qp_ != nullptr) check(ibv_destroy_qp(qp_) == 0, "ibv_destroy_qp", peer_);
    ibv_wc unused;
    while (ibv_poll_cq(device_.cq, 1, &unused) > 0) {
    }
    peer_epoch_ = peer_epoch;
    connected_ = false;
    mirror_.clear();
    sent_ = received_ = added_ = 0;
    qp_ = device_.create_queue_pair(IBV_QPT_RC, 16, kReceives);
    device_.initialise(qp_);
    for (std::uint64_t i = 0; i < kReceives; ++i) post_receive(i);
    End& end = shared->ends[self][peer_];
    end.for_epoch = 0;
    end.qpn = qp_->qp_num;
    end.rkey = area_.region->rkey;
    end.area = area_.address();
    end.epoch = shared->epochs[self].load();
    end.for_epoch = peer_epoch;
  }

  void connect() {
    const End& other = shared->ends[peer_][self];
    if (other.for_epoch != shared->epochs[self] || other.epoch != peer_epoch_) return;
    device_.connect_initialised(qp_, other.qpn, IBV_MTU_4096);
    remote_ = other.area;
    rkey_ = other.rkey;
    connected_ = true;
    // From now on the content of the peer's area is known.
    mirror_.resize(kAreaBytes);
    for (auto& one : mirror_) one = static_cast<std::uint8_t>(random_());
    std::fill_n(mirror_.begin(), sizeof added_, std::uint8_t{0});
    std::memcpy(local(), mirror_.data(), kAreaBytes);
    run(IBV_WR_RDMA_WRITE, 0, kAreaBytes);
  }

  void post_receive(std::uint64_t place) {
    const ibv_sge segment{inbox_.address() + place * kMessageBytes, kMessageBytes,
                          inbox_.region->lkey};
    endpoint::post_receive(qp_, segment, place);
  }

  void operate() {
    const std::uint64_t length = random_() % 16 == 0 ? random_() % kAreaBytes : random_() % 5000;
    const std::uint64_t offset =
        8 + random_() % (kAreaBytes - 8 - std::min(length, kAreaBytes - 8) + 1);
    const std::uint64_t part = std::min(length, kAreaBytes - offset);
    switch (random_() % 4) {
      case 0:
        for (std::uint64_t i = 0; i < part; i += 61)
          mirror_[offset + i] = static_cast<std::uint8_t>(random_());
        std::memcpy(local() + offset, mirror_.data() + offset, part);
        run(IBV_WR_RDMA_WRITE, offset, part);
        break;
      case 1:
        std::memset(local() + offset, 0, part);
        if (run(IBV_WR_RDMA_READ, offset, part)) {
          check(std::memcmp(local() + offset, mirror_.data() + offset, part) == 0,
                "a READ brings other bytes than were written", peer_);
        }
        break;
      case 2:
        if (run(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, sizeof added_)) {
          std::uint64_t before = 0;
          std::memcpy(&before, local(), sizeof before);
          check(before == added_, "an atomic was lost or done twice", peer_,
                static_cast<long long>(before - added_));
          ++added_;
        }
        break;
      default:
        ++sent_;
        std::memcpy(local(), &sent_, sizeof sent_);
        run(IBV_WR_SEND, 0, std::max<std::uint64_t>(sizeof sent_, length % kMessageBytes));
    }
  }

  /// Waits for the completion. Returns false if the connection has ended: the peer has died, or is
  /// told that this process has.
  bool run(ibv_wr_opcode operation, std::uint64_t offset, std::uint64_t length) {
    const ibv_sge segment{local_.address() + offset, static_cast<std::uint32_t>(length),
                          local_.region->lkey};
    ibv_send_wr request{};
    request.wr_id = kOwnRequest;
    request.opcode = operation;
    if (operation == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      request.wr.atomic.remote_addr = remote_;
      request.wr.atomic.rkey = rkey_;
      request.wr.atomic.compare_add = 1;
    } else {
      request.wr.rdma.remote_addr = remote_ + offset;
      request.wr.rdma.rkey = rkey_;
    }
    const auto began = Clock::now();
    endpoint::post_send(qp_, request, segment);
    is_done_ = false;
    while (!is_done_) {
      take_messages();
      check(Clock::now() - began < kTimeout, "a request does not end", peer_, operation);
    }
    const auto took = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - began).count());
    if (took > shared->slowest_us) shared->slowest_us = took;
    ++shared->operations[self];
    return connected_;
  }

  void take_messages() {
    ibv_wc entry;
    while (ibv_poll_cq(device_.cq, 1, &entry) > 0) {
      if (entry.wr_id == kOwnRequest) is_done_ = true;
      if (entry.status != IBV_WC_SUCCESS) {
        lose(entry);
      } else if (entry.opcode == IBV_WC_RECV) {
        std::uint64_t number = 0;
        std::memcpy(&number, &inbox_.bytes[entry.wr_id * kMessageBytes], sizeof number);
        check(number == received_ + 1, "a message is lost or doubled", peer_,
              static_cast<long long>(number - received_));
        ++received_;
        post_receive(entry.wr_id);
      }
    }
  }

  /// Only a death explains an error: the peer's, or that of its earlier queue pair.
  void lose(const ibv_wc& entry) {
    connected_ = false;
    const auto began = Clock::now();
    while (shared->epochs[peer_] == peer_epoch_) {
      check(Clock::now() - began < kTimeout, "an error, and the peer lives", peer_, entry.status);
      usleep(100);
    }
  }

  static constexpr std::uint64_t kOwnRequest = ~std::uint64_t{0};
  std::uint8_t* local() { return local_.bytes.data(); }

  int peer_;
  std::mt19937_64& random_;
  endpoint::Device device_;
  endpoint::Buffer area_;   // The peer writes it.
  endpoint::Buffer local_;  // For our requests.
  endpoint::Buffer inbox_;
  ibv_qp* qp_ = nullptr;
  std::uint32_t peer_epoch_ = 0;
  bool connected_ = false;
  bool is_done_ = false;
  std::uint64_t remote_ = 0;
  std::uint32_t rkey_ = 0;
  std::vector<std::uint8_t> mirror_;  // Expected content of the peer's area.
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t added_ = 0;
};

[[noreturn]] void work(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Connection> connections;
  for (int peer = 0; peer < kProcesses; ++peer) {
    if (peer != self) connections.emplace_back(peer, random);
  }
  shared->epochs[self] = static_cast<std::uint32_t>(getpid());
  for (;;) {
    for (Connection& one : connections) one.step();
  }
}

pid_t start(int number, std::uint64_t seed) {
  shared->epochs[number] = 0;
  const pid_t child = fork();
  check(child >= 0, "fork");
  if (child != 0) return child;
  self = number;
  work(seed);
}

bool has_ended(pid_t child) {
  siginfo_t told{};
  return waitid(P_PID, static_cast<id_t>(child), &told, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         told.si_pid != 0;
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 10;
  std::mt19937_64 random(argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 1);
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  check(memory != MAP_FAILED, "mmap");
  shared = new (memory) Shared{};
  pid_t children[kProcesses];
  for (int i = 0; i < kProcesses; ++i) children[i] = start(i, random());
  int kills = 0;
  bool failed = false;
  for (const auto end = Clock::now() + std::chrono::duration<double>(seconds);
       Clock::now() < end && !failed;) {
    usleep(static_cast<useconds_t>(50'000 + random() % 400'000));
    failed = std::ranges::any_of(children, has_ended);
    const int victim = static_cast<int>(random() % kProcesses);
    if (failed || shared->epochs[victim] == 0) continue;
    kill(children[victim], SIGKILL);
    failed |= !endpoint::await_death(children[victim]);
    children[victim] = start(victim, random());
    ++kills;
  }
  for (const pid_t child : children) kill(child, SIGKILL);
  while (waitpid(-1, nullptr, 0) > 0) {
  }
  std::uint64_t operations = 0;
  for (const auto& one : shared->operations) operations += one;
  std::printf(
      "soak: %s: %llu operations, %d kills, the slowest took %llu us"
      " (Linux forgot a process within %lld us)\n",
      failed ? "FAILED" : "passed", static_cast<unsigned long long>(operations), kills,
      static_cast<unsigned long long>(shared->slowest_us), endpoint::longest_reap_us.load());
  return failed || operations == 0 ? 1 : 0;
}
