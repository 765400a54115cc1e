#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ulp/lnet/node.h"

/// How a node's connections begin and end.
namespace verbatim::ulp::lnet {
namespace {

ConnectionSizes least(const ConnectionSizes& a, const ConnectionSizes& b) {
  return {std::min(a.depth, b.depth), std::min(a.fragments, b.fragments),
          std::min(a.message_bytes, b.message_bytes)};
}

QueueSizes queue_sizes(const ConnectionSizes& sizes) {
  return {.sends = 64,
          .receives = Connection::receives(sizes.depth),
          .receive_bytes = kMessageBytes,
          .send_slices = 1,
          .reads_in_flight = 0};
}

PrivateData private_data(MessageKind kind, const Ends& ends, const ConnectionSizes& sizes) {
  std::array<std::byte, kMessageBytes> bytes;
  const std::size_t length = encode({.kind = kind, .ends = ends, .sizes = sizes}, bytes);
  return to_private_data(ByteSpan(bytes).first(length));
}

}  // namespace

std::unexpected<Rejection> Node::refuse(Why why, std::string words,
                                        const ConnectionSizes& sizes) const {
  return std::unexpected(Rejection{
      encode(Refusal{.why = why, .stamp = settings_.stamp, .sizes = sizes}), std::move(words)});
}

std::expected<Node::Accepted, Rejection> Node::on_meeting(LinkId link, const Meeting& meeting,
                                                          TimeNs now) {
  const ConnectionSizes ours;
  const auto request =
      decode_message(ByteSpan(meeting.private_data.begin(), meeting.private_data.size()));
  if (!request || request->kind != MessageKind::connect)
    return refuse(request || request.error() != MessageFault::version ? Why::fatal : Why::version,
                  request ? "it is no request" : text_of(request.error()), ours);
  const Ends& ends = request->ends;
  if (!is_own(ends.destination))
    return refuse(Why::fatal, fmt::format("it asks for {}", text_of(ends.destination)), ours);
  if (ends.destination_stamp != 0 && ends.destination_stamp != settings_.stamp)
    return refuse(Why::stale, "it asks for who was here before", ours);
  const ConnectionSizes& theirs = request->sizes;
  if (theirs.depth == 0 || theirs.depth > ours.depth)
    return refuse(Why::depth,
                  fmt::format("it wants {} messages in flight (peer_credits), we have {}",
                              theirs.depth, ours.depth),
                  ours);
  if (theirs.fragments > ours.fragments)
    return refuse(Why::fragments,
                  fmt::format("it has up to {} fragments (map_on_demand), we take {}",
                              theirs.fragments, ours.fragments),
                  ours);
  if (theirs.message_bytes > ours.message_bytes)
    return refuse(Why::fatal,
                  fmt::format("its messages have up to {} bytes, ours {}", theirs.message_bytes,
                              ours.message_bytes),
                  ours);
  if (peers_.size() >= kPeersMax && !peers_.contains(ends.source))
    return refuse(Why::no_resources, fmt::format("{} nodes are known already", kPeersMax), ours);
  Peer& peer = peer_of(ends.source);
  if (peer.stamp != 0 && peer.stamp != ends.source_stamp) {
    peer.stamp = 0;
    if (peer.link) {
      links_.at(*peer.link).connection->refuse("the peer has started anew");
      mark(*std::exchange(peer.link, std::nullopt));
    }
    return refuse(Why::stale, "it has started anew: it will ask again", ours);
  }
  const bool do_we_ask = peer.asking.has_value() || peer.is_wished;
  if (do_we_ask && ends.source < ends.destination && peer.races < kRacesMax) {
    ++peer.races;
    return refuse(Why::race, "we ask it, too", ours);
  }
  peer.stamp = ends.source_stamp;
  const Connection::Agreement agreed{
      {ends.destination, settings_.stamp, ends.source, ends.source_stamp}, least(ours, theirs)};
  links_[link] = {ends.source, ends.destination,
                  std::make_unique<Connection>(*this, buffers_, agreed, now)};
  return Accepted{private_data(MessageKind::accept, agreed.ends, agreed.sizes),
                  queue_sizes(agreed.sizes)};
}

/// From now on parcels for the peer go by this link.
void Node::use_link(LinkId id, TimeNs now) {
  const Link& link = links_.at(id);
  Peer& peer = peer_of(link.peer);
  peer.link = id;
  peer.tries = peer.races = 0;
  peer.words.clear();
  peer.gives_up = kNever;
  while (!peer.waiting.empty()) {
    link.connection->send(std::move(peer.waiting.front()), now);
    peer.waiting.pop_front();
  }
  mark(id);
}

void Node::on_established(LinkId id, ByteSpan private_data, TimeNs now) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  Link& link = found->second;
  if (link.connection == nullptr) {
    const auto answer = decode_message(private_data);
    Peer& peer = peer_of(link.peer);
    const bool is_right =
        answer && answer->kind == MessageKind::accept && answer->ends.source == link.peer &&
        answer->ends.destination == link.own && answer->ends.destination_stamp == settings_.stamp &&
        answer->sizes.depth > 0 && answer->sizes.depth <= peer.sizes.depth;
    const Connection::Agreement agreed{
        {link.own, settings_.stamp, link.peer, is_right ? answer->ends.source_stamp : 0},
        is_right ? answer->sizes : ConnectionSizes{}};
    link.connection = std::make_unique<Connection>(*this, buffers_, agreed, now);
    if (!is_right) {
      link.connection->refuse("the peer's answer is no LNet's");
      mark(id);
      return;
    }
    peer.stamp = agreed.ends.destination_stamp;
    peer.asking.reset();
  }
  use_link(id, now);
}

void Node::on_end(LinkId id, const std::string& words, ByteSpan refusal, TimeNs now) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  const Nid nid = found->second.peer;
  if (found->second.connection != nullptr) found->second.connection->on_end();
  links_.erase(found);
  ready_.erase(id);
  mark_held();
  Peer& peer = peer_of(nid);
  if (!words.empty()) peer.words = words;
  if (peer.link == id) peer.link.reset();
  if (peer.asking != id) return;
  peer.asking.reset();
  if (const auto why = decode_refusal(refusal)) {
    peer.words = text_of(why->why);
    peer.sizes = least(peer.sizes, why->sizes);
    if (why->why == Why::stale) peer.stamp = 0;
    const bool is_race = why->why == Why::race;
    const bool goes_on = is_race || why->why == Why::stale || why->why == Why::depth ||
                         why->why == Why::fragments || why->why == Why::too_early;
    if (goes_on && peer.sizes.depth > 0 && ++peer.tries <= (is_race ? kRacesMax : kTriesMax)) {
      if (!peer.link && !peer.waiting.empty()) wish(nid, peer, now);
      return;
    }
  }
  drop_waiting(peer, peer.words, now);
}

void Node::on_refused(Nid nid, const std::string& words, TimeNs now) {
  Peer& peer = peer_of(nid);
  peer.words = words;
  drop_waiting(peer, words, now);
}

void Node::on_connecting(LinkId link, Nid nid) {
  peer_of(nid).asking = link;
  const Nid* const own = own_at(nid.net());
  links_[link] = {nid, own == nullptr ? Nid{} : *own, nullptr};
}

std::optional<Node::Wish> Node::take_wish() {
  if (wishes_.empty()) return std::nullopt;
  const Nid nid = wishes_.front();
  wishes_.pop_front();
  Peer& peer = peer_of(nid);
  peer.is_wished = false;
  const Nid* const own = own_at(nid.net());
  if (own == nullptr || peer.link) return take_wish();
  const Ends ends{*own, settings_.stamp, nid, peer.stamp};
  return Wish{*own, nid, private_data(MessageKind::connect, ends, peer.sizes),
              queue_sizes(peer.sizes)};
}

void Node::wish(Nid nid, Peer& peer, TimeNs now) {
  if (peer.is_wished || peer.asking) return;
  peer.is_wished = true;
  if (peer.gives_up == kNever) peer.gives_up = now + kPatience;
  wishes_.push_back(nid);
}

void Node::drop_waiting(Peer& peer, const std::string& words, TimeNs now) {
  peer.gives_up = kNever;
  peer.tries = 0;
  auto waiting = std::exchange(peer.waiting, {});
  for (Parcel& parcel : waiting) {
    const LnetHeader header = parcel.header;
    drop(parcel);
    if (header.operation == Operation::get && is_own(header.source))
      end_get(header.handle.object, {}, words, now);
  }
}

}  // namespace verbatim::ulp::lnet
