#include <algorithm>
#include <cerrno>
#include <utility>

#include "adapter/adapter.h"
#include "adapter/memory/scatter.h"
#include "adapter/progress/progress.h"
#include "adapter/queue_pair/queue_pair.h"
#include "adapter/services/stream.h"
#include "base/inplace_vector.h"
#include "base/log.h"
#include "region/held_memory.h"
#include "wire/iwarp/mpa.h"

/// A queue pair over iWARP: passes its engine's segments to a TCP connection, and received ones to
/// the engine.
namespace verbatim::adapter {

using transport::PayloadSource;
using transport::Status;
using transport::iwarp::OutgoingSegment;

namespace {

/// Buffers that a pass sends, and reads, at most, so that other queue pairs are served and the lock
/// is released.
constexpr int kBuffersPerPass = 16;
/// Copying a shorter payload is faster than looking up and holding its region.
constexpr std::uint32_t kZeroCopyBytesMin = 2048;
/// Number of repeated RTR messages.
constexpr std::uint32_t kRtrRepeatsMax = 20;

}  // namespace

/// Drives a stream. Requires its queue pair's lock.
class QueuePair::Streaming final : private transport::iwarp::ReceiveSource {
 public:
  explicit Streaming(QueuePair& queue_pair) : qp_(queue_pair), stream_(*queue_pair.stream_) {}
  ~Streaming() {
    release();
    count();
  }
  Streaming(const Streaming&) = delete;
  Streaming& operator=(const Streaming&) = delete;

  /// Reads and processes what has come, kBuffersPerPass buffers at most. Returns false if the
  /// connection has ended. The end is found by a read that gets nothing; with `to_the_end` it reads
  /// until then.
  bool receive(bool to_the_end) {
    for (int buffers = 0; buffers < kBuffersPerPass; ++buffers) {
      const int error = stream_.tcp.receive();
      if (qp_.state() == QpState::err) {
        // Only the stream's end matters now, and that the peer has sent something.
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

  /// Sends pending bytes. Returns false if some are left, or the connection has ended.
  bool send() {
    const int error = stream_.tcp.send();
    release();
    if (error == EAGAIN && !std::exchange(stream_.awaits_room, true)) {
      qp_.adapter_.streams().await_room(stream_.tcp.fd(), qp_.number_, true);
    }
    // The end of a connection is found by reading, after the data before it.
    if (error != 0) return false;
    stream_.endpoint.requester().on_handed_over(qp_.requester_effects_);
    qp_.drain(qp_.requester_effects_);
    return true;
  }

  /// Adds as many segments as there are, or fit. Returns false if there are none.
  bool fill() {
    for (bool any = false;; any = true) {
      const auto room = stream_.tcp.reserve(transport::iwarp::kFpduBytesMax);
      if (room.empty()) return any;
      OutgoingSegment segment;
      if (stream_.endpoint.poll_transmit(segment)) {
        append(segment, room);
      } else if (const auto slot = stream_.endpoint.requester().poll_local()) {
        release();  // The operation may wait for regions that it holds.
        const Status status = qp_.carry_out(*slot);
        if (status != Status::success) qp_.refuse_stream_request(*slot, status);
      } else {
        return any;
      }
    }
  }

  /// Perhaps the peer has sent nothing since the connection was established.
  void go_on(TimeNs now) {
    stream_.goes_on_at = kNever;
    if (stream_.endpoint.has_received_segment()) return;
    if (!stream_.is_initiator) return stream_.endpoint.hold_no_longer();
    if (++stream_.rtr_repeats > kRtrRepeatsMax) {
      // A program that requires the direct path waits for the answer, or for the end.
      return qp_.adapter_.membership().only_direct ? void() : qp_.finish_path_negotiation();
    }
    stream_.endpoint.requester().post_rtr(transport::iwarp::Requester::RtrMessage::write);
    if (stream_.ends_when_sent) fill();
    if (stream_.ends_when_sent && !is_answer_due()) return;
    stream_.goes_on_at = now + Stream::kFirstSegmentTimeout;
    qp_.adapter_.progress().arm_timer(stream_.goes_on_at, qp_.number_);
  }

  /// Shuts the connection down when everything is sent. If the peer has sent nothing yet, waits
  /// (`go_on` announces readiness again, 20 times at most): `siw` may not have processed the
  /// set-up, and would report a failure instead of an end.
  void end_when_sent() {
    const bool waits_for_peer = stream_.goes_on_at != kNever &&
                                !stream_.endpoint.has_received_segment() &&
                                !stream_.endpoint.ended();
    if (!stream_.ends_when_sent || waits_for_peer) return;
    if (stream_.tcp.has_sent_all()) stream_.tcp.shut_down();
  }

 private:
  /// The peer answers when it knows that this side is ready.
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

  /// Finds the payload in registered memory and holds its regions until it is sent (zero copy).
  /// Returns false if it must be copied now: shorter than kZeroCopyBytesMin, on-demand or imported
  /// memory, or CRC or markers are in use.
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

  /// Copies the payload: the kernel sends it later, when its CRC must still match.
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
    release();  // Requests complete now whose bytes may still be referenced.
    if (payload.from == PayloadSource::From::request) {
      return qp_.refuse_stream_request(payload.slot, Status::local_protection_error);
    }
    transport::ResponderEffects effects;
    stream_.endpoint.on_region_error(effects);
    qp_.drain(effects);
  }

  void count() {
    auto& own = qp_.record_->counters;
    auto& port = qp_.adapter_.arena().header().port_counters;
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
  Traffic sent_;  // In this pass.
  Traffic received_;
};

void QueuePair::on_stream(TimeNs now, bool to_the_end) {
  const std::lock_guard guard(lock_);
  if (stream_ == nullptr || stream_->has_ended) return;
  if (std::exchange(stream_->awaits_room, false)) {
    adapter_.streams().await_room(stream_->tcp.fd(), number_, false);
  }
  if (!Streaming(*this).receive(to_the_end)) {
    stream_->has_ended = true;
    adapter_.streams().remove(stream_->tcp.fd());
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
  if (more) {  // Others are served first; nothing else would resume this one.
    streaming.send();
    adapter_.progress().note_output(*this);
    adapter_.progress().arm_timer(monotonic_now(), number_);
  }
  streaming.end_when_sent();
  if (fatal_) fail();
}

/// iWARP has no NAK: the stream ends with the request.
void QueuePair::refuse_stream_request(transport::Slot slot, Status status) {
  stream_->endpoint.requester().on_local_error(slot, status, requester_effects_);
  drain(requester_effects_);
  transport::ResponderEffects effects;
  stream_->endpoint.on_local_error(effects);
  drain(effects);
}

/// Sends what was begun, and a Terminate message, if there is one; then shuts the connection down.
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
  adapter_.streams().remove(stream_->tcp.fd());
  stream_.reset();
}

}  // namespace verbatim::adapter
