#include "adapter/queue_pair/core/core.h"

#include <algorithm>
#include <string>
#include <utility>

#include "adapter/progress/progress.h"
#include "adapter/queues/shared_receives.h"
#include "base/assert.h"
#include "base/log.h"
#include "port/ports.h"

namespace verbatim::adapter {

using transport::Status;

QueuePairCore::QueuePairCore(Task& task, const Surroundings& surroundings,
                             const QueuePairOptions& wanted, Qpn own_number,
                             QueuePairRecord& own_record, SendQueue send_queue,
                             std::unique_ptr<ReceiveQueue> receive_queue)
    : around(surroundings),
      regions(surroundings.regions),
      options(wanted),
      number(own_number),
      record(own_record),
      sends(std::move(send_queue)),
      receives{.own = std::move(receive_queue), .current = {}, .tagged = {}},
      task_(task),
      port_(&surroundings.ports.at(1)),
      listeners_{{options.events, options.owner}} {
  if (options.send_cq != nullptr) ++options.send_cq->users;
  if (options.receive_cq != nullptr) ++options.receive_cq->users;
  if (options.shared_receive != nullptr) ++options.shared_receive->users;
  record.type.store(raw(options.type), std::memory_order_relaxed);
  // One that scales is made of queues with states of their own, and receives from the start.
  set_state(options.scaling ? QpState::rts : first_state());
  note_wire_use(true);
  record.qpn.store(number.value(), std::memory_order_release);
}

QueuePairCore::~QueuePairCore() {
  if (uses_wire_) around.progress.add_wire_users(-1);
  record.qpn.store(0, std::memory_order_release);
  if (options.send_cq != nullptr) --options.send_cq->users;
  if (options.receive_cq != nullptr) --options.receive_cq->users;
  if (options.shared_receive != nullptr) --options.shared_receive->users;
}

void QueuePairCore::raise(AsyncEventType type) {
  for (const Listener& listener : listeners_)
    listener.events->push({.type = type, .object = listener.owner});
}

void QueuePairCore::use_port(std::uint8_t its_number) { port_ = &around.ports.at(its_number); }

bool QueuePairCore::remove_listener(const void* owner) {
  std::erase_if(listeners_, [owner](const Listener& one) { return one.owner == owner; });
  return listeners_.empty();
}

void QueuePairCore::note_wire_use(bool is_on_wire) {
  const QpState now = state();
  const bool uses =
      now != QpState::reset && now != QpState::init && now != QpState::err && is_on_wire;
  if (std::exchange(uses_wire_, uses) == uses) return;
  around.progress.add_wire_users(uses ? 1 : -1);
}

LocalMemory QueuePairCore::local_memory(transport::Slot slot) {
  if (sends.wqe(slot).inlined) return local_memory({}, sends.inline_bytes(slot));
  return local_memory(sends.segments(slot), {});
}

void QueuePairCore::limit_rate(std::uint32_t rate_kbps, std::uint32_t burst_bytes) {
  attributes.rate_limit_kbps = rate_kbps;
  pacer.limit(rate_kbps, burst_bytes != 0 ? burst_bytes : kBurstBytes);
}

bool QueuePairCore::is_worth_gathering(std::uint64_t bytes_max) const {
  constexpr std::uint64_t kTogether = 16;
  const std::uint64_t waiting = sends.posted() - handed;
  if (waiting == 0 || waiting >= kTogether || !around.progress.is_polled()) return false;
  std::uint64_t bytes = 0;
  for (auto slot = handed; slot < sends.posted(); ++slot) bytes += sends.wqe(slot).request.length;
  return bytes < bytes_max;
}

/// Its failure is a completion's status; the words are for the log.
Status QueuePairCore::carry_out(transport::Slot slot) {
  const transport::SendRequest& request = sends.wqe(slot).request;
  std::string refusal;
  if (request.operation == transport::Operation::bind_window) {
    const auto bound = regions.bind(sends.binding(slot), accessor());
    if (!bound) refusal = bound.error().text;
  } else if (const auto ended = regions.invalidate(request.remote_key, accessor()); !ended) {
    refusal = region::describe(ended.error());
  }
  if (refusal.empty()) return Status::success;
  log(LogLevel::warn, "QP {:#x}: {} of key {:#010x}: {}", number.value(),
      request.operation == transport::Operation::bind_window ? "bind" : "local invalidate",
      raw(request.remote_key), refusal);
  return Status::memory_window_bind_error;
}

void QueuePairCore::await_room() { around.await_room(task_, port_->number()); }

void QueuePairCore::come_again() { around.progress.note_output(task_); }

void QueuePairCore::come_again(TimeNs at) {
  come_again();
  around.progress.arm_timer(at, number);
}

void QueuePairCore::complete_send(transport::Slot slot, Status status) {
  VERBATIM_ASSERT(slot == sends.completed());
  if (options.finishes_rendezvous()) return complete_rendezvous(slot, status);
  const SendWqe& wqe = sends.wqe(slot);
  end_send(wqe.wr_id, wqe.request, status, wqe.signaled || status != Status::success);
  sends.pop();
}

void QueuePairCore::flush_posted() {
  while (!sends.empty()) complete_send(sends.completed(), Status::flushed);
  handed = sends.posted();
}

void QueuePairCore::enter_send_queue_error() {
  set_state(QpState::sqe);
  flush_posted();
}

void QueuePairCore::report_drained() {
  if (drain_reported || sends.completed() != handed) return;
  drain_reported = true;
  if (attributes.sqd_notify) raise(AsyncEventType::sq_drained);
}

void QueuePairCore::count_received(const wire::Headers& headers, std::size_t payload_bytes) {
  const wire::OpcodeInfo& info = wire::info(headers.bth.opcode);
  auto& counters = record.counters;
  counters.packets_received.add_exclusive();
  counters.bytes_received.add_exclusive(payload_bytes + wire::Bth::kSize + info.header_bytes());
  if (!info.has(wire::kAeth)) return;
  const wire::Syndrome& syndrome = headers.aeth.syndrome;
  auto& counter = syndrome.is_ack()   ? counters.acks_received
                  : syndrome.is_nak() ? counters.naks_received
                                      : counters.rnr_naks_received;
  counter.add_exclusive();
}

void QueuePairCore::on_bad_key(wire::TrapNumber trap, std::uint32_t key,
                               const wire::Headers& headers, const Path& from) {
  observe::PortCounters& counters = around.arena.header().port_counters;
  (trap == wire::TrapNumber::bad_q_key ? counters.qkey_violations : counters.pkey_violations).add();
  const auto* const sender = std::get_if<InfinibandPath>(&from);
  if (sender == nullptr) return;
  const GlobalRoute grh = sender->grh.value_or(GlobalRoute{});
  around.report_bad_key(sender->port, trap,
                        {.source_lid = sender->dlid,  // The path leads back to the sender.
                         .destination_lid = sender->slid,
                         .key = key,
                         .service_level = sender->service_level,
                         // The packet of a connected queue pair does not name its sender's.
                         .source_qpn = type() == QpType::ud ? headers.deth.source_qp.value() : 0,
                         .destination_qpn = headers.bth.dest_qp.value(),
                         .source_gid = grh.destination,
                         .destination_gid = grh.source});
}

bool QueuePairCore::take_receive(SrqNumber named) {
  VERBATIM_ASSERT(!receives.holds);
  if (receives.own != nullptr) return receives.own->take(receives.current);
  SharedReceiveQueue* const shared = type() == QpType::xrc_receive
                                         ? around.shared_receives.find(named, options.xrc_domain)
                                         : options.shared_receive;
  receives.source = shared;
  return shared != nullptr && shared->take(receives.current);
}

PdNumber QueuePairCore::receive_pd() const {
  return receives.source != nullptr ? receives.source->options().pd : options.pd;
}

CompletionQueue& QueuePairCore::receive_cq() const {
  const bool shared = receives.source != nullptr && receives.source->options().cq != nullptr;
  return shared ? *receives.source->options().cq : *options.receive_cq;
}

Completion QueuePairCore::completion_of(const transport::CompleteReceive& receive,
                                        std::uint64_t wr_id) const {
  return {
      .wr_id = wr_id,
      .status = receive.status,
      .opcode = receive.is_write ? CompletionOpcode::receive_write_with_immediate
                                 : CompletionOpcode::receive,
      .byte_count = static_cast<std::uint32_t>(receive.byte_count),
      .immediate = receive.has_invalidated_key ? raw(receive.invalidated_key) : receive.immediate,
      .qpn = number.value(),
      .source_qpn = attributes.dest_qpn.value(),
      .flags = (receive.has_immediate ? kCompletionWithImmediate : 0) |
               (receive.has_invalidated_key ? kCompletionWithInvalidate : 0)};
}

void QueuePairCore::complete_receive(const transport::CompleteReceive& receive) {
  Completion completion = completion_of(receive, receives.current.wr_id);
  receives.tagged.describe(completion);
  push(receive_cq(), completion, receive.solicited);
  receives.holds = false;
  if (receives.tagged.is_rendezvous() && receive.status == Status::success) {
    start_rendezvous();
  }
}

void QueuePairCore::flush_receives() {
  const auto flush_one = [this](std::uint64_t wr_id) {
    Completion completion{.wr_id = wr_id,
                          .status = Status::flushed,
                          .opcode = CompletionOpcode::receive,
                          .qpn = number.value()};
    receives.tagged.describe(completion);
    push(receive_cq(), completion, false);
  };
  if (receives.holds) flush_one(receives.current.wr_id);
  receives.holds = false;
  if (receives.own != nullptr) {
    while (receives.own->take(receives.current)) flush_one(receives.current.wr_id);
  }
}

void QueuePairCore::reset() {
  set_state(first_state());
  attributes = {};
  use_port(attributes.port);
  pkey = kDefaultPKey;
  sends.clear();
  handed = 0;
  while (receives.own != nullptr && receives.own->take(receives.current)) {
  }
  receives.holds = false;
  receives.tagged = {};
  fatal = drain_reported = held_back = false;
  pacer = {};
  record.dest_qpn.store(0, std::memory_order_relaxed);
  if (options.send_cq != nullptr) options.send_cq->forget(number);
  if (options.receive_cq != nullptr) options.receive_cq->forget(number);
  if (options.matches_tags()) options.shared_receive->options().cq->forget(number);
}

}  // namespace verbatim::adapter
