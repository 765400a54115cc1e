#include <algorithm>
#include <cerrno>
#include <utility>

#include "adapter/memory/scatter.h"
#include "adapter/progress/progress.h"
#include "adapter/services/stream/stream.h"
#include "adapter/services/stream/stream_source.h"
#include "base/inplace_vector.h"
#include "base/log.h"
#include "region/held_memory.h"
#include "wire/iwarp/mpa.h"

/// A queue pair over iWARP: its engine's segments into a TCP connection, and out of it.
namespace verbatim::adapter::services {

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

/// What moves a stream for a while: segments in and out.
class Stream::Turn final : private transport::iwarp::ReceiveSource {
 public:
  explicit Turn(Stream& owner) : owner_(owner), core_(owner.core_), stream_(*owner.connection_) {}
  ~Turn() {
    release();
    count();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// Reads and processes what has come, kBuffersPerPass buffers at most. Returns false if the
  /// connection has ended. The end is found by a read that gets nothing; with `to_the_end` it reads
  /// until then.
  bool receive(bool to_the_end) {
    for (int buffers = 0; buffers < kBuffersPerPass; ++buffers) {
      const int error = stream_.tcp.receive();
      if (core_.state() == QpState::err) {
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

  /// Sends pending bytes. Returns false if some are left, or the connection has ended.
  bool send() {
    const int error = stream_.tcp.send();
    release();
    if (error == EAGAIN && !std::exchange(stream_.awaits_room, true)) {
      core_.around.streams->await_room(stream_.tcp.fd(), core_.number, true);
    }
    // The end of a connection is found by reading, after the data before it.
    if (error != 0) return false;
    stream_.endpoint.requester().on_handed_over(owner_.effects_);
    owner_.drain_requester();
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
        release();  // What is held may be what the operation waits for.
        const Status status = core_.carry_out(*slot);
        if (status != Status::success) owner_.refuse_request(*slot, status);
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
      // Who insists on the direct path waits for the answer, or the end.
      return core_.around.only_direct ? void() : owner_.finish_path_negotiation();
    }
    stream_.endpoint.requester().post_rtr(transport::iwarp::Requester::RtrMessage::write);
    if (stream_.ends_when_sent) fill();
    if (stream_.ends_when_sent && !is_answer_due()) return;
    stream_.goes_on_at = now + StreamConnection::kFirstSegmentTimeout;
    core_.around.progress.arm_timer(stream_.goes_on_at, core_.number);
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
    if (!core_.take_receive()) return false;
    core_.receives.holds = true;
    out = {.ticket = 0, .capacity_bytes = core_.receives.current.capacity_bytes};
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
        if (stream_.negotiates_path || owner_.direct_.is_open())
          owner_.on_path_segment((*found)->segment);
        taken = (*found)->bytes;
        stream_.endpoint.on_segment((*found)->segment, *this, core_.regions, owner_.effects_,
                                    effects);
        ++received_.segments;
        received_.bytes += taken;
      } else {
        return;
      }
      owner_.drain_requester();
      owner_.drain_responder(effects);
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
      return add(core_.regions.hold(key, address, length, region::kLocalRead, core_.options.pd),
                 length);
    };
    const SendQueue& queue = core_.sends;
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
    return core_.regions.hold(payload.key, payload.address, payload.length, region::kRemoteRead,
                              {payload.pd, core_.number});
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
    const SendQueue& queue = core_.sends;
    if (queue.wqe(payload.slot).inlined) {
      std::ranges::copy(queue.inline_bytes(payload.slot).subspan(payload.offset, to.size()),
                        to.begin());
      return true;
    }
    return gather(core_.regions, core_.options.pd, queue.segments(payload.slot), payload.offset, to)
        .has_value();
  }

  void refuse(const PayloadSource& payload) {
    release();  // Requests complete now whose bytes may still be referenced.
    if (payload.from == PayloadSource::From::request) {
      return owner_.refuse_request(payload.slot, Status::local_protection_error);
    }
    transport::ResponderEffects effects;
    stream_.endpoint.on_region_error(effects);
    owner_.drain_responder(effects);
  }

  void count() {
    auto& own = core_.record.counters;
    auto& port = core_.around.arena.header().port_counters;
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

  Stream& owner_;
  QueuePairCore& core_;
  StreamConnection& stream_;
  Traffic sent_;  // In this turn.
  Traffic received_;
};

bool Stream::receive(TimeNs now, bool to_the_end) {
  if (connection_ == nullptr || connection_->has_ended) return false;
  if (std::exchange(connection_->awaits_room, false)) {
    core_.around.streams->await_room(connection_->tcp.fd(), core_.number, false);
  }
  if (!Turn(*this).receive(to_the_end)) {
    connection_->has_ended = true;
    core_.around.streams->remove(connection_->tcp.fd());
    core_.fatal = true;
  }
  core_.placing.release();
  if (now >= connection_->goes_on_at) Turn(*this).go_on(now);
  return true;
}

void Stream::transmit(TimeNs now) {
  if (connection_ == nullptr) return;
  if (connection_->is_polled) transmit_segments();
  const QpState current = core_.state();
  if (direct_.is_open() && current != QpState::err) direct_.transmit(now);
}

void Stream::transmit_after_receive() {
  if (!connection_->is_polled) transmit_segments();
}

void Stream::transmit_segments() {
  Turn turn(*this);
  const bool may_hand_over =
      core_.state() == QpState::rts && !direct_.is_open() && !connection_->negotiates_path;
  while (may_hand_over && core_.handed < core_.sends.posted()) {
    connection_->endpoint.requester().post(core_.sends.wqe(core_.handed++).request);
  }
  bool more = true;
  for (int buffers = 0; more && buffers < kBuffersPerPass; ++buffers) {
    more = turn.send() && core_.state() == QpState::rts && turn.fill();
  }
  if (more) {  // Others want their turn; nothing else brings this one back.
    turn.send();
    core_.come_again(monotonic_now());
  }
  turn.end_when_sent();
}

/// What has been begun, and the Terminate message, if there is one; then the peer hears the end.
void Stream::send_last(bool orderly) {
  if (connection_ == nullptr) return;
  if (orderly && core_.state() == QpState::rts) {  // A post may have left it to be gathered.
    finish_path_negotiation();
    transmit(monotonic_now());
  }
  Turn turn(*this);
  if (connection_->endpoint.ended()) turn.fill();
  turn.send();
  if (const auto told = connection_->endpoint.sent_terminate()) {
    log(LogLevel::info, "QP {:#x} ends its stream: layer {}, type {}, code {:#x}",
        core_.number.value(), static_cast<int>(told->layer), told->type, told->code);
  }
  connection_->ends_when_sent = true;
  turn.end_when_sent();
}

}  // namespace verbatim::adapter::services
