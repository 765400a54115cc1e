// Eight threads post to one shared receive queue while messages take from it, and each receive
// completes exactly once: no thread loses the queue's lock to another, even without /proc.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/programs/endpoint.h"

namespace {

using Clock = std::chrono::steady_clock;
using endpoint::check;

constexpr std::uint32_t kThreads = 8;
constexpr std::uint32_t kBufferSlots = 4096;
constexpr auto kTimeout = std::chrono::seconds(10);

class Queue {
 public:
  explicit Queue(std::uint32_t receives_each)
      : each_(receives_each), device_(16), memory_(device_, 64), seen_(kThreads * each_) {
    ibv_srq_init_attr wanted{};
    wanted.attr = {.max_wr = kBufferSlots, .max_sge = 1, .srq_limit = 0};
    queue_ = ibv_create_srq(device_.pd, &wanted);
    check(queue_ != nullptr, "ibv_create_srq");
    ibv_qp_init_attr options{};
    options.send_cq = options.recv_cq = device_.cq;
    options.srq = queue_;
    options.qp_type = IBV_QPT_RC;
    options.cap = endpoint::capacity(16, 0);
    for (ibv_qp*& one : pair_) {
      one = ibv_create_qp(device_.pd, &options);
      check(one != nullptr, "ibv_create_qp");
    }
    device_.connect(pair_[0], pair_[1]->qp_num, IBV_MTU_1024);
    device_.connect(pair_[1], pair_[0]->qp_num, IBV_MTU_1024);
  }

  void run() {
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < kThreads; ++i) threads.emplace_back([this, i] { post(i); });
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      ibv_send_wr request{};
      request.opcode = IBV_WR_SEND;
      endpoint::post_send(pair_[0], request, memory_.segment(1));
      await_message();
    }
    for (std::thread& one : threads) one.join();
    if (std::ranges::count(seen_, 1) != std::ssize(seen_)) fail("some came twice");
  }

 private:
  void post(std::uint32_t thread) {
    ibv_sge segment = memory_.segment(1);
    ibv_recv_wr request{};
    request.sg_list = &segment;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    for (std::uint32_t i = 0; i < each_; ++i) {
      request.wr_id = std::uint64_t{thread} * each_ + i;
      int failed = 0;
      while ((failed = ibv_post_srq_recv(queue_, &request, &bad)) == ENOMEM) {
      }
      check(failed == 0, "ibv_post_srq_recv");
    }
  }

  /// Waits for the message's two completions.
  void await_message() {
    const Clock::time_point latest = Clock::now() + kTimeout;
    for (int left = 2; left > 0;) {
      ibv_wc completion{};
      const int polled = ibv_poll_cq(device_.cq, 1, &completion);
      if (polled == 0 && Clock::now() > latest) fail("the last message finds none");
      if (polled <= 0) continue;
      if (completion.status != IBV_WC_SUCCESS) fail(ibv_wc_status_str(completion.status));
      if (completion.opcode == IBV_WC_RECV) ++seen_.at(completion.wr_id);
      --left;
    }
  }

  [[noreturn]] void fail(const char* how) const {
    std::fprintf(stderr, "%td of %zu receives have come once: %s\n", std::ranges::count(seen_, 1),
                 seen_.size(), how);
    std::_Exit(1);
  }

  std::uint32_t each_;
  endpoint::Device device_;
  endpoint::Buffer memory_;
  std::vector<int> seen_;
  ibv_srq* queue_ = nullptr;
  ibv_qp* pair_[2] = {};
};

}  // namespace

int main(int argc, char** argv) {
  Queue(argc > 1 ? static_cast<std::uint32_t>(std::atoi(argv[1])) : 50'000).run();
}
