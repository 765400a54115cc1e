#include "api/party.h"

#include <algorithm>
#include <cerrno>

#include "api/posting.h"
#include "api/shared_receives.h"

namespace verbatim::inline v1::detail {
namespace {

/// A closing queue pair waits this long for the adapter to flush its requests, then cancels them.
constexpr std::chrono::milliseconds kFlushTime{10};
constexpr const char* kEnded = "the queue pair has been disconnected";
constexpr const char* kFull =
    "send_depth requests are under way: wait for one, or make the queue pair deeper";
constexpr const char* kAdapterFull = "the adapter's send queue is full";
constexpr const char* kCannotSend =
    "the queue pair cannot send, or the adapter has no such operation";

constexpr const char* kTakenInPart =
    "the adapter has taken the first requests of the batch, which go on (Batch::taken says how "
    "many), and refused the next";

/// Returns a text for a fault in a request's local bytes; null if there is none.
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

Party::~Party() {
  abandon();
  // No other owner polls the queue: its callbacks are called while these objects still exist.
  if (queue && queue.use_count() == 1) queue->poll();
}

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
  number = made->qp_num;
  is_plain_ = !queue->shared_by_threads;
  domain.handle()->add(*this);
  return {};
}

void Party::settle() {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + kFlushTime;
  while (sends.in_flight() + receives.in_flight() != 0 && Clock::now() < until) {
    const Queue::Guard guard(*queue);
    queue->collect();
  }
  if (shared) {
    const Queue::Guard guard(*shared->queue);
    shared->queue->collect();
  }
}

void Party::abandon() {
  if (queue_pair == nullptr) return;
  queue_pair = nullptr;
  is_plain_ = false;
  {
    const Queue::Guard guard(*queue);
    queue->collect();
    queue->cancel(sends, number);
    queue->cancel(receives, number);
    queue->detach(number, sends.depth + (shared ? 0 : receives.depth));
  }
  if (shared && shared->queue != queue) shared->queue->detach(number, 0);
  domain.handle()->remove(*this);
}

void Party::refuse(Pending* pending, Failure* failed, Operation operation, Status status, int code,
                   const char* detail) const {
  const Failure failure{.call = Call::post,
                        .operation = operation,
                        .status = status,
                        .code = code,
                        .queue_pair = number,
                        .detail = detail};
  pending != nullptr ? pending->fail(failure) : static_cast<void>(*failed = failure);
}

bool Party::has_room_after_poll(std::uint32_t count) {
  queue->collect();
  return sends.in_flight() + count <= sends.depth;
}

const char* Party::fault_of_order(const Order& order, std::span<const Slice> local) const {
  if (const char* const fault = fault_of(local, max_slices)) return fault;
  std::uint64_t length = 0;
  for (const Slice& slice : local) length += slice.size;
  if (names_remote(order.operation) && (!order.remote.is_valid || length > order.remote.size)) {
    return "the request has more bytes than the peer's region token";
  }
  if (order.operation == Operation::compare_and_swap ||
      order.operation == Operation::fetch_and_add) {
    if (length != 8) return "an atomic operation returns 8 bytes";
    if (order.remote.address % 8 != 0) return "the peer's 8 bytes are not at a multiple of 8";
  }
  if (order.flags.inlined && length > max_inline) {
    return "more inline bytes than the queue pair was made for (inline_bytes)";
  }
  return nullptr;
}

void Party::take_back(Pending* pending, Failure* failed, Operation operation, int code) {
  sends.pop();
  refuse(pending, failed, operation, Status::refused, code,
         code == ENOMEM ? kAdapterFull : kCannotSend);
}

void Party::post(Pending* pending, Failure* failed, const Order& order,
                 std::span<const Slice> local) {
  const Queue::Guard guard(*queue);
  const Operation operation = order.operation;
  if (queue_pair == nullptr)
    return refuse(pending, failed, operation, Status::disconnected, 0, kEnded);
  const bool sends_datagrams = header_bytes != 0;
  if (sends_datagrams && order.address == nullptr) {
    return refuse(pending, failed, operation, Status::refused, EINVAL,
                  "the destination is empty: DatagramQueuePair::resolve makes one");
  }
  if (const char* const fault = fault_of_order(order, local))
    return refuse(pending, failed, operation, Status::out_of_range, 0, fault);
  if (sends.is_full() && !has_room_after_poll(1))
    return refuse(pending, failed, operation, Status::queue_full, ENOMEM, kFull);
  submit(pending, failed, order, local);
}

void Party::post_with_care(Pending* pending, Failure* failed, Order order, Slice local) {
  post(pending, failed, order, {&local, 1});
}

std::size_t Party::post_batch(Pending& pending, std::span<const BatchedRequest> requests) {
  const Queue::Guard guard(*queue);
  const Operation last = requests.empty() ? Operation::none : requests.back().order.operation;
  const auto fail = [&](Status status, int code, const char* detail) {
    refuse(&pending, nullptr, last, status, code, detail);
    return std::size_t{0};
  };
  if (queue_pair == nullptr) return fail(Status::disconnected, 0, kEnded);
  if (requests.empty()) return fail(Status::out_of_range, 0, "the batch has no requests");
  for (const BatchedRequest& request : requests) {
    if (const char* const fault = fault_of_order(request.order, {&request.local, 1})) {
      return fail(Status::out_of_range, 0, fault);
    }
  }
  const auto count = static_cast<std::uint32_t>(requests.size());
  if (sends.in_flight() + count > sends.depth && !has_room_after_poll(count))
    return fail(Status::queue_full, ENOMEM, kFull);

  std::vector<ibv_send_wr> chain(requests.size());
  std::vector<ibv_sge> segments(requests.size());
  const std::uint64_t before = sends.posted();
  const std::uint64_t signaled_before = sends.signaled;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::uint64_t sequence = before + i + 1;
    const bool is_last = i + 1 == requests.size();
    const bool signals = is_last || wants_completion(sequence);
    fill(chain[i], requests[i].order, sequence, {&segments[i], 1}, {&requests[i].local, 1},
         signals);
    chain[i].next = is_last ? nullptr : &chain[i + 1];
    sends.push(sequence, is_last ? &pending : nullptr, requests[i].order.operation);
    if (signals) sends.signaled = sequence;
  }
  pending.begin(*queue, sends.slot(sends.posted()).pending, last, queue_pair->qp_num);
  ibv_send_wr* bad = nullptr;
  const int code = ibv_post_send(queue_pair, chain.data(), &bad);
  if (code == 0) return requests.size();
  for (const ibv_send_wr* refused = bad; refused != nullptr; refused = refused->next) sends.pop();
  const auto taken = static_cast<std::size_t>(sends.posted() - before);
  sends.signaled = signaled_before;
  for (std::size_t i = 0; i < taken; ++i) {
    if ((chain[i].send_flags & IBV_SEND_SIGNALED) != 0) sends.signaled = before + i + 1;
  }
  fail(Status::refused, code, taken == 0 ? kCannotSend : kTakenInPart);
  return taken;
}

void Party::post_receive(Pending& pending, std::span<const Slice> into) {
  const Queue::Guard guard(*queue);
  const auto refuse = [&](Status status, int code, const char* detail) {
    pending.fail({.call = Call::post,
                  .operation = Operation::receive,
                  .status = status,
                  .code = code,
                  .queue_pair = number,
                  .detail = detail});
  };
  if (queue_pair == nullptr) return refuse(Status::disconnected, 0, kEnded);
  if (shared)
    return refuse(Status::refused, EINVAL,
                  "the queue pair takes its receives from a shared receive queue");
  if (const char* const fault = fault_of(into, max_receive_slices))
    return refuse(Status::out_of_range, 0, fault);
  if (receives.is_full()) {
    queue->collect();
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
  receives.push(sequence, &pending, Operation::receive);
  pending.begin(*queue, receives.slot(sequence).pending, Operation::receive, queue_pair->qp_num);
  ibv_recv_wr* bad = nullptr;
  if (const int code = ibv_post_recv(queue_pair, &request, &bad); code != 0) {
    receives.pop();
    refuse(Status::refused, code, "the queue pair cannot receive");
  }
}

Result<void> Party::drain(std::chrono::nanoseconds timeout) {
  RequestToken last;
  if (sends.signaled < sends.posted()) {
    // A WRITE of 0 bytes completes after all others, and the peer does not notice it.
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

}  // namespace verbatim::inline v1::detail
