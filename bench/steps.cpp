#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "bench/trace.h"
#include "tests/programs/endpoint.h"

/// Counts the instructions of one request: a child posts it to its own queue pair between two
/// breakpoints, and is single-stepped there. Prints `## step count`, and one line `file offset` for
/// each instruction, which steps.py converts to names.
namespace {

using endpoint::Buffer;
using endpoint::check;
using endpoint::Device;

enum Kind { write, read, send };
constexpr const char* kKinds[] = {"write", "read", "send"};
constexpr const char* kSteps[] = {"ibv_post_send", "ibv_poll_cq, the first entry",
                                  "ibv_poll_cq, the second entry", "ibv_poll_cq, empty"};
constexpr int kWarmUp = 2'000;
constexpr std::size_t kBytes = 1 << 20;
constexpr std::uint32_t kInlineBytes = 220;

class Subject {
 public:
  Subject(Kind kind, std::uint32_t length, bool inlined)
      : kind_(kind), length_(length), inlined_(inlined), device_(64), buffer_(device_, kBytes) {
    asker_ = device_.create_queue_pair(IBV_QPT_RC, 16, 16, kInlineBytes);
    peer_ = device_.create_queue_pair(IBV_QPT_RC, 16, 16);
    device_.connect(asker_, peer_->qp_num, IBV_MTU_4096);
    device_.connect(peer_, asker_->qp_num, IBV_MTU_4096);
  }
  void run(bool stops) {
    if (kind_ == send) endpoint::post_receive(peer_, segment(kBytes / 4), 7);
    ibv_sge from = segment(0);
    ibv_send_wr request{};
    request.sg_list = &from;
    request.num_sge = 1;
    request.opcode = kind_ == write  ? IBV_WR_RDMA_WRITE
                     : kind_ == read ? IBV_WR_RDMA_READ
                                     : IBV_WR_SEND;
    request.send_flags = inlined_ ? IBV_SEND_SIGNALED | IBV_SEND_INLINE : IBV_SEND_SIGNALED;
    request.wr.rdma = {buffer_.address() + kBytes / 2, buffer_.region->rkey};
    ibv_send_wr* bad = nullptr;
    ibv_wc entry;
    // Only the calls between the breakpoints.
    if (stops) trace::breakpoint();
    const int refused = ibv_post_send(asker_, &request, &bad);
    if (stops) trace::breakpoint();
    int first = 0;
    while (first == 0) first = ibv_poll_cq(device_.cq, 1, &entry);
    if (stops) trace::breakpoint();
    int second = kind_ == send ? 0 : 1;
    while (second == 0) second = ibv_poll_cq(device_.cq, 1, &entry);
    if (stops) trace::breakpoint();
    const int extra = ibv_poll_cq(device_.cq, 1, &entry);
    if (stops) trace::breakpoint();
    check(refused == 0 && first == 1 && second == 1 && extra == 0, "the request");
  }

 private:
  ibv_sge segment(std::size_t offset) const {
    return {buffer_.address() + offset, length_, buffer_.region->lkey};
  }

  const Kind kind_;
  const std::uint32_t length_;
  const bool inlined_;
  const Device device_;
  const Buffer buffer_;
  ibv_qp* asker_ = nullptr;
  ibv_qp* peer_ = nullptr;
};

void be_subject(Kind kind, std::uint32_t length, bool inlined) {
  Subject subject(kind, length, inlined);
  for (int i = 0; i < kWarmUp; ++i) subject.run(false);
  subject.run(true);
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  int kind = argc == 4 ? send : -1;
  while (kind >= 0 && std::strcmp(argv[1], kKinds[kind]) != 0) --kind;
  if (kind < 0) {
    std::fputs("Usage: bench_steps write|read|send BYTES inline|registered\n", stderr);
    return 2;
  }
  const auto length = static_cast<std::uint32_t>(std::strtoul(argv[2], nullptr, 0));
  const bool inlined = std::strcmp(argv[3], "inline") == 0;
  const auto parts = trace::parts_of([&] { be_subject(static_cast<Kind>(kind), length, inlined); });
  check(parts.size() == 4, "breakpoints");
  trace::print(kSteps[0], parts[0]);
  trace::print(kSteps[1], parts[1]);
  if (kind == send) trace::print(kSteps[2], parts[2]);
  trace::print(kSteps[3], parts[3]);
  return 0;
}
