#include "ulp/ipoib/connections.h"

#include <algorithm>
#include <utility>

#include "ulp/ipoib/wire/ip.h"

namespace verbatim::ulp::ipoib {

Connections::Use Connections::send(const HardwareAddress& to, const SocketAddress& hop,
                                   ByteSpan packet, TimeNs now, Outputs& out) {
  const bool fits = packet.size() <= datagram_mtu_;
  if (!to.takes_connections()) {
    if (fits) return Use::datagram;
    return tell(packet, hop, datagram_mtu_, out), Use::taken;
  }
  Peer& peer = peer_at(to, now, out);
  peer.last_used = now;
  if (peer.state == State::closed && now >= peer.due) ask(peer, now, out);
  if (peer.state == State::open) return send_open(peer, hop, packet, now, out), Use::taken;
  if (fits) return Use::datagram;
  if (peer.state == State::closed) return send_closed(peer, hop, packet, out);
  if (peer.waiting.size() == kWaiting) {
    ++counters_.no_room;
  } else {
    peer.waiting.push_back({hop, copy_of(packet)});
  }
  return Use::taken;
}

Connections::Peer& Connections::peer_at(const HardwareAddress& to, TimeNs now, Outputs& out) {
  const Key key{to.gid, to.qpn};
  if (const auto known = peers_.find(key); known != peers_.end()) return known->second;
  if (peers_.size() == kConnectionsMax) make_room(out);
  Peer& peer = peers_[key];
  peer.address = to;
  peer.due = now;
  return peer;
}

/// Forgets the one that was used longest ago.
void Connections::make_room(Outputs& out) {
  const auto oldest =
      std::ranges::min_element(peers_, {}, [](const auto& one) { return one.second.last_used; });
  end(oldest->second, out);
  peers_.erase(oldest);
}

Connections::Peer* Connections::find(PeerId id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

void Connections::ask(Peer& peer, TimeNs now, Outputs& out) {
  peer.state = State::asked;
  peer.id = PeerId{++last_id_};
  by_id_[peer.id] = &peer;
  set_due(peer, now + kPatience);
  out.push(Connect{.peer = peer.id, .to = peer.address});
}

void Connections::send_open(Peer& peer, const SocketAddress& hop, ByteSpan packet, TimeNs now,
                            Outputs& out) {
  if (packet.size() > peer.mtu) return tell(packet, hop, peer.mtu, out);
  if (peer.in_flight == kInFlight) return static_cast<void>(++counters_.no_room);
  if (peer.in_flight++ == 0) {
    peer.progress = now;
    set_due(peer, std::min(peer.due, now + kStuck));
  }
  if (peer.in_flight == kInFlight) {
    set_full(peer, true);
    set_due(peer, std::min(peer.due, peer.progress + kSlow));
  }
  ++counters_.packets;
  out.push(SendByConnection{.peer = peer.id, .type = type_of(packet), .packet = packet});
}

void Connections::set_full(Peer& peer, bool is_full) {
  if (peer.is_full == is_full) return;
  peer.is_full = is_full;
  full_ += is_full ? 1 : -1;
}

/// What is too long for a datagram, while there is no connection.
Connections::Use Connections::send_closed(const Peer& peer, const SocketAddress& hop,
                                          ByteSpan packet, Outputs& out) {
  if (peer.is_refused) {
    tell(packet, hop, datagram_mtu_, out);
  } else {
    ++counters_.unreachable;
  }
  return Use::taken;
}

void Connections::tell(ByteSpan packet, const SocketAddress& hop, std::uint32_t mtu, Outputs& out) {
  ++counters_.too_long;
  out.push(TellTooLong{.packet = packet, .hop = hop, .mtu = mtu});
}

void Connections::on_connected(PeerId id, ByteSpan private_data, TimeNs now, Outputs& out) {
  Peer* const peer = find(id);
  if (peer == nullptr || peer->state != State::asked) return;
  const auto offer = decode_connected_peer(private_data);
  if (!offer) {
    end(*peer, out);
    return close(*peer, true, now, out);
  }
  peer->state = State::open;
  peer->is_refused = false;
  peer->mtu = std::min(offer->mtu(), kConnectedMtu);
  set_due(*peer, now + kIdle);
  for (Held& held : std::exchange(peer->waiting, {})) {
    released_.push_back(std::move(held.packet));
    send_open(*peer, held.hop, released_.back(), now, out);
  }
}

void Connections::on_sent(PeerId id, TimeNs now) {
  Peer* const peer = find(id);
  if (peer == nullptr || peer->in_flight == 0) return;
  --peer->in_flight;
  set_full(*peer, false);
  peer->progress = now;
  peer->failures = 0;
}

void Connections::on_ended(PeerId id, bool is_refused, TimeNs now, Outputs& out) {
  if (Peer* const peer = find(id)) close(*peer, is_refused, now, out);
}

/// A connection that was of use is made anew at once: its peer may begin anew.
void Connections::close(Peer& peer, bool is_refused, TimeNs now, Outputs& out) {
  const bool was_of_use = peer.state == State::open && peer.failures == 0;
  by_id_.erase(peer.id);
  set_full(peer, false);
  peer.state = State::closed;
  peer.in_flight = 0;
  if (++peer.failures >= kTries) is_refused = true;
  peer.is_refused = is_refused;
  const TimeNs pause = is_refused ? kRefused : was_of_use ? 0 : kTryAgain << (peer.failures - 1);
  set_due(peer, now + pause);
  auto waiting = std::exchange(peer.waiting, {});
  if (!is_refused) return static_cast<void>(lost_.emplace_back(peer.address, std::move(waiting)));
  for (Held& held : waiting) {
    released_.push_back(std::move(held.packet));
    send_closed(peer, held.hop, released_.back(), out);
  }
}

std::optional<Connections::Lost> Connections::take_lost() {
  if (lost_.empty()) return std::nullopt;
  auto lost = std::move(lost_.back());
  lost_.pop_back();
  return lost;
}

void Connections::end(Peer& peer, Outputs& out) {
  if (peer.state == State::closed) return;
  set_full(peer, false);
  out.push(EndConnection{peer.id});
  by_id_.erase(peer.id);
}

void Connections::set_due(Peer& peer, TimeNs due) {
  peer.due = due;
  due_ = std::min(due_, due);
}

void Connections::on_time(TimeNs now, Outputs& out) {
  if (now < due_) return;
  due_ = kNever;
  for (auto at = peers_.begin(); at != peers_.end();) {
    Peer& peer = at->second;
    const bool is_due = peer.due <= now;
    if (is_due && !has_room(out)) {
      due_ = now;
      return;
    }
    const auto next = std::next(at);
    if (is_due && !on_due(peer, now, out)) {
      peers_.erase(at);
    } else if (peer.state == State::closed) {
      due_ = std::min(due_, peer.last_used + kIdle);
    } else {
      due_ = std::min(due_, peer.due);
    }
    at = next;
  }
}

bool Connections::on_due(Peer& peer, TimeNs now, Outputs& out) {
  const bool is_idle = peer.in_flight == 0 && peer.last_used + kIdle <= now;
  const bool is_stuck = peer.in_flight > 0 && peer.progress + kStuck <= now;
  if (peer.state == State::closed) return !is_idle;
  if (peer.state == State::open && is_idle) return end(peer, out), false;
  if (peer.state == State::open && !is_stuck) {
    if (peer.progress + kSlow <= now) set_full(peer, false);
    peer.due = peer.is_full         ? peer.progress + kSlow
               : peer.in_flight > 0 ? peer.progress + kStuck
                                    : peer.last_used + kIdle;
    return true;
  }
  end(peer, out);
  close(peer, false, now, out);
  return true;
}

std::vector<Connections::Shown> Connections::shown() const {
  std::vector<Shown> all;
  for (const auto& [key, peer] : peers_) {
    const char* const state = peer.state == State::open    ? "connected"
                              : peer.state == State::asked ? "connecting"
                                                           : "datagrams";
    all.push_back({peer.address, state, peer.mtu});
  }
  return all;
}

}  // namespace verbatim::ulp::ipoib
