#include "api/party.h"

#include <cerrno>

#include <arpa/inet.h>

#include "api/shared_receives.h"

namespace verbatim::detail {
namespace {

constexpr std::size_t kMaxSlices = 64;

struct OpcodeRow {
  Operation operation;
  ibv_wr_opcode opcode;
};
constexpr OpcodeRow kOpcodes[] = {
    {Operation::send, IBV_WR_SEND},
    {Operation::send_with_immediate, IBV_WR_SEND_WITH_IMM},
    {Operation::write, IBV_WR_RDMA_WRITE},
    {Operation::write_with_immediate, IBV_WR_RDMA_WRITE_WITH_IMM},
    {Operation::read, IBV_WR_RDMA_READ},
    {Operation::compare_and_swap, IBV_WR_ATOMIC_CMP_AND_SWP},
    {Operation::fetch_and_add, IBV_WR_ATOMIC_FETCH_AND_ADD},
};
static_assert(kOpcodes[static_cast<int>(Operation::fetch_and_add) - 1].operation ==
              Operation::fetch_and_add);

ibv_wr_opcode opcode_of(Operation operation) {
  return kOpcodes[static_cast<std::size_t>(operation) - 1].opcode;
}

bool names_remote(Operation operation) {
  return operation != Operation::send && operation != Operation::send_with_immediate;
}

unsigned flags_of(const Flags& flags) {
  constexpr unsigned kFence = IBV_SEND_FENCE;
  constexpr unsigned kInline = IBV_SEND_INLINE;
  constexpr unsigned kSolicited = IBV_SEND_SOLICITED;
  return (flags.fenced ? kFence : 0) | (flags.inlined ? kInline : 0) |
         (flags.solicited ? kSolicited : 0);
}

/// What is wrong with the local bytes of a request, in words; null where nothing is.
const char* fault_of(std::span<const Slice> local, std::uint32_t max_slices) {
  if (local.size() > max_slices) return "more slices than the queue pair was made for";
  for (const Slice& slice : local) {
    if (!slice.is_valid)
      return "a slice does not lie within its memory, or is larger than 4 GiB - 1";
  }
  return nullptr;
}

}  // namespace

Party::Party(ProtectionDomain of, const QueuePairOptions& options)
    : domain(std::move(of)), sends(options.send_depth), receives(options.receive_depth) {}

Party::~Party() { abandon(); }

Result<void> Party::make_queues(const QueuePairOptions& options) {
  if (options.shared_receives) shared = options.shared_receives->handle();
  if (options.completions) {
    queue = options.completions->handle();
    return {};
  }
  auto made = Queue::make(domain.context(),
                          {.entries = options.send_depth + (shared ? 0 : options.receive_depth)});
  if (!made) return made.error();
  queue = *made;
  return {};
}

ibv_qp_init_attr Party::attributes(const QueuePairOptions& options, ibv_qp_type type) const {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = queue->cq;
  wanted.recv_cq = shared ? shared->queue->cq : queue->cq;
  wanted.srq = shared ? shared->srq : nullptr;
  wanted.cap = {.max_send_wr = options.send_depth,
                .max_recv_wr = shared ? 0 : options.receive_depth,
                .max_send_sge = options.send_slices,
                .max_recv_sge = shared ? 0 : options.receive_slices,
                .max_inline_data = options.inline_bytes};
  wanted.qp_type = type;
  return wanted;
}

Result<void> Party::adopt(ibv_qp* made, const ibv_qp_cap& given) {
  max_slices = std::min<std::uint32_t>(given.max_send_sge, kMaxSlices);
  max_receive_slices = std::min<std::uint32_t>(given.max_recv_sge, kMaxSlices);
  max_inline = given.max_inline_data;
  if (auto attached =
          queue->attach(made->qp_num, *this, sends.depth + (shared ? 0 : receives.depth));
      !attached) {
    return attached;
  }
  if (shared && shared->queue != queue) {
    if (auto attached = shared->queue->attach(made->qp_num, *this, 0); !attached) return attached;
  }
  queue_pair = made;
  domain.handle()->add(*this);
  return {};
}

void Party::abandon() {
  if (queue_pair == nullptr) return;
  const std::uint32_t number = queue_pair->qp_num;
  {
    const Queue::Guard guard(*queue);
    queue->detach(number, sends.depth + (shared ? 0 : receives.depth));
    queue->cancel(sends, number);
    queue->cancel(receives, number);
  }
  if (shared && shared->queue != queue) shared->queue->detach(number, 0);
  domain.handle()->remove(*this);
  queue_pair = nullptr;
}

void Party::post(Pending* pending, Failure* failed, const Order& order,
                 std::span<const Slice> local) {
  const Queue::Guard guard(*queue);
  const auto refuse = [&](Status status, int code, const char* detail) {
    const Failure failure{.call = Call::post,
                          .operation = order.operation,
                          .status = status,
                          .code = code,
                          .queue_pair = queue_pair == nullptr ? 0 : queue_pair->qp_num,
                          .detail = detail};
    pending != nullptr ? pending->fail(failure) : static_cast<void>(*failed = failure);
  };
  if (queue_pair == nullptr)
    return refuse(Status::disconnected, 0, "the queue pair has been disconnected");
  if (const char* const fault = fault_of(local, max_slices))
    return refuse(Status::out_of_range, 0, fault);
  std::uint64_t length = 0;
  ibv_sge segments[kMaxSlices];
  for (std::size_t i = 0; i < local.size(); ++i) {
    segments[i] = {reinterpret_cast<std::uintptr_t>(local[i].data), local[i].size,
                   local[i].local_key};
    length += local[i].size;
  }
  if (!order.remote.is_valid || (names_remote(order.operation) && length > order.remote.size)) {
    return refuse(Status::out_of_range, 0,
                  "the request has more bytes than the peer's region token");
  }
  if (order.flags.inlined && length > max_inline) {
    return refuse(Status::out_of_range, 0,
                  "more inline bytes than the queue pair was made for (inline_bytes)");
  }
  if (sends.is_full()) {
    queue->poll();
    if (sends.is_full()) {
      return refuse(Status::queue_full, ENOMEM,
                    "send_depth requests are under way: wait for one, or make it deeper");
    }
  }

  const std::uint64_t sequence = sends.posted() + 1;
  // Without a token, now and then: else nobody would learn that the queue has room again.
  const bool signals = pending != nullptr || sequence - sends.signaled >= (sends.depth + 3) / 4;
  ibv_send_wr request;
  request.wr_id = work_id(Side::send, sequence);
  request.next = nullptr;
  request.sg_list = segments;
  request.num_sge = static_cast<int>(local.size());
  request.opcode = opcode_of(order.operation);
  request.send_flags =
      flags_of(order.flags) | (signals ? static_cast<unsigned>(IBV_SEND_SIGNALED) : 0);
  request.imm_data = htonl(order.immediate);
  switch (order.operation) {
    case Operation::compare_and_swap:
    case Operation::fetch_and_add:
      request.wr.atomic = {order.remote.address, order.compare_add, order.swap,
                           order.remote.remote_key};
      break;
    case Operation::send:
    case Operation::send_with_immediate:
      if (order.address != nullptr) {
        request.wr.ud = {order.address, order.remote_queue_pair, order.remote_key};
      }
      break;
    default:
      request.wr.rdma = {order.remote.address, order.remote.remote_key};
  }
  ibv_send_wr* bad = nullptr;
  // In the ring first: another thread's poll may see the end before this call returns.
  sends.push(pending, order.operation);
  if (pending != nullptr)
    pending->begin(*queue, sends.slot(sequence).pending, order.operation, queue_pair->qp_num);
  if (const int code = ibv_post_send(queue_pair, &request, &bad); code != 0) {
    sends.pop();
    if (pending != nullptr) pending->withdraw();
    return refuse(Status::refused, code,
                  code == ENOMEM
                      ? "the adapter's send queue is full"
                      : "the queue pair cannot send, or the adapter has no such operation");
  }
  if (signals) sends.signaled = sequence;
}

void Party::post_receive(Pending& pending, std::span<const Slice> into) {
  const Queue::Guard guard(*queue);
  const auto refuse = [&](Status status, int code, const char* detail) {
    pending.fail({.call = Call::post,
                  .operation = Operation::receive,
                  .status = status,
                  .code = code,
                  .queue_pair = queue_pair == nullptr ? 0 : queue_pair->qp_num,
                  .detail = detail});
  };
  if (queue_pair == nullptr)
    return refuse(Status::disconnected, 0, "the queue pair has been disconnected");
  if (shared)
    return refuse(Status::refused, EINVAL,
                  "the queue pair takes its receives from a shared receive queue");
  if (const char* const fault = fault_of(into, max_receive_slices))
    return refuse(Status::out_of_range, 0, fault);
  if (receives.is_full()) {
    queue->poll();
    if (receives.is_full())
      return refuse(Status::queue_full, ENOMEM, "receive_depth receives are posted already");
  }
  ibv_sge segments[kMaxSlices];
  for (std::size_t i = 0; i < into.size(); ++i) {
    segments[i] = {reinterpret_cast<std::uintptr_t>(into[i].data), into[i].size, into[i].local_key};
  }
  const std::uint64_t sequence = receives.posted() + 1;
  ibv_recv_wr request{.wr_id = work_id(Side::receive, sequence),
                      .next = nullptr,
                      .sg_list = segments,
                      .num_sge = static_cast<int>(into.size())};
  receives.push(&pending, Operation::receive);
  pending.begin(*queue, receives.slot(sequence).pending, Operation::receive, queue_pair->qp_num);
  ibv_recv_wr* bad = nullptr;
  if (const int code = ibv_post_recv(queue_pair, &request, &bad); code != 0) {
    receives.pop();
    pending.withdraw();
    refuse(Status::refused, code, "the queue pair cannot receive");
  }
}

void Party::on_completion(Queue& at, const ibv_wc& entry) {
  switch (static_cast<Side>(entry.wr_id & 3)) {
    case Side::send: {
      const std::uint64_t sequence = entry.wr_id >> 2;
      if (entry.status != IBV_WC_SUCCESS && first_failure.status == Status::success) {
        first_failure = {.operation = sends.slot(sequence).operation,
                         .status = status_of(entry.status),
                         .code = entry.status,
                         .queue_pair = entry.qp_num,
                         .vendor_error = entry.vendor_err};
      }
      return at.complete(sends, sequence, entry);
    }
    case Side::receive: {
      if (header_bytes == 0 || entry.byte_len < header_bytes)
        return at.complete(receives, entry.wr_id >> 2, entry);
      ibv_wc message = entry;
      message.byte_len -= header_bytes;
      return at.complete(receives, entry.wr_id >> 2, message);
    }
    case Side::shared_receive:
      return shared->on_completion(entry);
  }
}

Result<void> Party::drain(std::chrono::nanoseconds timeout) {
  RequestToken last;
  if (sends.signaled < sends.posted()) {
    // A WRITE of no bytes comes after all others, and the peer does not see it.
    post(&last, nullptr, {.operation = Operation::write}, {});
    const auto end = timeout < timeout.zero() ? last.wait() : last.wait_for(timeout);
    if (!end && first_failure.status == Status::success) return end.error();
  }
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  for (const std::uint64_t until = sends.posted(); sends.completed() < until;) {
    const auto left = timeout - (Clock::now() - begin);
    if (timeout >= timeout.zero() && left < left.zero()) {
      return Failure{
          .call = Call::wait, .status = Status::timed_out, .queue_pair = queue_pair->qp_num};
    }
    queue->wait(timeout < timeout.zero() ? timeout : left);
  }
  if (first_failure.status != Status::success) return first_failure;
  return {};
}

}  // namespace verbatim::detail
