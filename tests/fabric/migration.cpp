#include <array>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "tests/programs/endpoint.h"

/// migration TYPE ROLE: one end of a connection with an alternate path. TYPE is rc, uc or xrc, ROLE
/// is send or receive. It prints its queue pair and its shared receive queue, and reads those of
/// its peer and their LIDs: OWN PEER QP SRQ. Then numbered messages flow without end; the receiver
/// checks that none is lost or comes twice. Standard input has commands, each of which is answered
/// by a line:
///
///     rearm OWN PEER    loads the path between these LIDs, and rearms
///     migrate           migrates now
///     state             answers `enum ibv_mig_state`, and the LID to which it sends
///     count             answers the number of messages that are complete
///
/// "event NUMBER" is printed for each `enum ibv_event_type`, "failed STATUS" for a failed request
/// (`enum ibv_wc_status`), after which nothing more is sent.
namespace {

using namespace endpoint;

constexpr std::size_t kMessageBytes = 4096;
constexpr std::uint32_t kSends = 16;
constexpr std::uint32_t kReceives = 64;
/// A path is given up after two seconds, which busy processors alone never need.
constexpr Retries kRetries{.timeout = 16, .count = 3, .not_ready = 7};

template <typename... Values>
void say(const char* format, Values... values) {
  std::printf(format, values...);
  std::printf("\n");
  std::fflush(stdout);
}

class End {
 public:
  End(const std::string& type, bool sends) : sends_(sends) {
    channel_ = ibv_create_comp_channel(device_.context);
    check(channel_ != nullptr, "ibv_create_comp_channel");
    cq_ = ibv_create_cq(device_.context, kReceives, nullptr, channel_, 0);
    check(cq_ != nullptr, "ibv_create_cq");
    create_queue_pair(type);
    check(fcntl(device_.context->async_fd, F_SETFL, O_NONBLOCK) == 0, "O_NONBLOCK");
    std::uint32_t queue = 0;
    if (srq_ != nullptr) check(ibv_get_srq_num(srq_, &queue) == 0, "ibv_get_srq_num");
    say("%u %u", qp_->qp_num, queue);
  }

  void connect_to_peer() {
    std::string line;
    std::getline(std::cin, line);
    std::istringstream words(line);
    const ibv_ah_attr path = path_of(words);
    std::uint32_t peer = 0;
    check(bool(words >> peer >> peer_queue_), "the peer's numbers");
    device_.initialise(qp_);
    for (std::uint32_t i = 0; !sends_ && i < kReceives; ++i) receive(i);
    Device::connect_along(path, qp_, peer, IBV_MTU_4096, kRetries);
    if (srq_ != nullptr) move_target_to_rts();
    for (std::uint32_t i = 0; sends_ && i < kSends; ++i) send();
  }

  /// Returns when standard input ends.
  void run() {
    std::array<pollfd, 3> ready{{{STDIN_FILENO, POLLIN, 0},
                                 {channel_->fd, POLLIN, 0},
                                 {device_.context->async_fd, POLLIN, 0}}};
    for (std::string line;;) {
      check(ibv_req_notify_cq(cq_, 0) == 0, "ibv_req_notify_cq");
      take_completions();
      check(poll(ready.data(), ready.size(), -1) > 0, "poll");
      if (ready[1].revents != 0) take_notification();
      if (ready[2].revents != 0) print_events();
      if (ready[0].revents == 0) continue;
      if (!std::getline(std::cin, line)) return;
      carry_out(line);
    }
  }

 private:
  void create_queue_pair(const std::string& type) {
    ibv_qp_init_attr_ex wanted{};
    wanted.send_cq = wanted.recv_cq = cq_;
    wanted.cap = capacity(kSends, kReceives);
    wanted.pd = device_.pd;
    wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
    wanted.qp_type = type == "uc" ? IBV_QPT_UC : IBV_QPT_RC;
    if (type == "xrc") {
      wanted.qp_type = sends_ ? IBV_QPT_XRC_SEND : IBV_QPT_XRC_RECV;
      if (!sends_) {
        wanted.comp_mask = IBV_QP_INIT_ATTR_XRCD;
        wanted.xrcd = create_shared_queue();
      }
    }
    qp_ = ibv_create_qp_ex(device_.context, &wanted);
    check(qp_ != nullptr, "ibv_create_qp_ex");
  }
  /// Returns its domain.
  ibv_xrcd* create_shared_queue() {
    ibv_xrcd_init_attr domain{};
    domain.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    domain.fd = -1;
    domain.oflags = O_CREAT;
    ibv_srq_init_attr_ex wanted{};
    wanted.attr = {.max_wr = kReceives, .max_sge = 1, .srq_limit = 0};
    wanted.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                       IBV_SRQ_INIT_ATTR_CQ;
    wanted.srq_type = IBV_SRQT_XRC;
    wanted.pd = device_.pd;
    wanted.xrcd = ibv_open_xrcd(device_.context, &domain);
    check(wanted.xrcd != nullptr, "ibv_open_xrcd");
    wanted.cq = cq_;
    srq_ = ibv_create_srq_ex(device_.context, &wanted);
    check(srq_ != nullptr, "ibv_create_srq_ex");
    return wanted.xrcd;
  }

  /// An XRC target works in RTR, but its paths migrate only in RTS.
  void move_target_to_rts() const {
    ibv_qp_attr wanted{};
    wanted.qp_state = IBV_QPS_RTS;
    wanted.timeout = kRetries.timeout;
    check(ibv_modify_qp(qp_, &wanted, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN) == 0,
          "modify_qp to RTS");
  }

  ibv_ah_attr path_of(std::istringstream& words) const {
    std::uint16_t own = 0;
    ibv_ah_attr path{};
    check(bool(words >> own >> path.dlid), "LIDs");
    path.src_path_bits = static_cast<std::uint8_t>(own - device_.lid);
    path.port_num = 1;
    return path;
  }

  ibv_sge slot(std::uint64_t index) const {
    ibv_sge segment = buffer_.segment(kMessageBytes);
    segment.addr += index * kMessageBytes;
    return segment;
  }
  std::uint32_t& number_in(std::uint64_t index) {
    return *reinterpret_cast<std::uint32_t*>(buffer_.bytes.data() + index * kMessageBytes);
  }
  void send() {
    ibv_send_wr request{};
    request.wr_id = posted_ % kSends;
    request.opcode = IBV_WR_SEND;
    request.qp_type.xrc.remote_srqn = peer_queue_;
    number_in(request.wr_id) = posted_++;
    post_send(qp_, request, slot(request.wr_id));
  }
  void receive(std::uint64_t index) {
    if (srq_ == nullptr) return post_receive(qp_, slot(index), index);
    ibv_recv_wr request{};
    ibv_sge segment = slot(index);
    request.wr_id = index;
    request.sg_list = &segment;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    check(ibv_post_srq_recv(srq_, &request, &bad) == 0, "ibv_post_srq_recv");
  }

  void take_completions() {
    ibv_wc done{};
    while (ibv_poll_cq(cq_, 1, &done) == 1) {
      if (done.status != IBV_WC_SUCCESS) {
        if (!has_failed_) say("failed %d", done.status);
        has_failed_ = true;
        continue;
      }
      const std::uint32_t expected = complete_++;
      if (sends_) {
        send();
        continue;
      }
      if (number_in(done.wr_id) != expected) {
        std::fprintf(stderr, "message %u in place of %u\n", number_in(done.wr_id), expected);
        std::exit(1);
      }
      receive(done.wr_id);
    }
  }
  void take_notification() const {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    check(ibv_get_cq_event(channel_, &cq, &context) == 0, "ibv_get_cq_event");
    ibv_ack_cq_events(cq, 1);
  }
  void print_events() const {
    ibv_async_event event{};
    while (ibv_get_async_event(device_.context, &event) == 0) {
      say("event %d", event.event_type);
      ibv_ack_async_event(&event);
    }
  }

  void carry_out(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    ibv_qp_attr wanted{};
    if (command == "rearm") {
      wanted.alt_ah_attr = path_of(words);
      wanted.alt_port_num = 1;
      wanted.alt_timeout = kRetries.timeout;
      wanted.path_mig_state = IBV_MIG_REARM;
      check(ibv_modify_qp(qp_, &wanted, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE) == 0, "rearm");
      say("rearms");
    } else if (command == "migrate") {
      wanted.path_mig_state = IBV_MIG_MIGRATED;
      check(ibv_modify_qp(qp_, &wanted, IBV_QP_PATH_MIG_STATE) == 0, "migrate");
      say("migrates");
    } else if (command == "state") {
      ibv_qp_init_attr options{};
      check(ibv_query_qp(qp_, &wanted, IBV_QP_PATH_MIG_STATE | IBV_QP_AV, &options) == 0,
            "ibv_query_qp");
      say("state %d %u", wanted.path_mig_state, wanted.ah_attr.dlid);
    } else if (command == "count") {
      say("count %u", complete_);
    } else {
      fail("command " + command);
    }
  }

  const bool sends_;
  Device device_{1};
  Buffer buffer_{device_, kMessageBytes* kReceives};
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_srq* srq_ = nullptr;  // XRC: the receiver's.
  ibv_qp* qp_ = nullptr;
  std::uint32_t peer_queue_ = 0;
  std::uint32_t posted_ = 0;    // Sends.
  std::uint32_t complete_ = 0;  // Sends or receives.
  bool has_failed_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) fail("migration TYPE ROLE");
  std::setvbuf(stdin, nullptr, _IONBF, 0);  // So that `poll` sees each line that is not read yet.
  End end(argv[1], std::string(argv[2]) == "send");
  end.connect_to_peer();
  end.run();
  return 0;
}
