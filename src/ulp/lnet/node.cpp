#include "ulp/lnet/node.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace verbatim::ulp::lnet {

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

void Node::on_message(LinkId id, ByteSpan bytes, TimeNs now) {
  const auto found = links_.find(id);
  if (found == links_.end() || found->second.connection == nullptr) return;
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

void Node::drop(Parcel& parcel) {
  counters_.dropped.count(parcel.header.payload_bytes);
  if (parcel.bulk) buffers_.give_back(*std::exchange(parcel.bulk, std::nullopt));
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
  (is_own(parcel.header.source) ? counters_.sent : counters_.forwarded)
      .count(parcel.header.payload_bytes);
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
  counters_.received.count(parcel.header.payload_bytes);
  if (is_own(to)) {
    deliver(parcel, now);
    if (parcel.bulk) buffers_.give_back(*parcel.bulk);
    mark_held();
    return;
  }
  if (!forwards() || own_at(to.net()) == nullptr) return drop(parcel);
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
  counters_.dropped.count(header.payload_bytes);
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
    } else if (const auto buffer = buffers_.take()) {
      reply.bulk = buffer;
      std::memcpy(buffer->memory.data, from.data(), bytes);
      reply.header.payload_bytes = bytes;
    }
    portals_->on_given(get, *lent);
  } else {
    counters_.dropped.count(0);
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
  counters_.received.count(0);
  return is_own(get.destination) && portals_ != nullptr ? portals_->find(get) : std::nullopt;
}

void Node::on_given(const LnetHeader& get, const Buffer& buffer) {
  counters_.sent.count(get.bytes);  // The answer, which the connection has written itself.
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
