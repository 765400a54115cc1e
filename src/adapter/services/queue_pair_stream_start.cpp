#include <algorithm>
#include <utility>

#include "adapter/adapter.h"
#include "adapter/progress/progress.h"
#include "adapter/queue_pair/queue_pair.h"
#include "adapter/services/stream.h"
#include "wire/iwarp/mpa_markers.h"

/// Starts a queue pair over iWARP on the TCP connection that rdma_cm has made.
namespace verbatim::adapter {

namespace {

constexpr transport::iwarp::TaggedAddress kNoOffer;

}  // namespace

std::uint32_t ddp_segment_bytes(std::size_t tcp_segment_bytes, bool has_markers) {
  constexpr std::size_t kAround = wire::kFpduLengthBytes + wire::kFpduCrcBytes;
  constexpr std::size_t kSegmentMin = 128;  // Any header, with some payload.
  constexpr std::size_t kSegmentMax = 65'000;
  std::size_t room = tcp_segment_bytes - tcp_segment_bytes % 4;
  if (has_markers) room -= std::min(room, (room / wire::kMarkerInterval + 1) * wire::kMarkerBytes);
  room -= std::min(room, kAround);
  return static_cast<std::uint32_t>(std::clamp(room, kSegmentMin, kSegmentMax));
}

Result<void> QueuePair::start_stream(StreamStart start) {
  auto tcp = link::TcpStream::adopt(std::move(start.socket));
  if (!tcp) return std::unexpected(tcp.error());
  const std::lock_guard guard(lock_);
  if (state() != QpState::init) {
    return refuse(EINVAL, fmt::format("QP {:#x} is in {}, not in INIT, and cannot be connected",
                                      number_.value(), name_of(state())));
  }
  if (auto added = adapter_.streams().add(tcp->fd(), number_); !added) return added;
  stream_ = std::make_unique<Stream>(std::move(*tcp), start.agreement, send_queue_.capacity());
  const auto depth = [](std::uint16_t agreed) {
    return static_cast<std::uint8_t>(std::min<unsigned>(agreed, Limits::rd_atomic));
  };
  attributes_.max_rd_atomic = depth(start.agreement.outbound_reads);
  attributes_.max_dest_rd_atomic = depth(start.agreement.inbound_reads);
  configure_stream();
  using RtrMessage = cm::MpaParameters::RtrMessage;
  using Saying = transport::iwarp::Requester::RtrMessage;
  const RtrMessage ready = start.agreement.ready;
  stream_->is_initiator = start.is_initiator;
  begin_path_negotiation();
  if (!start.is_initiator) {
    stream_->endpoint.hold_until_first_segment();
  } else if (ready != RtrMessage::nothing) {
    stream_->endpoint.requester().post_rtr(
        ready == RtrMessage::read ? Saying::read : Saying::write,
        stream_->negotiates_path ? offer_direct_path() : kNoOffer);
  }
  // The side that expects the peer's RTR message waits for it without limit.
  if (start.is_initiator == (ready != RtrMessage::nothing)) {
    stream_->goes_on_at = monotonic_now() + Stream::kFirstSegmentTimeout;
    adapter_.progress().arm_timer(stream_->goes_on_at, number_);
  }
  set_state(QpState::rts);
  note_wire_use();
  transmit_locked(monotonic_now());
  return {};
}

void QueuePair::configure_stream() {
  const std::uint32_t segment_bytes =
      ddp_segment_bytes(stream_->tcp.segment_bytes(), stream_->agreement.sends_markers);
  stream_->endpoint.configure({.requester = {.segment_bytes_max = segment_bytes,
                                             .max_rd_atomic = attributes_.max_rd_atomic},
                               .responder = {.segment_bytes_max = segment_bytes,
                                             .max_dest_rd_atomic = attributes_.max_dest_rd_atomic,
                                             .access = attributes_.access,
                                             .pd = options_.pd,
                                             .own_qp = number_}});
}

}  // namespace verbatim::adapter
