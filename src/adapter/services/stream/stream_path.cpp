#include <utility>

#include <sys/random.h>

#include "adapter/services/stream/stream.h"
#include "adapter/services/stream/stream_source.h"
#include "base/bytes.h"
#include "base/log.h"
#include "wire/iwarp/ddp.h"
#include "wire/iwarp/rdmap.h"

/// Which path a queue pair over iWARP takes. Nothing but the connection says who its peer is, so an
/// initiator whose peer may be of this machine invites it: the empty READ that says that it is
/// ready names its queue pair and a number that stands in its target. A peer that takes the direct
/// path as well shows that number there, and thereby becomes the one whom the target serves; then
/// it answers the READ. Until the answer comes the requests of both wait, so that none is on its
/// way over the stream when the next goes past it. Then an empty WRITE to the same place says that
/// the initiator's requests go past the stream, too, which stays for the end.
namespace verbatim::adapter::services {

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

/// What each end's target knows the other by, in the place of a GID.
Gid name_of(std::uint64_t cookie) {
  Gid name;
  store_be(reinterpret_cast<std::byte*>(name.bytes.data()), cookie);
  return name;
}

}  // namespace

TaggedAddress Stream::offer_direct_path() {
  std::uint64_t& cookie = connection_->cookie;
  if (getrandom(&cookie, sizeof cookie, 0) != sizeof cookie) return {};
  direct_.invite(name_of(cookie));
  return {core_.number.value(), cookie};
}

void Stream::begin_path_negotiation() {
  const auto peer = SocketAddress::of_peer(connection_->tcp.fd());
  if (peer) core_.record.dest_gid = gid_of(*peer);
  if (!direct_.is_allowed()) return;
  connection_->negotiates_path = true;
  core_.peer = StreamPath{peer.value_or(SocketAddress())};
  if (connection_->agreement.ready != cm::MpaParameters::RtrMessage::read)
    finish_path_negotiation();  // Nobody invites.
}

/// Each end chooses how its own requests go: one that cannot reach the other, though that one
/// reaches it, sends them over the stream.
void Stream::finish_path_negotiation(ByteSpan first_segment) {
  using transport::iwarp::Requester;
  if (!std::exchange(connection_->negotiates_path, false)) return;
  direct_.set_link(connection_->is_initiator ? link_to_invitee() : link_to_inviter(first_segment));
  if (direct_.is_open() && connection_->is_initiator) {
    connection_->endpoint.requester().post_rtr(Requester::RtrMessage::write,
                                               {core_.number.value(), connection_->cookie});
    stop_polling();
  } else if (!direct_.is_open() && core_.around.only_direct) {
    log(LogLevel::warn,
        "VERBATIM_PATH=direct, and the peer of QP {:#x} at {} is not on this machine, "
        "of another user, or takes the wire",
        core_.number.value(), path_text(core_.peer));
    core_.fatal = true;
  }
  core_.note_wire_use(is_on_wire());
}

void Stream::on_path_segment(ByteSpan segment) {
  if (connection_->negotiates_path) return finish_path_negotiation(segment);
  const TaggedAddress direct_notice{core_.attributes.dest_qpn.value(), connection_->cookie};
  if (connection_->is_polled && is_to(segment, direct_notice)) stop_polling();
}

/// Nothing but the peer's end is to come over it.
void Stream::stop_polling() {
  connection_->is_polled = !core_.around.streams->await_end(connection_->tcp.fd(), core_.number);
  core_.note_wire_use(is_on_wire());
}

/// Whoever has accepted the invitation; after this, nobody can.
std::unique_ptr<DirectLink> Stream::link_to_invitee() {
  const Qpn invitee = core_.attributes.dest_qpn = direct_.take_invitee();
  if (invitee.value() != 0) {
    return direct_.link_to(core_.peer, invitee, name_of(connection_->cookie));
  }
  direct_.close_target();
  return nullptr;
}

/// The peer that invites, once it serves this queue pair.
std::unique_ptr<DirectLink> Stream::link_to_inviter(ByteSpan first_segment) {
  const auto offer = offer_in(first_segment);
  if (!offer) return nullptr;
  connection_->cookie = offer->offset;
  const Gid name = name_of(connection_->cookie);
  auto link = direct_.link_to(core_.peer, Qpn(offer->stag), name);
  if (link == nullptr) return nullptr;
  core_.attributes.dest_qpn = Qpn(offer->stag);
  direct_.open_target(name);  // First: the peer's requests come once it sees itself accepted.
  if (link->accept()) return link;
  core_.attributes.dest_qpn = {};
  direct_.close_target();
  return nullptr;
}

}  // namespace verbatim::adapter::services
