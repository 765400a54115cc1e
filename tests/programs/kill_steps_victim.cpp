// The victim of `kill_steps`: connects to the survivor, and stops right before and right after the
// call that it is stepped through.
#include <csignal>
#include <cstring>

#include <arpa/inet.h>
#include <sys/ptrace.h>

#include "tests/programs/endpoint.h"
#include "tests/programs/kill_steps.h"

namespace kill_steps {
namespace {

constexpr int kPassiveReceives = 16;

class Life {
 public:
  explicit Life(Shared& shared)
      : shared_(shared),
        round_(shared.round),
        what_(*round_.what),
        device_(64),
        memory_(device_, kLengthMax),
        inbox_(device_, kPassiveReceives * kGrhBytes) {}

  [[noreturn]] void run() {
    connect();
    if (what_.action == VictimAction::request) {
      live_asking();
    } else {
      live_passively();
    }
    fail(shared_, "victim", "it was not killed");
  }

 private:
  void connect() {
    qp_ = device_.create_queue_pair(what_.type, 4, kPassiveReceives);
    device_.initialise(qp_);
    // If not, the survivor's requests wait for a receive until the end.
    const bool receives =
        what_.action == VictimAction::poll || what_.action == VictimAction::deregister;
    for (std::uint64_t i = 0; receives && i < kPassiveReceives; ++i) post_receive(i);
    End& own = shared_.victim_end;
    own.qpn = qp_->qp_num;
    own.rkey = memory_.region->rkey;
    own.address = memory_.address();
    shared_.victim.say(round_.number, kVictimThere);
    await(kThere);
    there_ = shared_.survivor_end;
    device_.connect_initialised(qp_, there_.qpn, IBV_MTU_4096, 4);
    if (what_.type == IBV_QPT_UD) {
      ibv_ah_attr path = device_.path_to_self();
      handle_ = ibv_create_ah(device_.pd, &path);
      endpoint::check(handle_ != nullptr, "ibv_create_ah");
    }
    shared_.victim.say(round_.number, kVictimConnected);
    await(kConnected);
  }

  void live_asking() {
    if (round_.warm) {
      prepare(true);
      ask(true);
      check_result(true);
    }
    shared_.victim.say(round_.number, kWarm);
    await(kReady);
    prepare(false);
    raise(SIGSTOP);
    ask(false);
    raise(SIGSTOP);
    check_result(false);
  }

  void live_passively() {
    shared_.victim.say(round_.number, kWarm);
    await(kReady);
    ibv_wc entries[4];
    if (what_.action ==
        VictimAction::poll) {  // Until there is an entry, which is left in the queue.
      while (!has_completion()) {
      }
    }
    raise(SIGSTOP);
    switch (what_.action) {
      case VictimAction::post_receive:
        post_receive(0);
        post_receive(1);
        break;
      case VictimAction::poll:
        ibv_poll_cq(device_.cq, 4, entries);
        break;
      default:
        ibv_dereg_mr(memory_.region);
    }
    raise(SIGSTOP);
  }

  bool has_completion() {
    // The survivor's first bytes have arrived; their completion is there or follows.
    return std::atomic_ref(inbox_.bytes[0]).load(std::memory_order_acquire) != 0;
  }

  void post_receive(std::uint64_t place) {
    const ibv_sge segment{inbox_.address() + place * kGrhBytes, kGrhBytes, inbox_.region->lkey};
    endpoint::post_receive(qp_, segment, place);
  }

  void prepare(bool is_warm_up) {
    const bool reads = what_.opcode == IBV_WR_RDMA_READ || what_.is_atomic();
    for (std::uint64_t i = 0; i < what_.length; ++i) {
      memory_.bytes[i] = reads ? std::uint8_t{0} : pattern(round_.number, is_warm_up, i);
    }
    segment_ = memory_.segment(what_.length);
    request_ = {};
    request_.sg_list = &segment_;
    request_.num_sge = 1;
    request_.opcode = what_.opcode;
    request_.send_flags = IBV_SEND_SIGNALED;
    request_.imm_data = htonl(kImmediate);
    if (handle_ != nullptr) {
      request_.wr.ud = {handle_, there_.qpn, endpoint::kQKey};
    } else if (what_.is_atomic()) {
      const std::uint64_t before = first_word() + (is_warm_up ? 0 : 1);
      const bool adds = what_.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
      request_.wr.atomic = {there_.address, adds ? 1 : before, before + 1, there_.rkey};
    } else if (what_.opcode == IBV_WR_SEND_WITH_INV) {
      request_.invalidate_rkey = there_.window_keys[is_warm_up ? 0 : 1];
    } else {
      request_.wr.rdma = {there_.address, there_.rkey};
    }
  }

  std::uint64_t first_word() const { return std::uint64_t{round_.number} * 4; }

  /// Waits for its completion.
  void ask(bool is_warm_up) {
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp_, &request_, &bad) != 0) fail(shared_, "victim", "ibv_post_send");
    ibv_wc entry;
    while (ibv_poll_cq(device_.cq, 1, &entry) == 0) {
    }
    if (entry.status != IBV_WC_SUCCESS) {
      fail(shared_, "victim", is_warm_up ? "what is done first fails" : "the request fails",
           entry.status);
    }
  }

  void check_result(bool is_warm_up) {
    if (what_.is_atomic()) {
      std::uint64_t before = 0;
      std::memcpy(&before, memory_.bytes.data(), sizeof before);
      if (before != first_word() + (is_warm_up ? 0 : 1)) {
        fail(shared_, "victim", "an atomic brings another value", static_cast<long long>(before));
      }
    }
    if (what_.opcode != IBV_WR_RDMA_READ) return;
    for (std::uint64_t i = 0; i < what_.length; ++i) {
      if (memory_.bytes[i] != pattern(round_.number, true, i)) {
        fail(shared_, "victim", "a READ brings other bytes", static_cast<long long>(i));
      }
    }
  }

  void await(Survivor step) {
    if (!shared_.survivor.wait(round_.number, step)) {
      fail(shared_, "victim", "the survivor takes too long", step);
    }
  }

  Shared& shared_;
  const Round round_;
  const Case& what_;
  endpoint::Device device_;
  endpoint::Buffer memory_;
  endpoint::Buffer inbox_;
  ibv_qp* qp_ = nullptr;
  ibv_ah* handle_ = nullptr;
  End there_;
  ibv_sge segment_{};
  ibv_send_wr request_{};
};

}  // namespace

void be_victim(Shared& shared) {
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) fail(shared, "victim", "PTRACE_TRACEME");
  Life(shared).run();
}

}  // namespace kill_steps
