#include "ulp/rdma/fake/fake_adapter_for_test.h"

#include <algorithm>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>

#include "base/assert.h"

namespace verbatim::ulp::rdma {
namespace {

FakeAdapter* current = nullptr;

UniqueFd make_fd() { return UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

}  // namespace

void show(const UniqueFd& fd, bool is_there) {
  std::uint64_t value = 1;
  if (is_there) {
    VERBATIM_ASSERT(write(fd.get(), &value, sizeof value) == sizeof value);
  } else {
    static_cast<void>(!read(fd.get(), &value, sizeof value));
  }
}

FakeAdapter& FakeAdapter::get() {
  VERBATIM_ASSERT(current != nullptr);
  return *current;
}

FakeAdapter::FakeAdapter(std::uint64_t seed, const Faults& how)
    : faults(how),
      channel_fd(make_fd()),
      completion_fd(make_fd()),
      async_fd(make_fd()),
      random_(seed) {
  VERBATIM_ASSERT(current == nullptr);
  current = this;
  device.transport_type = IBV_TRANSPORT_IB;
  context.device = &device;
  context.async_fd = async_fd.get();
  channel.fd = channel_fd.get();
  completion_channel.fd = completion_fd.get();
  completion_channel.context = &context;
}

FakeAdapter::~FakeAdapter() { current = nullptr; }

std::string FakeAdapter::objects_left() const {
  std::string left;
  for (const auto& [kind, count] : objects_) {
    if (count != 0) left += fmt::format("{} {} ", count, kind);
  }
  return left;
}

void FakeAdapter::push(FakeCompletionQueue& queue, const ibv_wc& one) {
  if (queue.done.size() >= static_cast<std::size_t>(queue.cqe))
    violation("completion queue overrun");
  queue.done.push_back(one);
  if (!std::exchange(queue.is_armed, false)) return;
  rung.push_back(&queue);
  show(completion_fd, true);
}

void FakeAdapter::push(const ibv_async_event& event) {
  async.push_back(event);
  show(async_fd, true);
}

void FakeAdapter::push(FakeId& id, rdma_cm_event_type type) {
  auto* const event = new rdma_cm_event{};
  event->id = &id;
  event->event = type;
  event->status = type == RDMA_CM_EVENT_REJECTED ? 28 : 0;
  event->param.conn.initiator_depth = 4;
  event->param.conn.responder_resources = 4;
  events.push_back(event);
  show(channel_fd, true);
}

/// Its events that the program has not taken.
void FakeAdapter::drop(FakeId& id) {
  std::erase_if(events, [&](rdma_cm_event* event) {
    if (event->id != &id) return false;
    delete event;
    return true;
  });
  show(channel_fd, false);
  if (!events.empty()) show(channel_fd, true);
  std::erase(ids, &id);
}

void FakeAdapter::complete(FakeQueuePair& queue_pair, ibv_wc_status status) {
  VERBATIM_ASSERT(!queue_pair.posted.empty());
  const auto one = queue_pair.posted.front();
  queue_pair.posted.pop_front();
  if (status != IBV_WC_SUCCESS) to_error(queue_pair);
  if (!one.signaled && status == IBV_WC_SUCCESS) return;
  push(static_cast<FakeCompletionQueue&>(*queue_pair.send_cq),
       {.wr_id = one.id, .status = status, .qp_num = queue_pair.qp_num});
}

/// What it has taken of the shared receives comes back; the program is told when that is all.
void FakeAdapter::to_error(FakeQueuePair& queue_pair) {
  if (queue_pair.at == IBV_QPS_ERR) return;
  const bool was_ready = queue_pair.at == IBV_QPS_RTS;
  queue_pair.at = IBV_QPS_ERR;
  if (!was_ready || queue_pair.srq == nullptr) return;
  auto& shared = static_cast<FakeSharedQueue&>(*queue_pair.srq);
  if (!shared.posted.empty() && happens(300)) {
    push(static_cast<FakeCompletionQueue&>(*queue_pair.recv_cq), {.wr_id = shared.posted.front().id,
                                                                  .status = IBV_WC_WR_FLUSH_ERR,
                                                                  .qp_num = queue_pair.qp_num});
    shared.posted.pop_front();
  }
  if (happens(faults.event_lost)) return;
  ibv_async_event event{};
  event.event_type = IBV_EVENT_QP_LAST_WQE_REACHED;
  event.element.qp = &queue_pair;
  push(event);
}

bool FakeAdapter::deliver(FakeQueuePair& queue_pair, std::size_t bytes) {
  auto& shared = static_cast<FakeSharedQueue&>(*queue_pair.srq);
  if (queue_pair.at != IBV_QPS_RTS || shared.posted.empty()) return false;
  const auto receive = shared.posted.front();
  shared.posted.pop_front();
  push(static_cast<FakeCompletionQueue&>(*queue_pair.recv_cq),
       {.wr_id = receive.id,
        .status = IBV_WC_SUCCESS,
        .opcode = IBV_WC_RECV,
        .byte_len = static_cast<std::uint32_t>(std::min<std::size_t>(bytes, receive.slice.length)),
        .qp_num = queue_pair.qp_num});
  return true;
}

bool FakeAdapter::uses(const void* address) const {
  const auto wanted = reinterpret_cast<std::uint64_t>(address);
  return std::ranges::any_of(queue_pairs, [&](const FakeQueuePair* queue_pair) {
    return std::ranges::any_of(queue_pair->posted, [&](const FakeQueuePair::Posted& posted) {
      return queue_pair->at != IBV_QPS_ERR &&
             std::ranges::any_of(posted.slices,
                                 [&](const ibv_sge& slice) { return slice.addr == wanted; });
    });
  });
}

bool FakeAdapter::request(std::uint8_t initiator, std::uint8_t responder) {
  const auto listener = std::ranges::find_if(ids, [](const FakeId* id) { return id->listens; });
  if (listener == ids.end()) return false;
  auto* const id = new FakeId{};
  note("id", 1);
  ids.push_back(id);
  FakeId& from = **std::ranges::find_if(ids, [](const FakeId* one) { return one->listens; });
  id->context = from.context;
  id->channel = &channel;
  id->verbs = &context;
  push(*id, RDMA_CM_EVENT_CONNECT_REQUEST);
  rdma_cm_event& event = *events.back();
  event.listen_id = &from;
  event.param.conn = {.responder_resources = responder,
                      .initiator_depth = initiator,
                      .retry_count = 7,
                      .rnr_retry_count = 7};
  return true;
}

void FakeAdapter::peer_ends(FakeId& id) {
  if (!std::exchange(id.is_connected, false)) return;
  id.coming.push_back(RDMA_CM_EVENT_DISCONNECTED);
  if (happens(faults.event_twice)) id.coming.push_back(RDMA_CM_EVENT_DISCONNECTED);
}

void FakeAdapter::remove_device() {
  for (FakeQueuePair* const queue_pair : queue_pairs) queue_pair->at = IBV_QPS_ERR;
  for (FakeId* const id : ids) id->coming = {RDMA_CM_EVENT_DEVICE_REMOVAL};
  faults.post_refused = faults.call_refused = faults.queue_pair_refused = 1000;
  ibv_async_event event{};
  event.event_type = IBV_EVENT_DEVICE_FATAL;
  push(event);
}

FakeQueuePair* FakeAdapter::some_queue_pair() {
  return queue_pairs.empty() ? nullptr : queue_pairs[random_.below(queue_pairs.size())];
}

FakeId* FakeAdapter::some_id() { return ids.empty() ? nullptr : ids[random_.below(ids.size())]; }

void FakeAdapter::step() {
  FakeId* const id = some_id();
  FakeQueuePair* const queue_pair = some_queue_pair();
  switch (random_.below(4)) {
    case 0:
      if (id == nullptr || id->coming.empty()) return;
      push(*id, id->coming.front());
      id->coming.pop_front();
      return;
    case 1:
    case 2:
      if (queue_pair == nullptr || queue_pair->posted.empty()) return;
      if (queue_pair->at == IBV_QPS_ERR) return complete(*queue_pair, IBV_WC_WR_FLUSH_ERR);
      return complete(*queue_pair,
                      happens(faults.work_fails) ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS);
    default:
      if (queue_pair != nullptr) deliver(*queue_pair, 64);
      if (id != nullptr && happens(faults.peer_ends)) peer_ends(*id);
  }
}

}  // namespace verbatim::ulp::rdma
