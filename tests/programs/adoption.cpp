// Memory that moves into the memory file in mid-traffic: `adoption SECONDS [SEED]`. In each round a
// program registers fresh memory twice, in which threads count, and into which system calls write
// beside what peers use. Two peers write, read, add and send to it from the first moment on, and
// know each byte that must be there. The second region ends in the middle. Ends with 1 at the first
// byte that is lost, operation that is executed twice, or call that fails.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/endpoint.h"

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPagesMax = 256;
constexpr int kPeers = 2;
constexpr int kThreads = 2;
// Of each page: what the threads count, what the peers add to, and an area for each peer.
constexpr std::size_t kCounters = 0;
constexpr std::size_t kSums = 64;
constexpr std::size_t kAreas = 128;
constexpr std::size_t kAreaBytes = (kPage - kAreas) / kPeers;
constexpr std::size_t kQuietPages =
    4;                         // Each of so many pages is no peer's: system calls write it.
constexpr int kMessages = 16;  // Receives, each in a page of its own behind the others.
constexpr std::size_t kMessageBytes = 512;
constexpr int kOperationsMin = 400;  // Of each peer in a round.

using Clock = std::chrono::steady_clock;

struct Page {
  std::uint8_t bytes[kPage];
};
struct Shared {
  std::atomic<int> round, ended;
  std::atomic<bool> stop, over;
  std::atomic<int> created, at_work, left_second, done;
  std::atomic<int> moved;  // Rounds in which the memory has moved.
  std::atomic<std::uint64_t> operations;
  std::uint32_t qpn[2][kPeers];  // Of the owner, of the peers.
  std::uint64_t address, pages;
  std::uint32_t rkey[2];
  Page shadow[kPagesMax];  // What peers have written and added.
};
Shared* shared = nullptr;

[[noreturn]] void fail(const char* what, long long at = 0) {
  std::fprintf(stderr, "adoption: process %d, round %d: %s (%lld, errno %d)\n", getpid(),
               shared->round.load(), what, at, errno);
  std::_Exit(1);
}
void check(bool holds, const char* what, long long at = 0) {
  if (!holds) fail(what, at);
}
template <typename Condition>
void await(Condition condition, const char* what) {
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    check(Clock::now() < deadline, what);
    std::this_thread::yield();
  }
}

/// Returns true if the page is in the memory file, as /proc/self/maps shows.
bool is_shared(const void* page) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    char rights[5] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, rights) != 3) continue;
    const auto address = reinterpret_cast<unsigned long>(page);
    if (begin <= address && address < end) return rights[3] == 's';
  }
  return false;
}

/// A queue pair of this round, connected to the one at the other `side`.
ibv_qp* connect(const endpoint::Device& device, int side, int peer, std::uint32_t receives) {
  ibv_qp* const qp = device.create_queue_pair(IBV_QPT_RC, 16, receives);
  device.initialise(qp);
  shared->qpn[side][peer] = qp->qp_num;
  return qp;
}

/// A peer: its own bytes of each page, by one operation after the other.
class Peer {
 public:
  Peer(int number, unsigned seed)
      : number_(number), random_(seed), device_(64), buffer_(device_, kPage) {}
  void play(int round) {
    qp_ = connect(device_, 1, number_, 1);
    ++shared->created;
    await([&] { return shared->round >= round || shared->over; }, "the owner does not begin");
    if (shared->over) return;
    device_.connect_initialised(qp_, shared->qpn[0][number_], IBV_MTU_4096);
    ++shared->at_work;
    work();
    ++shared->done;
    await([&] { return shared->ended >= round; }, "the owner does not end the round");
    ibv_destroy_qp(qp_);
  }

 private:
  void work() {
    bool second = true;
    sent_ = 0;
    for (int i = 0; i < kOperationsMin || !shared->stop; ++i) {
      if (second && i >= kOperationsMin / 2) {
        second = false;
        ++shared->left_second;
      }
      rkey_ = shared->rkey[second && below(2) == 0 ? 1 : 0];
      step();
      ++shared->operations;
    }
    rkey_ = shared->rkey[0];
    for (std::size_t page = 0; page < shared->pages; ++page) {
      if (page % kQuietPages != 0) compare(page, 0, kAreaBytes);
    }
  }
  std::size_t below(std::size_t bound) { return random_() % bound; }
  std::size_t area() const { return kAreas + static_cast<std::size_t>(number_) * kAreaBytes; }
  std::uint8_t* shadow(std::size_t page) const { return shared->shadow[page].bytes; }

  void step() {
    std::size_t page = below(shared->pages);
    if (page % kQuietPages == 0) ++page;
    if (page >= shared->pages) return;
    const std::size_t from = below(kAreaBytes);
    const std::size_t length = 1 + below(below(4) == 0 ? 8 : kAreaBytes - from);
    switch (below(8)) {
      case 0:
      case 1:
      case 2:
        return write(page, from, std::min(length, kAreaBytes - from));
      case 3:
      case 4:
        return compare(page, from, std::min(length, kAreaBytes - from));
      case 5:
      case 6:
        return add(page);
      default:
        return send();
    }
  }
  void run(ibv_wr_opcode opcode, std::size_t length, std::uint64_t remote,
           std::uint64_t value = 0) {
    ibv_send_wr request{};
    request.opcode = opcode;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      request.wr.atomic = {.remote_addr = remote, .compare_add = value, .swap = 0, .rkey = rkey_};
    } else {
      request.wr.rdma = {.remote_addr = remote, .rkey = rkey_};
    }
    endpoint::post_send(qp_, request, buffer_.segment(length));
    device_.completions(1);
  }
  static std::uint64_t place(std::size_t page, std::size_t offset) {
    return shared->address + page * kPage + offset;
  }
  void write(std::size_t page, std::size_t from, std::size_t length) {
    for (std::size_t i = 0; i < length; ++i) {
      buffer_.bytes[i] = static_cast<std::uint8_t>(random_());
    }
    run(IBV_WR_RDMA_WRITE, length, place(page, area() + from));
    std::memcpy(shadow(page) + area() + from, buffer_.bytes.data(), length);
  }
  void compare(std::size_t page, std::size_t from, std::size_t length) {
    run(IBV_WR_RDMA_READ, length, place(page, area() + from));
    const bool same = std::memcmp(shadow(page) + area() + from, buffer_.bytes.data(), length) == 0;
    check(same, "a byte that was written is lost", static_cast<long long>(page));
  }
  void add(std::size_t page) {
    const std::size_t at = kSums + static_cast<std::size_t>(number_) * 8;
    run(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, place(page, at), 1);
    std::uint64_t found = 0, expected = 0;
    std::memcpy(&found, buffer_.bytes.data(), sizeof found);
    std::memcpy(&expected, shadow(page) + at, sizeof expected);
    check(found == expected, "an atomic operation is lost, or was done twice",
          static_cast<long long>(found - expected));
    ++expected;
    std::memcpy(shadow(page) + at, &expected, sizeof expected);
  }
  void send() {
    std::memset(buffer_.bytes.data(), static_cast<int>(sent_++ & 0xff), kMessageBytes);
    run(IBV_WR_SEND, kMessageBytes, 0);
  }

  const int number_;
  std::minstd_rand random_;
  const endpoint::Device device_;
  endpoint::Buffer buffer_;
  ibv_qp* qp_ = nullptr;
  std::uint32_t rkey_ = 0;
  std::uint64_t sent_ = 0;
};

/// The program whose memory it is.
class Owner {
 public:
  Owner() : device_(256) {}

  void play(std::minstd_rand& random) {
    shared->pages = 8 + random() % (kPagesMax - 8);
    const std::size_t bytes = (shared->pages + kPeers * kMessages) * kPage;
    void* const place =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(place != MAP_FAILED, "mmap");
    memory_ = static_cast<std::uint8_t*>(place);
    std::memset(memory_, 0, bytes);
    std::memset(shared->shadow, 0, shared->pages * kPage);
    ibv_mr* const first = register_memory(0, 0, bytes);
    second_ = register_memory(1, kPage / 2, shared->pages * kPage - kPage / 2);
    lkey_ = first->lkey;
    shared->address = reinterpret_cast<std::uint64_t>(memory_);
    shared->stop = false;
    shared->at_work = shared->left_second = shared->done = 0;
    received_ = {};
    meet();
    bool threads_stop = false;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back([&, i] { count(threads_stop, i); });
    threads.emplace_back([&] { read_into(threads_stop); });
    serve(Clock::now() + std::chrono::milliseconds(random() % 200));
    shared->moved += is_shared(memory_ + kPage) ? 1 : 0;
    check(ibv_dereg_mr(first) == 0, "ibv_dereg_mr");  // While threads count.
    __atomic_store_n(&threads_stop, true, __ATOMIC_SEQ_CST);
    for (std::thread& thread : threads) thread.join();
    verify();
    for (ibv_qp* const qp : qps_) ibv_destroy_qp(qp);
    munmap(memory_, bytes);
    ++shared->ended;
  }

 private:
  ibv_mr* register_memory(int number, std::size_t from, std::size_t bytes) const {
    ibv_mr* const region = ibv_reg_mr(device_.pd, memory_ + from, bytes, endpoint::kAccess);
    check(region != nullptr, "ibv_reg_mr");
    shared->rkey[number] = region->rkey;
    return region;
  }
  void meet() {
    for (int peer = 0; peer < kPeers; ++peer) {
      qps_[peer] = connect(device_, 0, peer, 2 * kMessages);
      for (int slot = 0; slot < kMessages; ++slot) post(peer, slot);
    }
    await([] { return shared->created == kPeers; }, "a peer does not come");
    shared->created = 0;
    for (int peer = 0; peer < kPeers; ++peer) {
      device_.connect_initialised(qps_[peer], shared->qpn[1][peer], IBV_MTU_4096);
    }
    ++shared->round;
  }
  void serve(Clock::time_point end) {
    while (shared->done < kPeers) {
      receive();
      if (second_ != nullptr && shared->left_second == kPeers) end_second();
      if (Clock::now() > end && shared->at_work == kPeers) shared->stop = true;
    }
    receive();
    if (second_ != nullptr) end_second();
  }
  void end_second() {
    check(ibv_dereg_mr(second_) == 0, "ibv_dereg_mr");
    second_ = nullptr;
  }
  std::uint8_t* slot(int peer, int number) const {
    const auto page = shared->pages + static_cast<std::size_t>(peer * kMessages + number);
    return memory_ + page * kPage;
  }
  void post(int peer, int number) {
    endpoint::post_receive(
        qps_[peer], {reinterpret_cast<std::uint64_t>(slot(peer, number)), kMessageBytes, lkey_},
        static_cast<std::uint64_t>(peer * kMessages + number));
  }
  void receive() {
    std::array<ibv_wc, 16> entries;
    const int count = ibv_poll_cq(device_.cq, static_cast<int>(entries.size()), entries.data());
    check(count >= 0, "ibv_poll_cq");
    for (int i = 0; i < count; ++i) {
      if (entries[i].status == IBV_WC_WR_FLUSH_ERR) continue;
      check(entries[i].status == IBV_WC_SUCCESS, "a receive fails", entries[i].status);
      const int peer = static_cast<int>(entries[i].wr_id) / kMessages;
      const int number = static_cast<int>(entries[i].wr_id) % kMessages;
      const std::uint8_t* const bytes = slot(peer, number);
      const auto wanted = static_cast<std::uint8_t>(received_[peer]++ & 0xff);
      for (std::size_t at = 0; at < kMessageBytes; ++at) {
        check(bytes[at] == wanted, "a byte of a message is lost", static_cast<long long>(at));
      }
      post(peer, number);
    }
  }
  void count(const bool& stop, int own) {
    std::vector<std::uint64_t> counts(shared->pages, 0);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
      for (std::size_t page = 0; page < shared->pages; ++page) {
        auto* const word =
            reinterpret_cast<volatile std::uint64_t*>(memory_ + page * kPage + kCounters) + own;
        check(*word == counts[page], "a thread's count is lost", static_cast<long long>(page));
        *word = ++counts[page];
      }
    }
  }
  void read_into(const bool& stop) {
    const int zeroes = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    check(zeroes >= 0, "/dev/zero");
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
      for (std::size_t page = 0; page < shared->pages; page += kQuietPages) {
        const ssize_t got = read(zeroes, memory_ + page * kPage + kAreas, kPage - kAreas);
        check(got == static_cast<ssize_t>(kPage - kAreas), "read(2) into registered memory",
              static_cast<long long>(page));
      }
    }
    close(zeroes);
  }
  void verify() const {
    for (std::size_t page = 0; page < shared->pages; ++page) {
      if (page % kQuietPages == 0) continue;
      check(std::memcmp(memory_ + page * kPage + kSums, shared->shadow[page].bytes + kSums,
                        kPage - kSums) == 0,
            "after deregistration a byte is lost", static_cast<long long>(page));
    }
  }

  const endpoint::Device device_;
  ibv_qp* qps_[kPeers] = {};
  ibv_mr* second_ = nullptr;
  std::uint8_t* memory_ = nullptr;
  std::uint32_t lkey_ = 0;
  std::array<std::uint64_t, kPeers> received_{};
};

template <typename Run>
pid_t start(Run run) {
  const pid_t process = fork();
  check(process >= 0, "fork");
  if (process != 0) return process;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  run();
  std::exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  const int seconds = argc > 1 ? std::atoi(argv[1]) : 5;
  const unsigned seed =
      argc > 2 ? static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10)) : std::random_device()();
  void* const place =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  shared = static_cast<Shared*>(place);
  std::fprintf(stderr, "seed %u\n", seed);
  const pid_t owner = start([=] {
    std::minstd_rand random(seed);
    Owner one;
    const auto end = Clock::now() + std::chrono::seconds(seconds);
    while (Clock::now() < end) one.play(random);
    shared->over = true;
  });
  for (int i = 0; i < kPeers; ++i) {
    start([=] {
      Peer one(i, seed + 1 + static_cast<unsigned>(i));
      for (int round = 1; !shared->over; ++round) one.play(round);
    });
  }
  int failed = 0;
  for (int left = 1 + kPeers; left > 0; --left) {
    int status = 0;
    const pid_t ended = wait(&status);
    if (status != 0) failed = 1;
    if (failed != 0) break;  // The others go with this process.
    if (ended == owner) shared->over = true;
  }
  std::printf("%d rounds, memory moved in %d, %llu operations\n", shared->ended.load(),
              shared->moved.load(), static_cast<unsigned long long>(shared->operations.load()));

  if (failed == 0 && shared->moved == 0) fail("memory never moved");
  return failed;
}
