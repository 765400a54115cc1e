#include "verbatim/queue_pair.h"

#include <cerrno>

#include "api/connection.h"
#include "api/posting.h"

namespace verbatim::inline v1 {

using detail::Order;

namespace detail {

void Connection::end() {
  ibv_qp* const queue_pair = party.queue_pair;
  if (queue_pair == nullptr) return;
  if (is_established_) {
    is_established_ = false;
    where_it_receives().unwatch(*this);
    rdma_disconnect(id.get());
  } else if (!id) {
    ibv_qp_attr error{.qp_state = IBV_QPS_ERR};
    ibv_modify_qp(queue_pair, &error, IBV_QP_STATE);
  }
  party.settle();
  id ? rdma_destroy_qp(id.get()) : static_cast<void>(ibv_destroy_qp(queue_pair));
  party.abandon();
}

void Connection::begin() {
  is_established_ = true;
  where_it_receives().watch(*this);
}

void Connection::take_events() {
  // The channel is non-blocking.
  for (rdma_cm_event* event = nullptr; channel && rdma_get_cm_event(channel.get(), &event) == 0;) {
    const bool is_end = event->event == RDMA_CM_EVENT_DISCONNECTED;
    rdma_ack_cm_event(event);
    if (!is_end || !is_established_) continue;
    is_established_ = false;
    where_it_receives().unwatch(*this);
    rdma_disconnect(id.get());
  }
}

}  // namespace detail

namespace {

std::span<const Slice> one(const Slice& slice) { return {&slice, 1}; }

}  // namespace

QueuePair::QueuePair(std::unique_ptr<detail::Connection> connection)
    : connection_(std::move(connection)) {}
QueuePair::QueuePair(QueuePair&&) noexcept = default;
QueuePair& QueuePair::operator=(QueuePair&&) noexcept = default;
QueuePair::~QueuePair() = default;

RequestToken QueuePair::order(const Order& order, std::span<const Slice> local) {
  RequestToken token;
  connection_->party.post(&token, nullptr, order, local);
  return token;
}

RequestToken QueuePair::send(Slice from, Flags flags) {
  return connection_->party.post({.operation = Operation::send, .flags = flags}, from);
}
RequestToken QueuePair::send(Slice from, Immediate immediate, Flags flags) {
  return order(
      {.operation = Operation::send_with_immediate, .flags = flags, .immediate = immediate.value},
      one(from));
}
RequestToken QueuePair::send(std::span<const Slice> from, Flags flags) {
  return order({.operation = Operation::send, .flags = flags}, from);
}

RequestToken QueuePair::write(Slice from, RemoteSlice to, Flags flags) {
  return connection_->party.post({.operation = Operation::write, .remote = to, .flags = flags},
                                 from);
}
RequestToken QueuePair::write(Slice from, RemoteSlice to, Immediate immediate, Flags flags) {
  return order({.operation = Operation::write_with_immediate,
                .remote = to,
                .flags = flags,
                .immediate = immediate.value},
               one(from));
}
RequestToken QueuePair::write(std::span<const Slice> from, RemoteSlice to, Flags flags) {
  return order({.operation = Operation::write, .remote = to, .flags = flags}, from);
}

RequestToken QueuePair::read(Slice into, RemoteSlice from, Flags flags) {
  return connection_->party.post({.operation = Operation::read, .remote = from, .flags = flags},
                                 into);
}
RequestToken QueuePair::read(std::span<const Slice> into, RemoteSlice from, Flags flags) {
  return order({.operation = Operation::read, .remote = from, .flags = flags}, into);
}

RequestToken QueuePair::compare_and_swap(Slice before, RemoteSlice cell, std::uint64_t expected,
                                         std::uint64_t desired, Flags flags) {
  return order({.operation = Operation::compare_and_swap,
                .remote = cell,
                .flags = flags,
                .compare_add = expected,
                .swap = desired},
               one(before));
}
RequestToken QueuePair::fetch_and_add(Slice before, RemoteSlice cell, std::uint64_t addend,
                                      Flags flags) {
  return order({.operation = Operation::fetch_and_add,
                .remote = cell,
                .flags = flags,
                .compare_add = addend},
               one(before));
}

RequestToken QueuePair::receive(Slice into) { return receive(one(into)); }
RequestToken QueuePair::receive(std::span<const Slice> into) {
  RequestToken token;
  connection_->party.post_receive(token, into);
  return token;
}

Result<void> QueuePair::post_send(Slice from, Flags flags) {
  return connection_->party.post_without_token({.operation = Operation::send, .flags = flags},
                                               from);
}
Result<void> QueuePair::post_write(Slice from, RemoteSlice to, Flags flags) {
  return connection_->party.post_without_token(
      {.operation = Operation::write, .remote = to, .flags = flags}, from);
}

Result<void> QueuePair::drain(std::chrono::nanoseconds timeout) {
  return connection_->party.drain(timeout);
}

std::uint32_t QueuePair::number() const noexcept { return connection_->party.number; }
std::uint32_t QueuePair::peer_number() const noexcept { return connection_->peer_number; }
std::span<const std::byte> QueuePair::peer_data() const noexcept { return connection_->peer_data; }
std::uint32_t QueuePair::in_flight() const noexcept {
  return static_cast<std::uint32_t>(connection_->party.sends.in_flight());
}
CompletionQueue QueuePair::completions() const {
  return ConnectionMaker::queue(connection_->party.queue);
}
const ProtectionDomain& QueuePair::domain() const noexcept { return connection_->party.domain; }
ibv_qp* QueuePair::native() const noexcept { return connection_->party.queue_pair; }
void QueuePair::disconnect() { connection_->end(); }

bool QueuePair::is_connected() const noexcept {
  connection_->take_events();
  ibv_qp* const queue_pair = native();
  ibv_qp_attr attributes{};
  ibv_qp_init_attr unused{};
  return queue_pair != nullptr &&
         ibv_query_qp(queue_pair, &attributes, IBV_QP_STATE, &unused) == 0 &&
         attributes.qp_state == IBV_QPS_RTS;
}

}  // namespace verbatim::inline v1
