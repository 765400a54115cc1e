#include <sys/random.h>

#include "adapter/adapter.h"
#include "adapter/progress.h"
#include "adapter/queue_pair.h"
#include "adapter/stream.h"
#include "base/log.h"

/// Which path a queue pair over iWARP takes. Nothing but the connection says who its peer is, so an
/// initiator whose peer may be of this machine invites it: the empty READ that says that it is
/// ready names its queue pair and a number that stands in its target. A peer that takes the direct
/// path as well shows that number there, and thereby becomes the one whom the target serves; then
/// it answers the READ. Until the answer comes the requests of both wait, so that none is on its
/// way over the stream when the next goes past it. The stream stays, for the end.
namespace verbatim::adapter {

using transport::iwarp::EmptySource;

namespace {

/// None where the segment is no empty READ that names anything.
std::optional<EmptySource> invitation_in(ByteSpan segment) {
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
  return EmptySource{read.source_stag, read.source_offset};
}

}  // namespace

EmptySource QueuePair::invite_peer() {
  std::uint64_t invitation = 0;
  if (getrandom(&invitation, sizeof invitation, 0) != sizeof invitation) return {};
  open_target();  // It serves nobody yet.
  const TargetVisit visit(target_);
  target_.invitation = invitation;
  return {number_.value(), invitation};
}

void QueuePair::begin_choice() {
  if (!may_be_direct()) return;
  stream_->chooses_path = true;
  const auto peer = SocketAddress::of_peer(stream_->tcp.fd());
  peer_ = peer ? peer->with_port(kRocePort) : SocketAddress();
  if (stream_->agreement.ready != cm::MpaAgreement::Ready::read) choose_path();  // Nobody invites.
}

void QueuePair::choose_path(ByteSpan first_segment) {
  if (!std::exchange(stream_->chooses_path, false)) return;
  auto link = stream_->is_initiator ? link_to_guest() : link_to_host(first_segment);
  if (link != nullptr) {
    link_ = std::move(link);
    adapter_.progress().remove_stream(stream_->tcp.fd());  // rdma_cm sees the end.
  } else if (attributes_.dest_qpn.value() != 0) {
    log(LogLevel::warn,
        "the peer of QP {:#x} at {} takes the direct path, which is closed the other way: they end",
        number_.value(), peer_.ip_text());
    fatal_ = true;
  } else if (adapter_.only_direct()) {
    log(LogLevel::warn,
        "VERBATIM_PATH=direct, and the peer of QP {:#x} at {} is not on this machine, "
        "of another user, or takes the wire",
        number_.value(), peer_.ip_text());
    fatal_ = true;
  }
  note_wire_use();
}

/// Whoever has accepted the invitation; after this, nobody can.
std::unique_ptr<DirectLink> QueuePair::link_to_guest() {
  {
    const TargetVisit visit(target_);
    target_.invitation = 0;
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
  auto link = link_to({peer_, 0, Qpn(invitation->stag)});
  if (link == nullptr) return nullptr;
  attributes_.dest_qpn = Qpn(invitation->stag);
  open_target();  // First: the peer's requests come as soon as it sees itself accepted.
  if (link->accept(invitation->offset)) return link;
  attributes_.dest_qpn = {};
  close_target();
  return nullptr;
}

}  // namespace verbatim::adapter
