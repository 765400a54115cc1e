#include <sys/random.h>

#include "adapter/progress/progress.h"
#include "adapter/queue_pair/queue_pair.h"
#include "adapter/services/stream.h"
#include "adapter/services/stream_source.h"
#include "base/bytes.h"
#include "base/log.h"

/// Which path a queue pair over iWARP takes. Nothing but the connection says who its peer is, so an
/// initiator whose peer may be of this machine invites it: the empty READ that says that it is
/// ready names its queue pair and a number that stands in its target. A peer that takes the direct
/// path as well shows that number there, and thereby becomes the one whom the target serves; then
/// it answers the READ. Until the answer comes the requests of both wait, so that none is on its
/// way over the stream when the next goes past it. Then an empty WRITE to the same place says that
/// the initiator's requests go past the stream, too, which stays for the end.
namespace verbatim::adapter {

using transport::iwarp::TaggedAddress;

namespace {

/// None where the segment is no empty READ that names anything.
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

/// An empty WRITE to this place, by which an initiator says that it takes the direct path.
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
  open_target();  // It serves nobody yet.
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
    finish_path_negotiation();  // Nobody invites.
}

/// Each end chooses how its own requests go: one that cannot reach the other, though that one
/// reaches it, sends them over the stream.
void QueuePair::finish_path_negotiation(ByteSpan first_segment) {
  using transport::iwarp::Requester;
  if (!std::exchange(stream_->negotiates_path, false)) return;
  link_ = stream_->is_initiator ? link_to_invitee() : link_to_inviter(first_segment);
  if (link_ != nullptr && stream_->is_initiator) {
    stream_->endpoint.requester().post_rtr(Requester::RtrMessage::write,
                                           {number_.value(), stream_->cookie});
    stop_polling_stream();
  } else if (link_ == nullptr && around_.only_direct) {
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

/// Nothing but the peer's end is to come over it.
void QueuePair::stop_polling_stream() {
  stream_->is_polled = !around_.streams->await_end(stream_->tcp.fd(), number_);
  note_wire_use();
}

/// Whoever has accepted the invitation; after this, nobody can.
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

/// The peer that invites, once it serves this queue pair.
std::unique_ptr<DirectLink> QueuePair::link_to_inviter(ByteSpan first_segment) {
  const auto cookie = offer_in(first_segment);
  if (!cookie) return nullptr;
  stream_->cookie = cookie->offset;
  auto link = link_to({peer_, 0, Qpn(cookie->stag)});
  if (link == nullptr) return nullptr;
  attributes_.dest_qpn = Qpn(cookie->stag);
  open_target();  // First: the peer's requests come as soon as it sees itself accepted.
  if (link->accept()) return link;
  attributes_.dest_qpn = {};
  close_target();
  return nullptr;
}

}  // namespace verbatim::adapter
