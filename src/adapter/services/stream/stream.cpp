#include "adapter/services/stream/stream.h"

#include <algorithm>
#include <utility>

#include "adapter/limits.h"
#include "adapter/progress/progress.h"
#include "adapter/services/effects.h"
#include "adapter/services/stream/stream_source.h"
#include "wire/iwarp/mpa_markers.h"

/// A queue pair over iWARP: its beginning, with the TCP connection that rdma_cm has made, and its
/// end.
namespace verbatim::adapter::services {

namespace {

constexpr transport::iwarp::TaggedAddress kNoOffer;

}  // namespace

std::uint32_t ddp_segment_bytes(std::size_t tcp_segment_bytes, bool has_markers) {
  constexpr std::size_t kAround = wire::kFpduLengthBytes + wire::kFpduCrcBytes;
  constexpr std::size_t kSegmentMin = 128;  // Any header, and some payload.
  constexpr std::size_t kSegmentMax = 65'000;
  std::size_t room = tcp_segment_bytes - tcp_segment_bytes % 4;
  if (has_markers) room -= std::min(room, (room / wire::kMarkerInterval + 1) * wire::kMarkerBytes);
  room -= std::min(room, kAround);
  return static_cast<std::uint32_t>(std::clamp(room, kSegmentMin, kSegmentMax));
}

Result<void> Stream::start(StreamStart start) {
  auto tcp = link::TcpStream::adopt(std::move(start.socket));
  if (!tcp) return std::unexpected(tcp.error());
  if (auto added = core_.around.streams->add(tcp->fd(), core_.number); !added) return added;
  connection_ =
      std::make_unique<StreamConnection>(std::move(*tcp), start.agreement, core_.sends.capacity());
  const auto depth = [](std::uint16_t agreed) {
    return static_cast<std::uint8_t>(std::min<unsigned>(agreed, Limits::rd_atomic));
  };
  core_.attributes.max_rd_atomic = depth(start.agreement.outbound_reads);
  core_.attributes.max_dest_rd_atomic = depth(start.agreement.inbound_reads);
  configure();
  using RtrMessage = cm::MpaParameters::RtrMessage;
  using Saying = transport::iwarp::Requester::RtrMessage;
  const RtrMessage ready = start.agreement.ready;
  connection_->is_initiator = start.is_initiator;
  begin_path_negotiation();
  if (!start.is_initiator) {
    connection_->endpoint.hold_until_first_segment();
  } else if (ready != RtrMessage::nothing) {
    connection_->endpoint.requester().post_rtr(
        ready == RtrMessage::read ? Saying::read : Saying::write,
        connection_->negotiates_path ? offer_direct_path() : kNoOffer);
  }
  // Who is told that the peer is ready waits for that word, without any limit.
  if (start.is_initiator == (ready != RtrMessage::nothing)) {
    connection_->goes_on_at = monotonic_now() + StreamConnection::kFirstSegmentTimeout;
    core_.around.progress.arm_timer(connection_->goes_on_at, core_.number);
  }
  core_.set_state(QpState::rts);
  core_.note_wire_use(is_on_wire());
  return {};
}

void Stream::configure() {
  const std::uint32_t segment_bytes =
      ddp_segment_bytes(connection_->tcp.segment_bytes(), connection_->agreement.sends_markers);
  connection_->endpoint.configure(
      {.requester = {.segment_bytes_max = segment_bytes,
                     .max_rd_atomic = core_.attributes.max_rd_atomic},
       .responder = {.segment_bytes_max = segment_bytes,
                     .max_dest_rd_atomic = core_.attributes.max_dest_rd_atomic,
                     .access = core_.attributes.access,
                     .pd = core_.options.pd,
                     .own_qp = core_.number}});
}

void Stream::enter(QpState, QpState, std::uint32_t changed) {
  if (connection_ == nullptr) return;
  if ((changed & (kAccessFlags | kMinRnrTimer | kMaxDestRdAtomic)) == 0) return;
  configure();
  direct_.change_target();
}

/// While something has left since the program's last poll: nothing waits alone for its next post.
bool Stream::may_gather() const {
  constexpr std::uint64_t kBytesTogether = 60'000;  // What TCP takes in one piece.
  return connection_ != nullptr && !direct_.is_open() &&
         connection_->posted_at > core_.around.progress.last_poll() &&
         core_.is_worth_gathering(kBytesTogether);
}

bool Stream::is_due(TimeNs now) const {
  return connection_ != nullptr && (connection_->is_polled || now >= connection_->goes_on_at);
}

/// iWARP has no way back: the stream ends with the request.
void Stream::refuse_request(transport::Slot slot, transport::Status status) {
  connection_->endpoint.requester().on_local_error(slot, status, effects_);
  drain_requester();
  transport::ResponderEffects effects;
  connection_->endpoint.on_local_error(effects);
  drain_responder(effects);
}

void Stream::drain_requester() {
  drain(core_, effects_, connection_->endpoint.requester(), [this](transport::Slot slot) {
    refuse_request(slot, transport::Status::local_protection_error);
  });
}

void Stream::drain_responder(transport::ResponderEffects& effects) {
  transport::iwarp::Endpoint& endpoint = connection_->endpoint;
  drain(effects, endpoint, [&](const transport::ResponderEffect& effect) {
    return carry_out(core_, effect, endpoint.responder(), core_.accessor());
  });
}

void Stream::flush() {
  if (connection_ == nullptr) return;
  connection_->negotiates_path = false;
  services::flush(core_, effects_, connection_->endpoint.requester());
}

void Stream::reset() {
  if (connection_ == nullptr) return;
  core_.around.streams->remove(connection_->tcp.fd());
  connection_.reset();
}

Stream::~Stream() { reset(); }

}  // namespace verbatim::adapter::services
