// The survivor of `kill_steps`: serves one victim after another and reports what is wrong after a
// death. It counts its receive requests: each completes once, whichever process dies.
#include <cstdio>
#include <cstring>
#include <set>
#include <utility>

#include <arpa/inet.h>
#include <unistd.h>

#include "tests/programs/endpoint.h"
#include "tests/programs/kill_steps.h"
#include "tests/programs/kill_steps_drain.h"
#include "tests/programs/kill_steps_events.h"
#include "tests/programs/kill_steps_windows.h"

namespace kill_steps {
namespace {

constexpr std::uint32_t kReceives = 4;  // Posted at a time.
constexpr std::int64_t kLimitNs = 1'000'000'000;
constexpr std::uint64_t kInboxBytes = kLengthMax + kGrhBytes;
constexpr std::uint64_t kGuardBytes = 64;  // After the area; must stay unchanged.
constexpr std::uint8_t kGuard = 0xee;

class Watch {
 public:
  explicit Watch(Shared& shared)
      : shared_(shared),
        device_(64),
        area_(device_, kLengthMax + kGuardBytes),
        inbox_(device_, 2 * kReceives * kInboxBytes),
        outbox_(device_, kGrhBytes),
        srq_(create_shared_queue()),
        windows_(device_, area_),
        events_(device_, 64),
        drain_(device_, create_queue_pair(IBV_QPT_RC, srq_), 2 * kReceives) {}

  [[noreturn]] void run() {
    for (std::uint32_t round = 1;; ++round) {
      while (!shared_.tracer.wait(round, kBegun)) {
      }
      round_ = shared_.round;
      what_ = round_.what;
      serve();
    }
  }

 private:
  void serve() {
    has_message_ = false;
    set_up();
    await_victim(kVictimConnected);
    shared_.survivor.say(round_.number, kConnected);
    await_victim(kWarm);
    if (what_->action == VictimAction::request && round_.warm) check_operation(true);
    events_.expect();
    ask_victim();
    shared_.survivor.say(round_.number, kReady);
    if (what_->survivor_deregisters) deregister();
    await_death();
    round_ = shared_.round;
    look_for_error();
    check_aftermath();
    clean_up();
    shared_.survivor.say(round_.number, kSatisfied);
  }

  // Before the death.

  void set_up() {
    if (qp_ == nullptr) {
      qp_ = create_queue_pair(what_->type, what_->shared_receives ? srq_ : nullptr);
    }
    fill_area();
    const bool needs_windows = what_->opcode == IBV_WR_SEND_WITH_INV;
    if (needs_windows) windows_.make();
    End& own = shared_.survivor_end;
    own.qpn = qp_->qp_num;
    own.rkey = area_.region->rkey;
    own.address = area_.address();
    if (!is_up_) device_.initialise(qp_);
    while (outstanding_.size() < kReceives) post_receive();
    await_victim(kVictimThere);
    if (!is_up_) device_.connect_initialised(qp_, shared_.victim_end.qpn, IBV_MTU_4096, 4);
    is_up_ = true;
    if (needs_windows) windows_.bind(qp_, shared_.survivor_end.window_keys);
    shared_.survivor.say(round_.number, kThere);
  }

  ibv_srq* create_shared_queue() const {
    ibv_srq_init_attr options{};
    options.attr = {.max_wr = 2 * kReceives, .max_sge = 1, .srq_limit = 0};
    ibv_srq* const created = ibv_create_srq(device_.pd, &options);
    endpoint::check(created != nullptr, "ibv_create_srq");
    return created;
  }

  /// Its receives complete in the queue that is armed for events.
  ibv_qp* create_queue_pair(ibv_qp_type type, ibv_srq* shared) const {
    ibv_qp_init_attr options{};
    options.send_cq = device_.cq;
    options.recv_cq = events_.cq();
    options.srq = shared;
    options.qp_type = type;
    options.cap = endpoint::capacity(8, shared != nullptr ? 0 : 2 * kReceives);
    ibv_qp* const created = ibv_create_qp(device_.pd, &options);
    endpoint::check(created != nullptr, "ibv_create_qp");
    return created;
  }

  /// Fills the area as if the first operation had been executed.
  void fill_area() {
    for (std::uint64_t i = 0; i < kLengthMax; ++i) {
      area_.bytes[i] = pattern(round_.number, true, i);
    }
    std::fill_n(area_.bytes.begin() + kLengthMax, kGuardBytes, kGuard);
    if (!what_->is_atomic()) return;
    const std::uint64_t word = first_word() + (round_.warm ? 0 : 1);
    std::memcpy(area_.bytes.data(), &word, sizeof word);
  }
  std::uint64_t first_word() const { return std::uint64_t{round_.number} * 4; }

  void post_receive() {
    const std::uint64_t id = next_receive_++;
    const std::uint64_t place = id % (2 * kReceives);
    ibv_sge segment{inbox_.address() + place * kInboxBytes, static_cast<std::uint32_t>(kInboxBytes),
                    inbox_.region->lkey};
    outstanding_.insert(id);
    if (!what_->shared_receives) return endpoint::post_receive(qp_, segment, id);
    ibv_recv_wr request{};
    request.wr_id = id;
    request.sg_list = &segment;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    endpoint::check(ibv_post_srq_recv(srq_, &request, &bad) == 0, "ibv_post_srq_recv");
  }

  /// Our own request is in flight to the victim when it dies. If the victim's memory or receives
  /// are tested, requests follow one after the other.
  void ask_victim() {
    asks_ = what_->type == IBV_QPT_RC;
    if (asks_) ask_once();
  }

  void ask_once() {
    outbox_.bytes.assign(outbox_.bytes.size(), 1);
    ibv_send_wr request{};
    request.opcode = what_->action == VictimAction::deregister ? IBV_WR_RDMA_WRITE : IBV_WR_SEND;
    request.wr.rdma = {shared_.victim_end.address, shared_.victim_end.rkey};
    endpoint::post_send(qp_, request, outbox_.segment(8));
  }

  /// Returns false if it has failed.
  bool look_after_request() {
    ibv_wc entry;
    while (asks_ && ibv_poll_cq(device_.cq, 1, &entry) > 0) {
      if (entry.status != IBV_WC_SUCCESS) {
        asks_ = false;
        const bool may_fail = what_->action == VictimAction::deregister || shared_.died_ns != 0;
        if (!may_fail) wrong("our request fails, and the victim lives", entry.status);
        const std::int64_t took = died() == 0 ? 0 : now_ns() - died();
        if (took > shared_.slowest_ns) shared_.slowest_ns = took;
      } else {
        ask_once();
      }
    }
    return asks_;
  }

  void deregister() {
    if (!shared_.tracer.wait(round_.number, kStopped)) wrong("the victim does not come to a stop");
    shared_.survivor.say(round_.number, kDeregisters);
    ibv_mr*& region = what_->consumes_receive() ? inbox_.region : area_.region;
    endpoint::check(ibv_dereg_mr(region) == 0, "ibv_dereg_mr");
    if (died() != 0 && now_ns() - died() > kLimitNs) wrong("deregistration takes too long");
  }

  /// Time of the death; 0: it lives.
  std::int64_t died() const { return shared_.died_ns.load(); }

  void await_death() {
    const bool is_busy = what_->action != VictimAction::request;
    if (!is_busy) {
      if (!shared_.tracer.wait(round_.number, kDead)) wrong("the victim is not killed");
      return;
    }
    // On a busy machine each step may wait for a time slice, because this process keeps a CPU busy.
    std::int64_t last = now_ns();
    const long before = shared_.steps;
    long steps = before;
    while (!shared_.tracer.has_said(round_.number, kDead)) {
      if (!look_after_request()) usleep(100);
      if (const long now = shared_.steps; std::exchange(steps, now) != now) last = now_ns();
      if (now_ns() - last > 10 * kLimitNs) not_killed(steps - before);
    }
  }

  // After the death.

  /// A request to the dead process fails within a second.
  void look_for_error() {
    while (look_after_request()) {
      if (now_ns() - died() > kLimitNs) wrong("a request to the dead does not end");
    }
  }

  void check_aftermath() {
    if (what_->action != VictimAction::request) return;
    check_operation(false);
    for (std::uint64_t i = 0; i < kGuardBytes; ++i) {
      if (area_.bytes[kLengthMax + i] != kGuard) wrong("bytes behind the area are written");
    }
  }

  /// Checks what the victim has done or begun. `is_warm_up`: it has finished and is alive.
  void check_operation(bool is_warm_up) {
    const bool is_done = is_warm_up || round_.is_complete;
    if (what_->consumes_receive() && !what_->survivor_deregisters) {
      const bool has_come = take_message(is_warm_up, is_done);
      if (is_done && !has_come) wrong("a message is lost");
      if (!is_warm_up && has_come && !events_.has_come(kLimitNs)) {
        wrong("a completion, and no event tells of it");
      }
    }
    if (what_->is_atomic()) return check_word(is_warm_up, is_done);
    const bool writes =
        what_->opcode == IBV_WR_RDMA_WRITE || what_->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    for (std::uint64_t i = 0; i < kLengthMax; ++i) {
      const std::uint8_t before = pattern(round_.number, true, i);
      const std::uint8_t after =
          writes && i < what_->length ? pattern(round_.number, is_warm_up, i) : before;
      const std::uint8_t now = area_.bytes[i];
      const bool may_lack = !is_done && now == before && !has_message_;
      if (now != after && !may_lack) wrong("the area has other bytes", static_cast<long long>(i));
    }
  }

  void check_word(bool is_warm_up, bool is_done) {
    std::uint64_t word = 0;
    std::memcpy(&word, area_.bytes.data(), sizeof word);
    const std::uint64_t after = first_word() + (is_warm_up ? 1 : 2);
    if (word == after || (!is_done && word == after - 1)) return;
    wrong("an atomic is lost or done twice", static_cast<long long>(word - after));
  }

  /// Checks the victim's message, if it has come; waits for it if it `must` have come.
  bool take_message(bool is_warm_up, bool must) {
    has_message_ = false;
    ibv_wc entry;
    const std::int64_t began = now_ns();
    do {
      while (ibv_poll_cq(events_.cq(), 1, &entry) > 0) {
        strike_off(entry);
        if (entry.status == IBV_WC_WR_FLUSH_ERR) continue;
        if (entry.status != IBV_WC_SUCCESS) wrong("a receive fails", entry.status);
        if (may_linger_ && has_bytes(entry, round_.number - 1, false)) {
          may_linger_ = false;
          continue;
        }
        if (has_message_) wrong("one message completes two receives");
        has_message_ = true;
        check_message(entry, is_warm_up);
      }
    } while (must && !has_message_ && now_ns() - began < kLimitNs);
    return has_message_;
  }

  void check_message(const ibv_wc& entry, bool is_warm_up) {
    const std::uint32_t before = what_->type == IBV_QPT_UD ? kGrhBytes : 0;
    if (entry.byte_len != what_->length + before) wrong("a message has another length");
    if (what_->opcode == IBV_WR_SEND_WITH_IMM || what_->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
      if (entry.imm_data != htonl(kImmediate)) wrong("a message has other immediate data");
    }
    if (what_->opcode == IBV_WR_SEND_WITH_INV &&
        entry.invalidated_rkey != shared_.survivor_end.window_keys[is_warm_up ? 0 : 1]) {
      wrong("another key is invalidated");
    }
    if (what_->is_send() && !has_bytes(entry, round_.number, is_warm_up)) {
      wrong("a message has other bytes");
    }
  }

  bool has_bytes(const ibv_wc& entry, std::uint32_t round, bool is_warm_up) const {
    const std::uint32_t before = what_->type == IBV_QPT_UD ? kGrhBytes : 0;
    const std::uint8_t* const bytes =
        &inbox_.bytes[entry.wr_id % (2 * kReceives) * kInboxBytes + before];
    for (std::uint64_t i = 0; i < what_->length; ++i) {
      if (bytes[i] != pattern(round, is_warm_up, i)) return false;
    }
    return true;
  }

  void strike_off(const ibv_wc& entry) {
    if (outstanding_.erase(entry.wr_id) != 1) {
      wrong("a receive completes twice", static_cast<long long>(entry.wr_id));
    }
  }

  // Each receive is still posted, or has completed once.

  void clean_up() {
    // What a dead peer has left at a datagram queue pair is found by the next one.
    const bool stays = what_->type == IBV_QPT_UD && !round_.warm && !round_.ends;
    may_linger_ = stays && !has_message_;
    if (!stays) {
      set_state(IBV_QPS_ERR);
      if (what_->shared_receives) empty_shared_queue();
      await_flushed();
      set_state(IBV_QPS_RESET);
      is_up_ = false;
    }
    ibv_wc entry;
    while (ibv_poll_cq(device_.cq, 1, &entry) > 0) {
    }
    windows_.free();
    if (what_->survivor_deregisters) {
      endpoint::Buffer& gone = what_->consumes_receive() ? inbox_ : area_;
      gone.region = ibv_reg_mr(device_.pd, gone.bytes.data(), gone.bytes.size(), endpoint::kAccess);
      endpoint::check(gone.region != nullptr, "ibv_reg_mr");
    }
    if (!round_.ends) return;
    endpoint::check(ibv_destroy_qp(qp_) == 0, "ibv_destroy_qp");
    qp_ = nullptr;
  }

  void set_state(ibv_qp_state state) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    endpoint::check(ibv_modify_qp(qp_, &attr, IBV_QP_STATE) == 0, "ibv_modify_qp");
  }

  void await_flushed() {
    ibv_wc entry;
    const std::int64_t began = now_ns();
    while (!outstanding_.empty()) {
      while (ibv_poll_cq(events_.cq(), 1, &entry) > 0) strike_off(entry);
      if (now_ns() - began > kLimitNs) {
        wrong("a receive is lost", static_cast<long long>(*outstanding_.begin()));
      }
    }
    for (int i = 0; i < 3; ++i) {
      if (ibv_poll_cq(events_.cq(), 1, &entry) > 0) wrong("a receive completes twice");
    }
  }

  void empty_shared_queue() {
    ibv_wc entry;
    while (ibv_poll_cq(events_.cq(), 1, &entry) > 0) strike_off(entry);
    drain_.take(outstanding_.size());
  }

  void await_victim(Victim step) {
    if (!shared_.victim.wait(round_.number, step)) wrong("the victim takes too long", step);
  }

  /// Reports the progress of all processes.
  [[noreturn]] void not_killed(long steps) const {
    std::printf("the tracer said %u, the victim %u, and took %ld steps; our request %s\n",
                shared_.tracer.step(), shared_.victim.step(), steps,
                asks_ ? "is under way" : "has ended");
    fail(shared_, "survivor", "the victim is not killed");
  }

  [[noreturn]] void wrong(const char* what, long long detail = 0) {
    fail(shared_, "survivor", what, detail);
  }

  Shared& shared_;
  Round round_;
  const Case* what_ = nullptr;
  endpoint::Device device_;
  endpoint::Buffer area_;   // The victim writes and reads it.
  endpoint::Buffer inbox_;  // For receives.
  endpoint::Buffer outbox_;
  ibv_srq* srq_;
  ibv_qp* qp_ = nullptr;  // The case's.
  Windows windows_;
  Events events_;  // Of receives.
  Drain drain_;
  bool is_up_ = false;
  bool asks_ = false;
  bool has_message_ = false;
  /// A victim that is killed between counting its message and making it valid has sent it. The
  /// message comes when the death is noticed, for a queue pair that is also used in the next round.
  bool may_linger_ = false;
  std::uint64_t next_receive_ = 0;
  std::set<std::uint64_t> outstanding_;
};

}  // namespace

void survive(Shared& shared) { Watch(shared).run(); }

}  // namespace kill_steps
