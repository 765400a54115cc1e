#include "ulp/lnet/node.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

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

Node::Node(NodeSettings settings, Buffers& buffers)
    : settings_(std::move(settings)), buffers_(buffers) {}

Node::~Node() {
  links_.clear();
  for (auto& [nid, peer] : peers_) {
    for (Parcel& parcel : peer.waiting) drop(parcel);
  }
}

const Nid* Node::own_at(Net net) const {
  const auto found = std::ranges::find(settings_.own, net, &Nid::net);
  return found == settings_.own.end() ? nullptr : &*found;
}

bool Node::is_own(Nid nid) const { return std::ranges::count(settings_.own, nid) > 0; }

std::optional<Nid> Node::next_hop(Nid to) const {
  if (own_at(to.net()) != nullptr) return to;
  const auto route = std::ranges::find(settings_.routes, to.net(), &Route::net);
  if (route == settings_.routes.end()) return std::nullopt;
  return route->gateway;
}

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

void Node::on_message(LinkId id, ByteSpan bytes, TimeNs now) {
  const auto found = links_.find(id);
  if (found == links_.end() || found->second.connection == nullptr) return;
  ++counters_.received;
  mark(id);
  found->second.connection->on_message(bytes, now);
}

void Node::on_done(LinkId id, Tag tag, CompletionStatus status) {
  const auto found = links_.find(id);
  if (found == links_.end() || found->second.connection == nullptr) return;
  found->second.connection->on_done(tag, status);
  mark(id);
  mark_held();
}

/// A buffer may have become free that they wait for.
void Node::mark_held() {
  if (buffers_.free_count() == 0) return;
  for (const auto& [id, link] : links_) {
    if (link.connection != nullptr && link.connection->waits_for_buffer()) mark(id);
  }
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

std::optional<LinkId> Node::take_ready() {
  if (ready_.empty()) return std::nullopt;
  const LinkId id = *ready_.begin();
  ready_.erase(ready_.begin());
  return id;
}

void Node::pump(LinkId id, TimeNs now, Output& out) {
  const auto found = links_.find(id);
  if (found == links_.end() || found->second.connection == nullptr) return;
  found->second.connection->pump(now, out);
}

void Node::wish(Nid nid, Peer& peer, TimeNs now) {
  if (peer.is_wished || peer.asking) return;
  peer.is_wished = true;
  if (peer.gives_up == kNever) peer.gives_up = now + kPatience;
  wishes_.push_back(nid);
}

void Node::drop(Parcel& parcel) {
  ++counters_.dropped;
  if (parcel.bulk) buffers_.give_back(*std::exchange(parcel.bulk, std::nullopt));
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

/// Sends it on its way. False: there is none; the parcel's buffer is free again.
bool Node::route(Parcel parcel, TimeNs now) {
  const auto hop = next_hop(parcel.header.destination);
  const bool is_known = hop && peers_.contains(*hop);
  if (!hop || own_at(hop->net()) == nullptr || (!is_known && peers_.size() >= kPeersMax)) {
    drop(parcel);
    return false;
  }
  // A router answers no get_request: its answer comes as a message of its own.
  if (parcel.header.operation == Operation::get && parcel.bulk &&
      *hop != parcel.header.destination) {
    buffers_.give_back(*std::exchange(parcel.bulk, std::nullopt));
  }
  Peer& peer = peer_of(*hop);
  if (peer.link) {
    mark(*peer.link);
    return links_.at(*peer.link).connection->send(std::move(parcel), now);
  }
  if (peer.waiting.size() >= Connection::kWaitingMax) {
    drop(parcel);
    return false;
  }
  peer.waiting.push_back(std::move(parcel));
  wish(*hop, peer, now);
  return true;
}

bool Node::put(Nid to, std::uint32_t portal, std::uint64_t match_bits, ByteSpan payload,
               TimeNs now) {
  const auto hop = next_hop(to);
  const Nid* const own = hop ? own_at(hop->net()) : nullptr;
  if (own == nullptr) return false;
  const LnetHeader header{.destination = to,
                          .source = *own,
                          .operation = Operation::put,
                          .payload_bytes = static_cast<std::uint32_t>(payload.size()),
                          .match_bits = match_bits,
                          .portal = portal};
  return route({header, {payload.begin(), payload.end()}, {}}, now);
}

bool Node::put(Nid to, std::uint32_t portal, std::uint64_t match_bits, Buffer buffer,
               std::uint32_t bytes, TimeNs now) {
  if (bytes <= Message::kPayloadMax) {
    const bool is_sent = put(to, portal, match_bits, ByteSpan(buffer.memory.data, bytes), now);
    buffers_.give_back(buffer);
    return is_sent;
  }
  const auto hop = next_hop(to);
  const Nid* const own = hop ? own_at(hop->net()) : nullptr;
  const LnetHeader header{.destination = to,
                          .source = own == nullptr ? Nid{} : *own,
                          .operation = Operation::put,
                          .payload_bytes = bytes,
                          .match_bits = match_bits,
                          .portal = portal};
  return route({header, {}, buffer}, now);
}

void Node::get(Nid from, std::uint32_t portal, std::uint64_t match_bits, std::uint32_t bytes,
               std::optional<Buffer> into, OnReply on_reply, TimeNs now) {
  const auto hop = next_hop(from);
  const Nid* const own = hop ? own_at(hop->net()) : nullptr;
  const std::uint64_t object = next_object_++;
  expected_[object] = {std::move(on_reply), now + kPatience};
  const LnetHeader header{.destination = from,
                          .source = own == nullptr ? Nid{} : *own,
                          .operation = Operation::get,
                          .handle = {settings_.stamp, object},
                          .match_bits = match_bits,
                          .portal = portal,
                          .bytes = bytes};
  if (into && bytes <= Message::kPayloadMax) buffers_.give_back(*std::exchange(into, std::nullopt));
  if (!route({header, {}, into}, now))
    end_get(object, {}, fmt::format("no way leads to {}", text_of(from)), now);
}

void Node::end_get(std::uint64_t object, ByteSpan payload, const std::string& words, TimeNs now) {
  const auto found = expected_.find(object);
  if (found == expected_.end()) return;
  const OnReply on_reply = std::move(found->second.on_reply);
  expected_.erase(found);
  on_reply(payload, words, now);
}

void Node::on_parcel(Connection&, Parcel parcel, TimeNs now) {
  const Nid to = parcel.header.destination;
  if (is_own(to)) {
    deliver(parcel, now);
    if (parcel.bulk) buffers_.give_back(*parcel.bulk);
    mark_held();
    return;
  }
  if (!forwards() || own_at(to.net()) == nullptr) return drop(parcel);
  ++counters_.forwarded;
  route(std::move(parcel), now);
}

void Node::deliver(Parcel& parcel, TimeNs now) {
  const LnetHeader& header = parcel.header;
  switch (header.operation) {
    case Operation::get:
      return answer_get(header, now);
    case Operation::reply:
      if (header.handle.interface != settings_.stamp) break;
      return end_get(header.handle.object, parcel.payload(),
                     header.payload_bytes == 0 ? "the peer has nothing there" : "", now);
    case Operation::put:
      if (!header.handle.is_none()) {
        route({{.destination = header.source,
                .source = header.destination,
                .operation = Operation::ack,
                .handle = header.handle,
                .match_bits = header.match_bits,
                .bytes = header.payload_bytes},
               {},
               {}},
              now);
      }
      if (header.portal == kReservedPortal) return;  // The peer's own list: we have no use for it.
      if (portals_ != nullptr) return portals_->on_put(header, parcel.payload(), now);
      break;
    case Operation::ack:
    case Operation::hello:
      return;
  }
  ++counters_.dropped;
}

std::vector<std::byte> Node::ping_info() const {
  PingInfo info{.features = kBase | kHasStatus | (forwards() ? 0 : kRoutesNothing),
                .ends = {{kLoopbackNid}}};
  for (const Nid nid : settings_.own) info.ends.push_back({nid});
  return encode(info);
}

/// A GET that came as a message: its answer is one, too.
void Node::answer_get(const LnetHeader& get, TimeNs now) {
  Parcel reply{{.destination = get.source,
                .source = get.destination,
                .operation = Operation::reply,
                .handle = get.handle},
               {},
               {}};
  if (get.portal == kReservedPortal && get.match_bits == kPingBits) {
    reply.small = ping_info();
    reply.small.resize(std::min<std::size_t>(reply.small.size(), get.bytes));
  } else if (const auto lent = portals_ == nullptr ? std::nullopt : portals_->find(get)) {
    const std::uint32_t bytes = std::min(lent->memory.bytes, get.bytes);
    const ByteSpan from(lent->memory.data, bytes);
    if (bytes <= Message::kPayloadMax) {
      reply.small.assign(from.begin(), from.end());
    } else if ((reply.bulk = buffers_.take())) {
      std::memcpy(reply.bulk->memory.data, from.data(), bytes);
      reply.header.payload_bytes = bytes;
    }
    portals_->on_given(get, *lent);
  } else {
    ++counters_.dropped;
    return;  // As LNet: whoever asks gives up by itself.
  }
  if (!reply.bulk) reply.header.payload_bytes = static_cast<std::uint32_t>(reply.small.size());
  route(std::move(reply), now);
}

bool Node::wants(const LnetHeader& header) {
  if (!is_own(header.destination)) return forwards() && own_at(header.destination.net()) != nullptr;
  if (header.operation == Operation::reply)
    return header.handle.interface == settings_.stamp && expected_.contains(header.handle.object);
  return header.operation == Operation::put && portals_ != nullptr && portals_->wants(header);
}

std::optional<Buffer> Node::find(const LnetHeader& get) {
  return is_own(get.destination) && portals_ != nullptr ? portals_->find(get) : std::nullopt;
}

void Node::on_given(const LnetHeader& get, const Buffer& buffer) {
  if (portals_ != nullptr) portals_->on_given(get, buffer);
}

void Node::on_time(TimeNs now) {
  for (auto& [id, link] : links_) {
    if (link.connection == nullptr || now < link.connection->deadline()) continue;
    link.connection->on_time(now);
    mark(id);
  }
  for (auto& [nid, peer] : peers_) {
    if (now < peer.gives_up) continue;
    drop_waiting(peer, peer.words.empty() ? "no answer in 50 s" : peer.words, now);
  }
  std::vector<std::uint64_t> over;
  for (const auto& [object, expected] : expected_) {
    if (now >= expected.gives_up) over.push_back(object);
  }
  for (const std::uint64_t object : over) end_get(object, {}, "no answer in 50 s", now);
  if (portals_ != nullptr && now >= portals_->deadline()) portals_->on_time(now);
}

TimeNs Node::deadline() const {
  TimeNs first = portals_ == nullptr ? kNever : portals_->deadline();
  for (const auto& [id, link] : links_) {
    if (link.connection != nullptr) first = std::min(first, link.connection->deadline());
  }
  for (const auto& [nid, peer] : peers_) first = std::min(first, peer.gives_up);
  for (const auto& [object, expected] : expected_) first = std::min(first, expected.gives_up);
  return first;
}

std::vector<Node::PeerState> Node::peers() const {
  std::vector<PeerState> states;
  for (const auto& [nid, peer] : peers_) {
    const Connection* const connection =
        peer.link ? links_.at(*peer.link).connection.get() : nullptr;
    states.push_back({nid, connection != nullptr,
                      peer.waiting.size() + (connection == nullptr ? 0 : connection->waiting()),
                      connection == nullptr ? std::uint16_t{0} : connection->credits(),
                      peer.words});
  }
  return states;
}

}  // namespace verbatim::ulp::lnet
