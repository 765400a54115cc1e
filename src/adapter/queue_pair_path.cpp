#include <sys/random.h>

#include "adapter/adapter.h"
#include "adapter/progress.h"
#include "adapter/queue_pair.h"
#include "adapter/stream.h"
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

using transport::iwarp::EmptyPlace;

namespace {

/// None where the segment is no empty READ that names anything.
std::optional<EmptyPlace> invitation_in(ByteSpan segment) {
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
  return EmptyPlace{read.source_stag, read.source_offset};
}

/// An empty WRITE to this place, by which an initiator says that it takes the direct path.
bool is_to(ByteSpan segment, const EmptyPlace& place) {
  const auto header = wire::decode_ddp(segment);
  return header && header->tagged && segment.size() == header->size() &&
         header->stag == place.stag && header->offset == place.offset;
}

}  // namespace

Gid QueuePair::name_of_stream() const {
  Gid name;
  store_be(reinterpret_cast<std::byte*>(name.bytes.data()), stream_->invitation);
  return name;
}

EmptyPlace QueuePair::invite_peer() {
  std::uint64_t& invitation = stream_->invitation;
  if (getrandom(&invitation, sizeof invitation, 0) != sizeof invitation) return {};
  open_target();  // It serves nobody yet.
  const TargetVisit visit(target_);
  target_.invites = true;
  return {number_.value(), invitation};
}

void QueuePair::begin_choice() {
  if (!may_be_direct()) return;
  stream_->chooses_path = true;
  const auto peer = SocketAddress::of_peer(stream_->tcp.fd());
  peer_ = peer ? peer->with_port(kRocePort) : SocketAddress();
  if (stream_->agreement.ready != cm::MpaAgreement::Ready::read) choose_path();  // Nobody invites.
}

/// Each end chooses how its own requests go: one that cannot reach the other, though that one
/// reaches it, sends them over the stream.
void QueuePair::choose_path(ByteSpan first_segment) {
  using transport::iwarp::Requester;
  if (!std::exchange(stream_->chooses_path, false)) return;
  link_ = stream_->is_initiator ? link_to_guest() : link_to_host(first_segment);
  if (link_ != nullptr && stream_->is_initiator) {
    stream_->endpoint.requester().post_ready(Requester::Ready::write,
                                             {number_.value(), stream_->invitation});
    leave_stream();
  } else if (link_ == nullptr && adapter_.only_direct()) {
    log(LogLevel::warn,
        "VERBATIM_PATH=direct, and the peer of QP {:#x} at {} is not on this machine, "
        "of another user, or takes the wire",
        number_.value(), peer_.ip_text());
    fatal_ = true;
  }
  note_wire_use();
}

void QueuePair::follow_choice(ByteSpan segment) {
  if (stream_->chooses_path) return choose_path(segment);
  const EmptyPlace farewell{attributes_.dest_qpn.value(), stream_->invitation};
  if (stream_->is_polled && is_to(segment, farewell)) leave_stream();
}

/// Nothing but the peer's end is to come over it.
void QueuePair::leave_stream() {
  stream_->is_polled = !adapter_.progress().await_end(stream_->tcp.fd(), number_);
  note_wire_use();
}

/// Whoever has accepted the invitation; after this, nobody can.
std::unique_ptr<DirectLink> QueuePair::link_to_guest() {
  {
    const TargetVisit visit(target_);
    target_.invites = false;
    attributes_.dest_qpn = target_.peer_qpn;
  }
  if (attributes_.dest_qpn.value() != 0) return link_to({peer_, 0, attributes_.dest_qpn});
  close_target();
  return nullptr;
}

/// The peer that invites, once it serves this queue pair.
std::unique_ptr<DirectLink> QueuePair::link_to_host(ByteSpan first_segment) {
  const auto invitation = invitation_in(first_segment);
  if (!invitation) return nullptr;
  stream_->invitation = invitation->offset;
  auto link = link_to({peer_, 0, Qpn(invitation->stag)});
  if (link == nullptr) return nullptr;
  attributes_.dest_qpn = Qpn(invitation->stag);
  open_target();  // First: the peer's requests come as soon as it sees itself accepted.
  if (link->accept()) return link;
  attributes_.dest_qpn = {};
  close_target();
  return nullptr;
}

}  // namespace verbatim::adapter
