#include <algorithm>
#include <cerrno>
#include <utility>

#include "adapter/memory/scatter.h"
#include "adapter/progress/progress.h"
#include "adapter/queue_pair/queue_pair.h"
#include "adapter/services/stream.h"
#include "adapter/services/stream_source.h"
#include "base/inplace_vector.h"
#include "base/log.h"
#include "region/held_memory.h"
#include "wire/iwarp/mpa.h"

/// A queue pair over iWARP: its engine's segments into a TCP connection, and out of it.
namespace verbatim::adapter {

using transport::PayloadSource;
using transport::Status;
using transport::iwarp::OutgoingSegment;

namespace {

/// What one turn sends, and reads, at most: others want theirs, and the lock is held.
constexpr int kBuffersPerPass = 16;
/// A shorter payload is copied sooner than it is looked up and held.
constexpr std::uint32_t kZeroCopyBytesMin = 2048;
/// So often it is said again that this side is ready.
constexpr std::uint32_t kRtrRepeatsMax = 20;

}  // namespace

/// What moves a stream, under its queue pair's lock.
class QueuePair::Streaming final : private transport::iwarp::ReceiveSource {
 public:
  explicit Streaming(QueuePair& queue_pair) : qp_(queue_pair), stream_(*queue_pair.stream_) {}
  ~Streaming() {
    release();
    count();
  }
  Streaming(const Streaming&) = delete;
  Streaming& operator=(const Streaming&) = delete;

  /// What has come, as far as a turn goes. False: the connection has ended, which a read finds that
  /// finds nothing else: who wants to know it at once reads `to_the_end`.
  bool receive(bool to_the_end) {
    for (int buffers = 0; buffers < kBuffersPerPass; ++buffers) {
      const int error = stream_.tcp.receive();
      if (qp_.state() == QpState::err) {
        // Only its end matters, and that it is there.
        if (!stream_.tcp.arrived().empty()) stream_.goes_on_at = kNever;
        stream_.tcp.consume(stream_.tcp.arrived().size());
      } else {
        take_segments();
      }
      if (error == EAGAIN) return true;
      if (error != 0) return false;
      if (!to_the_end && !stream_.tcp.may_have_more()) return true;
    }
    return true;
  }

  /// What waits for the socket. False: it goes on waiting, or never leaves.
  bool send() {
    const int error = stream_.tcp.send();
    release();
    if (error == EAGAIN && !std::exchange(stream_.awaits_room, true)) {
      qp_.around_.streams->await_room(stream_.tcp.fd(), qp_.number_, true);
    }
    // A connection that has ended is told by reading, after what has come before its end.
    if (error != 0) return false;
    stream_.endpoint.requester().on_handed_over(qp_.requester_effects_);
    qp_.drain(qp_.requester_effects_);
    return true;
  }

  /// As many segments as there are, or as there is room for. False: there are none.
  bool fill() {
    for (bool any = false;; any = true) {
      const auto room = stream_.tcp.reserve(transport::iwarp::kFpduBytesMax);
      if (room.empty()) return any;
      OutgoingSegment segment;
      if (stream_.endpoint.poll_transmit(segment)) {
        append(segment, room);
      } else if (const auto slot = stream_.endpoint.requester().poll_local()) {
        release();  // What is held may be what the operation waits for.
        const Status status = qp_.carry_out(*slot);
        if (status != Status::success) qp_.refuse_stream_request(*slot, status);
      } else {
        return any;
      }
    }
  }

  /// Nothing has come from the peer since the connection stands, perhaps.
  void go_on(TimeNs now) {
    stream_.goes_on_at = kNever;
    if (stream_.endpoint.has_received_segment()) return;
    if (!stream_.is_initiator) return stream_.endpoint.hold_no_longer();
    if (++stream_.rtr_repeats > kRtrRepeatsMax) {
      // Who insists on the direct path waits for the answer, or the end.
      return qp_.around_.only_direct ? void() : qp_.finish_path_negotiation();
    }
    stream_.endpoint.requester().post_rtr(transport::iwarp::Requester::RtrMessage::write);
    if (stream_.ends_when_sent) fill();
    if (stream_.ends_when_sent && !is_answer_due()) return;
    stream_.goes_on_at = now + Stream::kFirstSegmentTimeout;
    qp_.around_.progress.arm_timer(stream_.goes_on_at, qp_.number_);
  }

  /// A peer from which nothing has come may not have seen that the connection stands: its program
  /// would hear of no end, or of a failure instead. It gets its time, and hears again who is ready.
  void end_when_sent() {
    const bool waits_for_peer = stream_.goes_on_at != kNever &&
                                !stream_.endpoint.has_received_segment() &&
                                !stream_.endpoint.ended();
    if (!stream_.ends_when_sent || waits_for_peer) return;
    if (stream_.tcp.has_sent_all()) stream_.tcp.shut_down();
  }

 private:
  /// The peer answers when it has seen that this side is ready.
  bool is_answer_due() const {
    return stream_.agreement.ready == cm::MpaParameters::RtrMessage::read;
  }

  bool take(transport::Receive& out) override {
    if (!qp_.take_receive()) return false;
    qp_.holds_receive_ = true;
    out = {.ticket = 0, .capacity_bytes = qp_.current_receive_.capacity_bytes};
    return true;
  }

  void take_segments() {
    for (std::size_t taken = 0; !stream_.endpoint.ended(); stream_.tcp.consume(taken)) {
      transport::ResponderEffects effects;
      const auto found = stream_.reader.next(stream_.tcp.arrived());
      taken = 0;
      if (!found) {
        stream_.endpoint.on_stream_error(found.error(), effects);
      } else if (*found) {
        if (stream_.negotiates_path || qp_.link_ != nullptr) qp_.on_path_segment((*found)->segment);
        taken = (*found)->bytes;
        stream_.endpoint.on_segment((*found)->segment, *this, qp_.regions_, qp_.requester_effects_,
                                    effects);
        ++received_.segments;
        received_.bytes += taken;
      } else {
        return;
      }
      qp_.drain(qp_.requester_effects_);
      qp_.drain(effects);
    }
  }

  void append(const OutgoingSegment& segment, MutableByteSpan room) {
    const std::size_t size = segment.bytes();
    const MutableByteSpan bytes = room.subspan(wire::kFpduLengthBytes, size);
    encode(segment.header, bytes);
    std::ranges::copy(segment.body.bytes(), bytes.subspan(segment.header.size()).begin());
    const std::size_t fpdu_bytes = stream_.writer.bytes_of(size);
    const std::uint32_t payload = segment.payload.length;
    Pieces pieces;
    if (find(segment.payload, pieces)) {
      const auto front = room.first(wire::kFpduLengthBytes + size - payload);
      const auto end = room.subspan(front.size(), fpdu_bytes - front.size() - payload);
      stream_.writer.write_around(front, payload, end);
      stream_.tcp.commit(front.size());
      for (const ByteSpan piece : pieces) stream_.tcp.append_by_reference(piece);
      stream_.tcp.commit(end.size());
    } else if (read(segment.payload, bytes.last(segment.payload.length))) {
      stream_.writer.write(room.first(fpdu_bytes), size);
      stream_.tcp.commit(fpdu_bytes);
    } else {
      return refuse(segment.payload);
    }
    ++sent_.segments;
    sent_.bytes += fpdu_bytes;
  }
  using Pieces = InplaceVector<ByteSpan, kSegmentsMax>;
  static_assert(kSegmentsMax <= link::TcpStream::kReferencesMax);

  /// Where the payload lies, held until it has been sent or copied. False: copy it at once, for it
  /// is short, may go at any moment, or must not change any more, as its CRC would not fit.
  bool find(const PayloadSource& payload, Pieces& pieces) {
    if (payload.length < kZeroCopyBytesMin || !stream_.writer.may_write_around()) return false;
    const std::size_t held = stream_.holds.size();
    using Added = std::expected<void, region::KeyError>;
    const auto add = [&](auto hold, std::uint32_t length) -> Added {
      if (!hold) return std::unexpected(hold.error());
      if (hold->backing() != region::Hold::Backing::memory) {
        return std::unexpected(region::KeyError::not_mapped);
      }
      pieces.push({hold->address(), length});
      stream_.holds.push_back(std::move(*hold));
      return {};
    };
    const auto in_request = [&](MemoryKey key, std::uint64_t address, std::uint32_t length) {
      return add(qp_.regions_.hold(key, address, length, region::kLocalRead, qp_.options_.pd),
                 length);
    };
    const SendQueue& queue = qp_.send_queue_;
    const bool found = payload.from == PayloadSource::From::region
                           ? add(hold_region(payload), payload.length).has_value()
                           : !queue.wqe(payload.slot).inlined &&
                                 for_each_piece(queue.segments(payload.slot), payload.offset,
                                                payload.length, in_request)
                                     .has_value();
    if (!found) stream_.holds.resize(held);
    return found;
  }

  std::expected<region::Hold, region::KeyError> hold_region(const PayloadSource& payload) const {
    return qp_.regions_.hold(payload.key, payload.address, payload.length, region::kRemoteRead,
                             {payload.pd, qp_.number_});
  }

  void release() {
    stream_.tcp.copy_referenced();
    stream_.holds.clear();
  }

  /// A copy: the kernel sends it later, and its CRC must fit what it is then.
  bool read(const PayloadSource& payload, MutableByteSpan to) {
    switch (payload.from) {
      case PayloadSource::From::nothing:
        return true;
      case PayloadSource::From::region: {
        const auto hold = hold_region(payload);
        return hold && read_held(*hold, to);
      }
      case PayloadSource::From::request:
        break;
    }
    const SendQueue& queue = qp_.send_queue_;
    if (queue.wqe(payload.slot).inlined) {
      std::ranges::copy(queue.inline_bytes(payload.slot).subspan(payload.offset, to.size()),
                        to.begin());
      return true;
    }
    return gather(qp_.regions_, qp_.options_.pd, queue.segments(payload.slot), payload.offset, to)
        .has_value();
  }

  void refuse(const PayloadSource& payload) {
    release();  // Requests end now whose bytes may still be borrowed.
    if (payload.from == PayloadSource::From::request) {
      return qp_.refuse_stream_request(payload.slot, Status::local_protection_error);
    }
    transport::ResponderEffects effects;
    stream_.endpoint.on_region_error(effects);
    qp_.drain(effects);
  }

  void count() {
    auto& own = qp_.record_->counters;
    auto& port = qp_.around_.arena.header().port_counters;
    if (sent_.segments != 0) {
      own.packets_sent.add_exclusive(sent_.segments);
      own.bytes_sent.add_exclusive(sent_.bytes);
      port.packets_sent.add(sent_.segments);
      port.bytes_sent.add(sent_.bytes);
    }
    if (received_.segments != 0) {
      own.packets_received.add_exclusive(received_.segments);
      own.bytes_received.add_exclusive(received_.bytes);
      port.packets_received.add(received_.segments);
      port.bytes_received.add(received_.bytes);
    }
  }

  struct Traffic {
    std::uint64_t segments = 0;
    std::uint64_t bytes = 0;
  };

  QueuePair& qp_;
  Stream& stream_;
  Traffic sent_;  // In this turn.
  Traffic received_;
};

void QueuePair::on_stream(TimeNs now, bool to_the_end) {
  const std::lock_guard guard(lock_);
  if (stream_ == nullptr || stream_->has_ended) return;
  if (std::exchange(stream_->awaits_room, false)) {
    around_.streams->await_room(stream_->tcp.fd(), number_, false);
  }
  if (!Streaming(*this).receive(to_the_end)) {
    stream_->has_ended = true;
    around_.streams->remove(stream_->tcp.fd());
    fatal_ = true;
  }
  placement_hold_.release();
  if (now >= stream_->goes_on_at) Streaming(*this).go_on(now);
  if (fatal_) fail();
  transmit_locked(now);
  if (!stream_->is_polled) transmit_stream();
}

void QueuePair::transmit_stream() {
  Streaming streaming(*this);
  const bool may_hand_over =
      state() == QpState::rts && link_ == nullptr && !stream_->negotiates_path;
  while (may_hand_over && handed_ < send_queue_.posted()) {
    stream_->endpoint.requester().post(send_queue_.wqe(handed_++).request);
  }
  bool more = true;
  for (int buffers = 0; more && buffers < kBuffersPerPass; ++buffers) {
    more = streaming.send() && state() == QpState::rts && streaming.fill();
  }
  if (more) {  // Others want their turn; nothing else brings this one back.
    streaming.send();
    around_.progress.note_output(*this);
    around_.progress.arm_timer(monotonic_now(), number_);
  }
  streaming.end_when_sent();
  if (fatal_) fail();
}

/// iWARP has no way back: the stream ends with the request.
void QueuePair::refuse_stream_request(transport::Slot slot, Status status) {
  stream_->endpoint.requester().on_local_error(slot, status, requester_effects_);
  drain(requester_effects_);
  transport::ResponderEffects effects;
  stream_->endpoint.on_local_error(effects);
  drain(effects);
}

/// What has been begun, and the Terminate message, if there is one; then the peer hears the end.
void QueuePair::end_stream() {
  Streaming streaming(*this);
  if (stream_->endpoint.ended()) streaming.fill();
  streaming.send();
  if (const auto told = stream_->endpoint.sent_terminate()) {
    log(LogLevel::info, "QP {:#x} ends its stream: layer {}, type {}, code {:#x}", number_.value(),
        static_cast<int>(told->layer), told->type, told->code);
  }
  stream_->ends_when_sent = true;
  streaming.end_when_sent();
}

void QueuePair::forget_stream() {
  if (stream_ == nullptr) return;
  around_.streams->remove(stream_->tcp.fd());
  stream_.reset();
}

}  // namespace verbatim::adapter
