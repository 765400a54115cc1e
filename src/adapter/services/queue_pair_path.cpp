#include <sys/random.h>

#include "adapter/adapter.h"
#include "adapter/progress/progress.h"
#include "adapter/queue_pair/queue_pair.h"
#include "adapter/services/stream.h"
#include "base/bytes.h"
#include "base/log.h"

/// How an iWARP queue pair chooses its path. Only the TCP connection identifies the peer, so the
/// initiator puts its QP number and a random cookie into the empty READ that says it is ready (RFC
/// 6581). A responder on the same machine that can use the direct path presents the cookie to the
/// initiator's target, becomes its peer, and then answers the READ. Until the answer comes, both
/// ends hold their requests back, so that none on the direct path overtakes one on the stream. An
/// initiator that takes the direct path tells the responder with an empty WRITE. The connection
/// stays open, to report the end.
namespace verbatim::adapter {

using transport::iwarp::TaggedAddress;

namespace {

/// Returns the source STag and offset of a zero-length READ request, if both are set; nothing for
/// other segments.
std::optional<TaggedAddress> offer_in(ByteSpan segment) {
  using wire::RdmapReadRequest;
  const auto header = wire::decode_ddp(segment);
  if (!header || header->tagged) return std::nullopt;
  const ByteSpan payload = segment.subspan(header->size());
  const auto opcode = wire::rdmap_opcode(*header);
  if (!opcode || *opcode != wire::RdmapOpcode::read_request ||
      payload.size() != RdmapReadRequest::kSize) {
    return std::nullopt;
  }
  const auto read = wire::decode_read_request(payload.first<RdmapReadRequest::kSize>());
  if (read.length != 0 || read.source_stag == 0 || read.source_offset == 0) return std::nullopt;
  return TaggedAddress{read.source_stag, read.source_offset};
}

/// Returns true for an empty WRITE to this STag and offset, by which an initiator says that it uses
/// the direct path.
bool is_to(ByteSpan segment, const TaggedAddress& place) {
  const auto header = wire::decode_ddp(segment);
  return header && header->tagged && segment.size() == header->size() &&
         header->stag == place.stag && header->offset == place.offset;
}

}  // namespace

Gid QueuePair::cookie_as_gid() const {
  Gid name;
  store_be(reinterpret_cast<std::byte*>(name.bytes.data()), stream_->cookie);
  return name;
}

TaggedAddress QueuePair::offer_direct_path() {
  std::uint64_t& cookie = stream_->cookie;
  if (getrandom(&cookie, sizeof cookie, 0) != sizeof cookie) return {};
  open_target();  // It serves no peer yet.
  const TargetLock target_lock(target_);
  target_.awaits_direct_peer = true;
  return {number_.value(), cookie};
}

void QueuePair::begin_path_negotiation() {
  if (!may_be_direct()) return;
  stream_->negotiates_path = true;
  const auto peer = SocketAddress::of_peer(stream_->tcp.fd());
  peer_ = peer ? peer->with_port(kRocePort) : SocketAddress();
  if (stream_->agreement.ready != cm::MpaParameters::RtrMessage::read)
    finish_path_negotiation();  // There is no offer.
}

/// Each end chooses the path of its own requests: if it cannot reach the other end directly, it
/// uses the stream, even if the other end uses the direct path.
void QueuePair::finish_path_negotiation(ByteSpan first_segment) {
  using transport::iwarp::Requester;
  if (!std::exchange(stream_->negotiates_path, false)) return;
  link_ = stream_->is_initiator ? link_to_invitee() : link_to_inviter(first_segment);
  if (link_ != nullptr && stream_->is_initiator) {
    stream_->endpoint.requester().post_rtr(Requester::RtrMessage::write,
                                           {number_.value(), stream_->cookie});
    stop_polling_stream();
  } else if (link_ == nullptr && adapter_.membership().only_direct) {
    log(LogLevel::warn,
        "VERBATIM_PATH=direct, and the peer of QP {:#x} at {} is not on this machine, "
        "of another user, or takes the wire",
        number_.value(), peer_.ip_text());
    fatal_ = true;
  }
  note_wire_use();
}

void QueuePair::on_path_segment(ByteSpan segment) {
  if (stream_->negotiates_path) return finish_path_negotiation(segment);
  const TaggedAddress direct_notice{attributes_.dest_qpn.value(), stream_->cookie};
  if (stream_->is_polled && is_to(segment, direct_notice)) stop_polling_stream();
}

/// Stops polling the connection; the background thread watches it for its end.
void QueuePair::stop_polling_stream() {
  stream_->is_polled = !adapter_.streams().await_end(stream_->tcp.fd(), number_);
  note_wire_use();
}

/// Stops accepting, and returns a link to the peer that has accepted the direct path; null if none
/// has.
std::unique_ptr<DirectLink> QueuePair::link_to_invitee() {
  {
    const TargetLock target_lock(target_);
    target_.awaits_direct_peer = false;
    attributes_.dest_qpn = target_.peer_qpn;
  }
  if (attributes_.dest_qpn.value() != 0) return link_to({peer_, 0, attributes_.dest_qpn});
  close_target();
  return nullptr;
}

/// Accepts the direct path that the peer offers in `first_segment`, and returns a link to it.
/// Returns null if the segment has no offer or the peer's target no longer accepts.
std::unique_ptr<DirectLink> QueuePair::link_to_inviter(ByteSpan first_segment) {
  const auto cookie = offer_in(first_segment);
  if (!cookie) return nullptr;
  stream_->cookie = cookie->offset;
  auto link = link_to({peer_, 0, Qpn(cookie->stag)});
  if (link == nullptr) return nullptr;
  attributes_.dest_qpn = Qpn(cookie->stag);
  open_target();  // First, because the peer's requests come as soon as it is accepted.
  if (link->accept()) return link;
  attributes_.dest_qpn = {};
  close_target();
  return nullptr;
}

}  // namespace verbatim::adapter
