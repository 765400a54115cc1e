#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "adapter/direct/mapped_target.h"
#include "adapter/progress/task.h"
#include "adapter/queue_pair/core/pacer.h"
#include "adapter/queue_pair/core/queue_pair_attributes.h"
#include "adapter/queue_pair/core/queue_pair_options.h"
#include "adapter/queue_pair/core/send_queue.h"
#include "adapter/queue_pair/core/surroundings.h"
#include "adapter/queues/async_event.h"
#include "adapter/queues/completion_queue.h"
#include "adapter/queues/receive_queue.h"
#include "adapter/queues/shared_receive_queue.h"
#include "adapter/queues/tag_matching.h"
#include "arena/queue_pair_record.h"
#include "base/always_inline.h"
#include "base/net/path.h"
#include "base/time.h"
#include "base/types.h"
#include "region/cached_hold.h"
#include "transport/effects.h"
#include "transport/work.h"
#include "wire/ib/packet.h"

namespace verbatim::port {
class Port;
}

namespace verbatim::adapter {

/// Where a queue pair takes its receive requests from, and the one in use.
struct ReceiveSide {
  std::unique_ptr<ReceiveQueue> own;  // Null if receives are shared.
  ReceiveRequest current;
  bool holds = false;                          // `current` was taken and has not completed.
  const SharedReceiveQueue* source = nullptr;  // Where `current` is from, if it is shared.
  TaggedMessage tagged;                        // What came with it.
};

/// What every service of a queue pair needs and none owns: its state, its queues, its completions.
/// The queue pair's lock guards all of it.
class QueuePairCore {
 public:
  QueuePairCore(Task& task, const Surroundings& around, const QueuePairOptions& options, Qpn number,
                QueuePairRecord& record, SendQueue sends, std::unique_ptr<ReceiveQueue> receives);
  QueuePairCore(const QueuePairCore&) = delete;
  QueuePairCore& operator=(const QueuePairCore&) = delete;
  ~QueuePairCore();

  // Who it is.
  QpType type() const { return options.type; }
  QpState state() const {
    return static_cast<QpState>(record.state.load(std::memory_order_relaxed));
  }
  /// iWARP's Idle takes receives, and drivers call it INIT.
  QpState first_state() const { return around.is_iwarp ? QpState::init : QpState::reset; }
  void set_state(QpState state) { record.state.store(raw(state), std::memory_order_relaxed); }
  bool is_reliable() const { return options.is_reliable(); }
  /// Whom its own operations are to the region table.
  region::Accessor accessor() const { return {options.pd, number}; }
  void raise(AsyncEventType type);
  /// Who else has opened the queue pair (`ibv_open_qp`) gets its events too.
  void add_listener(AsyncEvents& events, void* owner) { listeners_.push_back({&events, owner}); }
  /// Returns true if nobody is left.
  bool remove_listener(const void* owner);
  /// While any queue pair of the program takes the wire, each poll looks at the sockets.
  void note_wire_use(bool is_on_wire);

  // Its port: number 1 until `use_port` says otherwise, which requires that the port exists.
  const port::Port& port() const { return *port_; }
  void use_port(std::uint8_t its_number);

  // Sending.
  /// Of the memory that the send queue's requests name.
  PdNumber send_pd() const {
    return options.finishes_rendezvous() ? options.shared_receive->options().pd : options.pd;
  }
  /// Of a request's bytes, in segments or inlined.
  LocalMemory local_memory(std::span<const Segment> segments, ByteSpan inlined) {
    return {regions, options.pd, segments, inlined, local_key};
  }
  LocalMemory local_memory(transport::Slot slot);
  /// As `QueuePair::limit_rate`.
  void limit_rate(std::uint32_t rate_kbps, std::uint32_t burst_bytes);
  /// Returns whether the rate limit lets a packet leave now.
  bool may_send(TimeNs now) {
    held_back = !pacer.admits(now);
    return !held_back;
  }
  /// Requests that a program posts one by one leave together, where the program polls: so few of
  /// them, and of so few bytes. The rest leaves at its next poll, or within a millisecond.
  bool is_worth_gathering(std::uint64_t bytes_max) const;
  /// Executes a local operation, in its turn.
  transport::Status carry_out(transport::Slot slot);
  /// A pass of progress calls `Task::transmit_output` again; with a time, at that time at the
  /// latest.
  void come_again();
  /// A pass calls `Task::transmit_output` once a link takes packets again.
  void await_room();
  void come_again(TimeNs at);
  void complete_send(transport::Slot slot, transport::Status status);
  /// The program's oldest request has ended: `tells` adds a completion.
  void end_send(std::uint64_t wr_id, const transport::SendRequest& request,
                transport::Status status, bool tells);
  /// Whether the program may post `count` more requests.
  bool has_places(std::size_t count) { return sends.places().has_room(count, *options.send_cq); }
  /// Completes as flushed what was posted and never reached an engine (IBA 10.3.1.5, 10.3.1.7).
  void flush_posted();
  /// UC and UD after a local error of a send: only the send queue stops (IBA 10.3.1.7).
  void enter_send_queue_error();
  /// SQD: reports once when what was sent before has completed (IBA 10.3.1.6).
  void check_drained() {
    if (state() == QpState::sqd) report_drained();
  }

  // Receiving.
  void count_received(const wire::Headers& headers, std::size_t payload_bytes);
  /// A packet has come from there with a P_Key or Q_Key that does not match: counts it. Over
  /// InfiniBand the subnet manager is told, too, by this trap.
  void on_bad_key(wire::TrapNumber trap, std::uint32_t key, const wire::Headers& headers,
                  const Path& from);
  /// Takes a receive request into `receives.current`; XRC: of the shared queue that is named.
  bool take_receive(SrqNumber named = {});
  /// The same for a packet of a queue pair with a tag matching queue: what the message is becomes
  /// `receives.tagged`.
  bool take_tagged(const wire::Packet& packet);
  PdNumber receive_pd() const;
  CompletionQueue& receive_cq() const;
  Completion completion_of(const transport::CompleteReceive& receive, std::uint64_t wr_id) const;
  void complete_receive(const transport::CompleteReceive& receive);
  void flush_receives();
  /// Sets `fatal` if the queue is full.
  void push(CompletionQueue& queue, const Completion& completion, bool solicited) {
    if (!queue.push(completion, solicited)) fatal = true;
  }
  /// Any state to RESET: requests vanish without completions (IBA 10.3.1.1).
  void reset();

  const Surroundings& around;
  region::RegionTable& regions;
  const QueuePairOptions options;
  const Qpn number;
  QueuePairRecord& record;
  QueuePairAttributes attributes;
  PKey pkey = kDefaultPKey;  // The port's entry `attributes.pkey_index`.
  Path peer;                 // Of connected queue pairs.
  SendQueue sends;
  std::uint64_t handed = 0;  // Requests below this slot are the engine's (or, UD, sent).
  ReceiveSide receives;
  region::CachedHold placing;  // Where packets of this reception are placed.
  region::KeyCache local_key;  // The direct path's, of our own regions.
  Pacer pacer;
  bool held_back = false;  // By the pacer, with something to send.
  bool fatal = false;      // The queue pair goes to the error state after this step.
  bool drain_reported = false;

 private:
  struct Listener {
    AsyncEvents* events = nullptr;
    void* owner = nullptr;
  };

  void report_drained();
  // Tag matching: rendezvous.cpp.
  void report_match();
  void start_rendezvous();
  void complete_rendezvous(transport::Slot slot, transport::Status status);

  Task& task_;
  port::Port* port_;
  std::vector<Listener> listeners_;
  bool uses_wire_ = false;  // Packets may come for it.
};

constexpr CompletionOpcode completion_opcode(transport::Operation operation) {
  using transport::Operation;
  switch (operation) {
    case Operation::send:
    case Operation::send_with_immediate:
    case Operation::send_with_invalidate:
      return CompletionOpcode::send;
    case Operation::write:
    case Operation::write_with_immediate:
      return CompletionOpcode::write;
    case Operation::read:
      return CompletionOpcode::read;
    case Operation::compare_and_swap:
      return CompletionOpcode::compare_and_swap;
    case Operation::fetch_and_add:
      return CompletionOpcode::fetch_and_add;
    case Operation::bind_window:
      return CompletionOpcode::bind_window;
    case Operation::local_invalidate:
      return CompletionOpcode::local_invalidate;
    case Operation::flush:
      return CompletionOpcode::flush;
    case Operation::atomic_write:
      return CompletionOpcode::atomic_write;
  }
  return CompletionOpcode::send;
}

// What each request does.
VERBATIM_ALWAYS_INLINE void QueuePairCore::end_send(std::uint64_t wr_id,
                                                    const transport::SendRequest& request,
                                                    transport::Status status, bool tells) {
  if (!tells) return sends.places().complete();
  const Completion completion{.wr_id = wr_id,
                              .status = status,
                              .opcode = completion_opcode(request.operation),
                              .byte_count = static_cast<std::uint32_t>(request.length),
                              .qpn = number.value()};
  std::uint64_t entry = 0;
  if (!options.send_cq->push(completion, false, &entry)) fatal = true;
  sends.places().complete(entry);
}

}  // namespace verbatim::adapter
