#include "ulp/ipoib/neighbours.h"

#include <algorithm>
#include <utility>

#include "base/net/group_gid.h"
#include "ulp/ipoib/wire/ip.h"

namespace verbatim::ulp::ipoib {
namespace {

/// What a peer says it is, and what it can be.
bool is_usable(const HardwareAddress& address) {
  return !address.gid.is_zero() && !address.gid.is_multicast() && address.qpn != kMulticastQpn;
}

}  // namespace

void Neighbours::send(const SocketAddress& hop, const SocketAddress& source, ByteSpan packet,
                      TimeNs now, Outputs& out) {
  Neighbour& neighbour = *neighbour_at(hop, source, now, out);
  neighbour.last_used = now;
  if (neighbour.state == State::asking) {
    if (neighbour.waiting.size() == kWaiting) return static_cast<void>(++counters_.no_room);
    return neighbour.waiting.push_back(copy_of(packet));
  }
  if (neighbour.state == State::known && now >= neighbour.stale_at) {
    neighbour.state = State::probed;
    neighbour.tries = 0;
    ask(hop, neighbour, now, out);
  }
  send_to(hop, neighbour, packet, now, out);
}

std::optional<HardwareAddress> Neighbours::find(const SocketAddress& hop,
                                                const SocketAddress& source, TimeNs now,
                                                Outputs& out) {
  Neighbour& neighbour = *neighbour_at(hop, source, now, out);
  neighbour.last_used = now;
  if (neighbour.state == State::asking) return std::nullopt;
  return neighbour.address;
}

void Neighbours::send_to(const SocketAddress& ip, Neighbour& neighbour, ByteSpan packet, TimeNs now,
                         Outputs& out) {
  if (settings_.is_connected() &&
      connections_.send(neighbour.address, ip, packet, now, out) == Connections::Use::taken)
    return;
  send_by(*neighbour.path, neighbour.address.qpn, type_of(packet), packet, out);
}

void Neighbours::on_lost(Connections::Lost& lost, TimeNs now, Outputs& out) {
  for (auto& [ip, neighbour] : neighbours_) {
    const bool is_there = neighbour.path != nullptr && neighbour.address == lost.address;
    if (is_there && has_room(out)) begin_to_ask(ip, neighbour, now, out);
  }
  for (auto& held : lost.waiting) {
    released_.push_back(std::move(held.packet));
    send(held.hop, {}, released_.back(), now, out);
  }
}

Neighbours::Neighbour* Neighbours::neighbour_at(const SocketAddress& ip,
                                                const SocketAddress& source, TimeNs now,
                                                Outputs& out) {
  if (const auto known = neighbours_.find(ip); known != neighbours_.end()) return &known->second;
  if (neighbours_.size() == kNeighboursMax) make_room(out);
  Neighbour& neighbour = neighbours_[ip];
  neighbour.source = source;
  begin_to_ask(ip, neighbour, now, out);
  return &neighbour;
}

/// Forgets the one that was used longest ago.
void Neighbours::make_room(Outputs& out) {
  forget(std::ranges::min_element(neighbours_, {},
                                  [](const auto& neighbour) { return neighbour.second.last_used; }),
         out);
}

void Neighbours::forget(Map::iterator neighbour, Outputs& out) {
  counters_.unreachable += neighbour->second.waiting.size();
  leave_path(neighbour->second, out);
  neighbours_.erase(neighbour);
}

void Neighbours::begin_to_ask(const SocketAddress& ip, Neighbour& neighbour, TimeNs now,
                              Outputs& out) {
  leave_path(neighbour, out);
  neighbour.state = State::asking;
  neighbour.tries = 0;
  neighbour.address = {};
  ask(ip, neighbour, now, out);
}

/// Everybody; a known one is asked alone.
void Neighbours::ask(const SocketAddress& ip, Neighbour& neighbour, TimeNs now, Outputs& out) {
  ++neighbour.tries;
  neighbour.due = now + kAskAgain;
  set_due(neighbour.due);
  const Neighbour* const known = neighbour.state == State::probed ? &neighbour : nullptr;
  if (ip.is_ipv4()) return send_arp(ip, neighbour.source, known, now, out);
  send_solicitation(ip, neighbour.source, known, now, out);
}

void Neighbours::learn(const SocketAddress& ip, const HardwareAddress& address, bool is_answer,
                       bool is_for_us, TimeNs now, Outputs& out) {
  if (!is_usable(address) || is_own(ip)) return;
  auto found = neighbours_.find(ip);
  if (found == neighbours_.end()) {
    // Who asks us is answered, and spares us a question. Strangers do not fill the table.
    if (!is_for_us || neighbours_.size() >= kNeighboursMax / 4 * 3) return;
    found = neighbours_.emplace(ip, Neighbour{.source = own_of_family(ip)}).first;
    found->second.last_used = now;
  }
  Neighbour& neighbour = found->second;
  const bool is_same = neighbour.address == address && neighbour.path != nullptr;
  // What is said unasked, without the wish to be believed, changes nothing (RFC 4861, 7.2.5).
  if (!is_answer && !is_same && neighbour.state == State::known && !is_for_us) return;
  if (!is_same) {
    Path* const path = path_to(address.gid, out);
    if (path == nullptr) return;
    ++path->users;
    leave_path(neighbour, out);
    neighbour.path = path;
    neighbour.address = address;
  }
  neighbour.state = State::known;
  neighbour.tries = 0;
  neighbour.stale_at = now + kReachable;
  neighbour.due = now + kIdle;
  set_due(neighbour.due);
  release(ip, neighbour, now, out);
}

void Neighbours::release(const SocketAddress& ip, Neighbour& neighbour, TimeNs now, Outputs& out) {
  for (Packet& packet : std::exchange(neighbour.waiting, {})) {
    released_.push_back(std::move(packet));
    send_to(ip, neighbour, released_.back(), now, out);
  }
}

/// Null: so many are asked for that there is no room.
Neighbours::Path* Neighbours::path_to(const Gid& gid, Outputs& out) {
  if (const auto known = paths_.find(gid); known != paths_.end()) return &known->second;
  if (paths_.size() == kPathsMax) return nullptr;
  out.push(AskPath{gid});
  return &paths_[gid];
}

/// The last neighbour's path is closed; one that is asked for, when it comes.
void Neighbours::leave_path(Neighbour& neighbour, Outputs& out) {
  Path* const path = std::exchange(neighbour.path, nullptr);
  if (path == nullptr || --path->users > 0 || !path->way) return;
  out.push(CloseWay{*path->way});
  paths_.erase(neighbour.address.gid);
}

void Neighbours::send_by(Path& path, Qpn qpn, EtherType type, ByteSpan packet, Outputs& out) {
  if (path.way) {
    ++counters_.packets;
    return static_cast<void>(
        out.push(SendPacket{.to = {*path.way, qpn}, .type = type, .packet = packet}));
  }
  if (path.waiting.size() == kWaitingOfPath) return static_cast<void>(++counters_.no_room);
  path.waiting.push_back({type, qpn, copy_of(packet)});
}

void Neighbours::on_path(const Gid& gid, std::optional<WayId> way, TimeNs now, Outputs& out) {
  const auto found = paths_.find(gid);
  if (found == paths_.end()) {
    if (way) out.push(CloseWay{*way});
    return;
  }
  Path& path = found->second;
  if (path.way && way) out.push(CloseWay{*path.way});
  path.way = way;
  for (Held& held : std::exchange(path.waiting, {})) {
    if (!way || !has_room(out)) {
      ++counters_.unreachable;
      continue;
    }
    released_.push_back(std::move(held.packet));
    send_by(path, held.qpn, held.type, released_.back(), out);
  }
  if (way && path.users > 0) return;
  // Nobody is there, or only an answer was sent.
  std::erase_if(neighbours_, [&](const auto& one) { return one.second.path == &path; });
  if (way) out.push(CloseWay{*way});
  paths_.erase(found);
  set_due(now);
}

/// Those in use are asked for at once. The old ways serve until then.
void Neighbours::forget_paths(TimeNs now, Outputs& out) {
  for (auto& [gid, path] : paths_) {
    if (!has_room(out)) break;
    if (path.way) out.push(AskPath{gid});
  }
  for (auto& [ip, neighbour] : neighbours_) neighbour.stale_at = now;
}

void Neighbours::on_time(TimeNs now, Outputs& out) {
  if (now < due_) return;
  due_ = announce_at_;
  if (announce_at_ <= now) {
    announce_at_ = due_ = kNever;
    for (Own& own : own_) {
      if (own.announcements > 0 && has_room(out)) announce(own, now, out);
    }
  }
  for (auto at = neighbours_.begin(); at != neighbours_.end();) {
    const auto next = std::next(at);
    if (at->second.due > now) {
      set_due(at->second.due);
    } else if (has_room(out)) {
      on_due(at, now, out);
    } else {
      return set_due(now);
    }
    at = next;
  }
}

void Neighbours::on_due(Map::iterator at, TimeNs now, Outputs& out) {
  auto& [ip, neighbour] = *at;
  if (neighbour.state == State::known) {
    if (neighbour.last_used + kIdle <= now) return forget(at, out);
    neighbour.due = neighbour.last_used + kIdle;
    return set_due(neighbour.due);
  }
  if (neighbour.tries < kTries) return ask(ip, neighbour, now, out);
  if (neighbour.state == State::asking) return forget(at, out);
  begin_to_ask(ip, neighbour, now, out);  // It was there: perhaps it begins anew.
}

std::vector<Neighbours::Shown> Neighbours::shown() const {
  std::vector<Shown> all;
  for (const auto& [ip, neighbour] : neighbours_) {
    const char* const state = neighbour.state == State::asking   ? "incomplete"
                              : neighbour.state == State::probed ? "probe"
                              : neighbour.path->way              ? "reachable"
                                                                 : "no path yet";
    all.push_back({ip, state, neighbour.address});
  }
  std::ranges::sort(all, {}, [](const Shown& one) { return one.ip.ip_text(); });
  return all;
}

}  // namespace verbatim::ulp::ipoib
