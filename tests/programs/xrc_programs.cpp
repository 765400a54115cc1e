#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "endpoint.h"
#include "other_program.h"

/// An XRC domain of several programs: one has the target queue pair, one the shared receive queue
/// that requests name, one sends. Each request's content is checked; then one of them is killed,
/// and the others continue with a new one in its place.
namespace programs {
namespace {

constexpr std::size_t kBytes = 3 << 20;  // More than one step of the direct path.
constexpr std::uint32_t kImmediate = 0x01020304;

std::uint8_t byte_at(std::size_t place, std::uint8_t seed) {
  return static_cast<std::uint8_t>(place * 7 + place / 256 + seed);
}
void fill(Buffer& buffer, std::uint8_t seed) {
  for (std::size_t i = 0; i < buffer.bytes.size(); ++i) buffer.bytes[i] = byte_at(i, seed);
}
void check_bytes(const Buffer& buffer, std::size_t length, std::uint8_t seed, const char* what) {
  for (std::size_t i = 0; i < length; ++i) {
    if (buffer.bytes[i] == byte_at(i, seed)) continue;
    std::fprintf(stderr, "%s: byte %zu is wrong\n", what, i);
    std::exit(1);
  }
}

ibv_xrcd* open_domain(const Device& device, int file, int flags = O_CREAT) {
  ibv_xrcd_init_attr wanted{};
  wanted.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  wanted.fd = file;
  wanted.oflags = flags;
  return ibv_open_xrcd(device.context, &wanted);
}

struct Queue {
  Queue(const Device& device, ibv_xrcd* domain) {
    ibv_srq_init_attr_ex wanted{};
    wanted.attr.max_wr = 8;
    wanted.attr.max_sge = 1;
    wanted.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                       IBV_SRQ_INIT_ATTR_CQ;
    wanted.srq_type = IBV_SRQT_XRC;
    wanted.pd = device.pd;
    wanted.xrcd = domain;
    wanted.cq = device.cq;
    srq = ibv_create_srq_ex(device.context, &wanted);
    check(srq != nullptr, "ibv_create_srq_ex");
    check(ibv_get_srq_num(srq, &number) == 0, "ibv_get_srq_num");
  }
  void post(ibv_sge segment) const {
    ibv_recv_wr request{};
    request.wr_id = 7;
    request.sg_list = &segment;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    check(ibv_post_srq_recv(srq, &request, &bad) == 0, "ibv_post_srq_recv");
  }
  ibv_srq* srq = nullptr;
  std::uint32_t number = 0;
};

/// The program with the target: sends its number, receives the sender's, and reports its end.
void be_target(const Child& parent, int file) {
  const Device device(16);
  check(open_domain(device, file, O_CREAT | O_EXCL) == nullptr && errno == EINVAL,
        "O_EXCL on a domain that another program has");
  ibv_xrcd* const domain = open_domain(device, file, 0);
  check(domain != nullptr, "ibv_open_xrcd of a domain that another program has");
  ibv_qp_init_attr_ex wanted{};
  wanted.qp_type = IBV_QPT_XRC_RECV;
  wanted.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  wanted.xrcd = domain;
  ibv_qp* const qp = ibv_create_qp_ex(device.context, &wanted);
  check(qp != nullptr, "ibv_create_qp_ex");
  Buffer buffer(device, kBytes);
  const Queue own(device, domain);
  own.post(buffer.segment(kBytes));
  parent.send_value({qp->qp_num, own.number});
  device.connect(qp, static_cast<std::uint32_t>(parent.receive_value().a), IBV_MTU_1024);
  parent.send_value({});
  parent.receive_value();  // There is a message in its own queue.
  const ibv_wc completion = device.completions(1).front();
  check_bytes(buffer, completion.byte_len, 5, "the target's own queue");
  parent.send_value({});
  // The queue's program is killed: a request that names the queue fails the queue pair.
  while (parent.has_more()) {
    parent.receive_value();
    ibv_async_event event{};
    do {
      check(ibv_get_async_event(device.context, &event) == 0, "ibv_get_async_event");
      ibv_ack_async_event(&event);
    } while (event.event_type == IBV_EVENT_COMM_EST);
    parent.send_value({static_cast<std::uint64_t>(event.event_type)});
  }
}

/// The program with the queue: each message asks it to post a receive, or to complete one (`a`).
void be_queue(const Child& parent, int file) {
  const Device device(16);
  check(open_domain(device, file, 0) == nullptr && errno == EAGAIN, "a file without a domain");
  ibv_xrcd* const domain = open_domain(device, file);
  check(domain != nullptr, "ibv_open_xrcd");
  const Queue queue(device, domain);
  Buffer received(device, kBytes);
  Buffer shown(device, kBytes);
  std::memset(shown.bytes.data(), 0, 8);
  parent.send_value({queue.number, shown.address(), shown.region->rkey});
  while (parent.has_more()) {
    const Message wanted = parent.receive_value();
    if (wanted.a == 0) {
      queue.post(received.segment(kBytes));
      parent.send_value({});
      continue;
    }
    const ibv_wc completion = device.completions(1).front();
    check(completion.wr_id == 7 && completion.opcode == IBV_WC_RECV, "the receive's completion");
    check((completion.wc_flags & IBV_WC_WITH_IMM) != 0 && completion.imm_data == kImmediate,
          "immediate data");
    check(completion.qp_num == wanted.b && completion.src_qp == wanted.c, "queue pair numbers");
    check_bytes(received, completion.byte_len, static_cast<std::uint8_t>(wanted.a), "SEND");
    parent.send_value({completion.byte_len});
  }
}

/// The sender, connected to a target, and what it knows about the queue's program.
struct Sender {
  Sender(const Device& own, const Child& target_program, const Message& queue_word)
      : device(own), buffer(own, kBytes), queue(queue_word) {
    qp = device.create_queue_pair(IBV_QPT_XRC_SEND, 8, 0);
    const Message target = target_program.receive_value();
    target_qpn = target.a;
    target_queue = target.b;
    target_program.send_value({qp->qp_num});
    target_program.receive_value();
    device.connect(qp, static_cast<std::uint32_t>(target_qpn), IBV_MTU_1024);
  }
  Sender(const Sender&) = delete;
  ~Sender() { ibv_destroy_qp(qp); }
  void post(ibv_wr_opcode opcode, std::uint64_t srq, std::size_t length, std::size_t offset = 0,
            std::uint64_t operand = 0, std::uint64_t other = 0) const {
    ibv_send_wr request{};
    request.opcode = opcode;
    request.imm_data = kImmediate;
    request.wr.rdma.remote_addr = queue.b + offset;
    request.wr.rdma.rkey = static_cast<std::uint32_t>(queue.c);
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
      request.wr.atomic.remote_addr = queue.b + offset;
      request.wr.atomic.compare_add = operand;
      request.wr.atomic.swap = other;
      request.wr.atomic.rkey = static_cast<std::uint32_t>(queue.c);
    }
    request.qp_type.xrc.remote_srqn = static_cast<std::uint32_t>(srq);
    post_send(qp, request, buffer.segment(length));
  }
  ibv_wc_status outcome() const {
    ibv_wc completion{};
    while (ibv_poll_cq(device.cq, 1, &completion) == 0) {
    }
    return completion.status;
  }
  void expect(ibv_wc_status wanted, const char* what) const {
    const ibv_wc_status status = outcome();
    if (status == wanted) return;
    std::fprintf(stderr, "%s: %s, not %s\n", what, ibv_wc_status_str(status),
                 ibv_wc_status_str(wanted));
    std::exit(1);
  }
  void expect_success(const char* what) const { expect(IBV_WC_SUCCESS, what); }
  std::uint64_t first_word() const {
    std::uint64_t word = 0;
    std::memcpy(&word, buffer.bytes.data(), sizeof word);
    return word;
  }

  const Device& device;
  Buffer buffer;
  Message queue;  // The queue's number; address and key of its program's memory.
  ibv_qp* qp = nullptr;
  std::uint64_t target_qpn = 0;
  std::uint64_t target_queue = 0;
};

/// SENDs of several lengths; one comes before its receive.
void check_sends(Sender& sender, const Child& queue) {
  std::uint8_t seed = 1;
  for (const std::size_t length : {std::size_t{0}, std::size_t{8}, std::size_t{100'001}, kBytes}) {
    const bool posts_first = length != 8;
    if (posts_first) queue.send_value({}), queue.receive_value();
    fill(sender.buffer, seed);
    sender.post(IBV_WR_SEND_WITH_IMM, sender.queue.a, length);
    if (!posts_first) usleep(20'000), queue.send_value({}), queue.receive_value();
    sender.expect_success("SEND");
    queue.send_value({seed++, sender.target_qpn, sender.qp->qp_num});
    check(queue.receive_value().a == length, "length");
  }
}

void check_memory(Sender& sender) {
  fill(sender.buffer, 77);
  sender.post(IBV_WR_RDMA_WRITE, sender.queue.a, kBytes);
  sender.expect_success("WRITE");
  fill(sender.buffer, 0);
  sender.post(IBV_WR_RDMA_READ, sender.queue.a, kBytes);
  sender.expect_success("READ");
  check_bytes(sender.buffer, kBytes, 77, "READ");
  constexpr std::size_t kAt = 4096;
  std::memset(sender.buffer.bytes.data(), 0, 8);
  sender.post(IBV_WR_RDMA_WRITE, sender.queue.a, 8, kAt);
  sender.expect_success("WRITE of 8 bytes");
  sender.post(IBV_WR_ATOMIC_FETCH_AND_ADD, sender.queue.a, 8, kAt, 5);
  sender.expect_success("FETCH_AND_ADD");
  check(sender.first_word() == 0, "the value before FETCH_AND_ADD");
  sender.post(IBV_WR_ATOMIC_CMP_AND_SWP, sender.queue.a, 8, kAt, 5, 9);
  sender.expect_success("CMP_AND_SWP");
  check(sender.first_word() == 5, "the value before CMP_AND_SWP");
  sender.post(IBV_WR_RDMA_READ, sender.queue.a, 8, kAt);
  sender.expect_success("READ of 8 bytes");
  check(sender.first_word() == 9, "the value after CMP_AND_SWP");
}

void check_targets_own_queue(Sender& sender, const Child& target) {
  fill(sender.buffer, 5);
  sender.post(IBV_WR_SEND, sender.target_queue, 5000);
  sender.expect_success("SEND to the target's own queue");
  target.send_value({});
  target.receive_value();
}

void check_all(Sender& sender, const Child& target, const Child& queue) {
  check_sends(sender, queue);
  check_memory(sender);
  check_targets_own_queue(sender, target);
  check_sends(sender, queue);
}

int run() {
  char path[] = "/tmp/verbatim-xrc-programs-XXXXXX";
  const int file = mkostemp(path, O_CLOEXEC);
  check(file >= 0 && unlink(path) == 0, "a file");
  const auto queue_program = [file](const Child& parent) { be_queue(parent, file); };
  const auto target_program = [file](const Child& parent) { be_target(parent, file); };
  // All are started before this program opens the device.
  const Child queue("the queue's program", queue_program);
  const Message queue_word = queue.receive_value();
  const Child victim("the first target's program", target_program);
  const Child target("the second target's program", target_program);
  const Device device(16);
  {
    Sender sender(device, victim, queue_word);
    check_all(sender, victim, queue);
    victim.kill();
    sender.post(IBV_WR_RDMA_WRITE, sender.queue.a, kBytes);
    sender.expect(IBV_WC_RETRY_EXC_ERR, "a request to a program that was killed");
  }
  Sender sender(device, target, queue_word);
  check_all(sender, target, queue);
  // A message that is too large for its receive, and one for a queue that does not exist.
  sender.post(IBV_WR_RDMA_WRITE, sender.queue.a, 8, kBytes);
  sender.expect(IBV_WC_REM_ACCESS_ERR, "WRITE behind the region");
  target.send_value({});
  check(target.receive_value().a == IBV_EVENT_QP_ACCESS_ERR, "the target's event");
  const Child third("the third target's program", target_program);
  Sender last(device, third, queue_word);
  check_all(last, third, queue);
  queue.kill();
  last.post(IBV_WR_SEND, last.queue.a, 8);
  last.expect(IBV_WC_REM_INV_REQ_ERR, "a request that names a queue of a program that was killed");
  third.send_value({});
  check(third.receive_value().a == IBV_EVENT_QP_REQ_ERR, "the third target's event");
  third.end();
  target.end();
  std::puts("passed");
  return 0;
}

}  // namespace
}  // namespace programs

int main() { return programs::run(); }
