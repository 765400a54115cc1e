#include "fabric/trunk/session.h"

#include <algorithm>
#include <utility>

#include "base/overloaded.h"

namespace verbatim::fabric::trunk {

void Session::set_offer(const std::optional<Offer>& offer, TimeNs now) {
  if (is_up_) bye_ = Answer{peer_, *address_};
  offer_ = offer;
  is_up_ = false;
  renew(now);
}

/// Another number: what comes for the last one is not taken any more.
void Session::renew(TimeNs now) {
  own_ = offer_ ? std::max<std::uint64_t>(identity_.random(), 1) : 0;
  hello_at_ = offer_ && address_ ? now : kNever;
  answer_.reset();
  has_status_ = has_gap_ = false;
}

Hello Session::hello() const {
  return {.from = own_, .node_guid = identity_.node_guid, .port = identity_.port, .offer = *offer_};
}

auto Session::on_datagram(ByteSpan bytes, const SocketAddress& from, TimeNs now) -> Event {
  const auto datagram = decode(bytes);
  if (!datagram) {
    ++counts_.damaged;
    return {};
  }
  if (own_ == 0 || (identity_.peer && from != *identity_.peer)) return {};
  if (const auto* hello = std::get_if<Hello>(&datagram->body)) {
    return on_hello(*hello, datagram->to, from, now);
  }
  if (!is_up_ || datagram->to != own_ || from != *address_) return {};
  heard_at_ = now;
  is_confirmed_ = true;
  return std::visit(
      Overloaded{[](const Hello&) { return Event(); }, [&](const Bye&) { return end(now); },
                 [&](const Status& status) {
                   on_status(status, now);
                   return Event();
                 },
                 [&](const Packet& packet) { return on_packet(packet); }},
      datagram->body);
}

/// Whoever knows this side's number receives what is sent to where it says that it is. Others are
/// told the number, and nothing is kept of them.
auto Session::on_hello(const Hello& hello, std::uint64_t to, const SocketAddress& from, TimeNs now)
    -> Event {
  if (is_up_ && from != *address_) return {};
  if (is_up_ && hello.from == peer_) {
    if (to == own_) has_status_ = true;  // It waits for a sign that this side is up.
    return {};
  }
  if (to != own_) {
    answer_ = Answer{hello.from, from};
    return {};
  }
  if (!is_up_) return begin(hello, from, now);
  // The peer has begun a new session: so does this side.
  Event down = end(now);
  peer_ = hello.from;
  answer_ = Answer{hello.from, from};
  return down;
}

auto Session::begin(const Hello& hello, const SocketAddress& from, TimeNs now) -> Event {
  is_up_ = true;
  is_confirmed_ = false;
  peer_ = hello.from;
  address_ = from;
  window_.reset();
  expected_ = 0;
  has_told_gap_ = false;
  limits_ = told_limits_ = peer_limits_ = {};
  heard_at_ = sent_at_ = now;
  hello_at_ = now;
  has_status_ = true;
  return Up{hello};
}

auto Session::end(TimeNs now) -> Event {
  is_up_ = false;
  renew(now);
  return Down{};
}

/// Limits only grow: smaller ones are of a status that came late.
void Session::on_status(const Status& status, TimeNs now) {
  window_.on_acknowledge(status.next, status.is_gap, now);
  for (std::size_t lane = 0; lane < kDataLanes; ++lane) {
    const auto more = static_cast<std::int32_t>(status.limits[lane] - peer_limits_[lane]);
    if (more > 0) peer_limits_[lane] = status.limits[lane];
  }
}

auto Session::on_packet(const Packet& packet) -> Event {
  const auto ahead = static_cast<std::int32_t>(packet.sequence - expected_);
  if (ahead > 0) {
    note_gap();
    return {};
  }
  has_status_ = true;
  if (ahead < 0) return {};  // It was received; the acknowledgement was lost.
  ++expected_;
  has_told_gap_ = false;
  return packet;
}

/// The peer sends all again that follow the gap: it is told once.
void Session::note_gap() {
  if (std::exchange(has_told_gap_, true)) return;
  ++counts_.missing;
  has_status_ = has_gap_ = true;
}

void Session::set_limits(const Limits& limits) {
  limits_ = limits;
  for (std::size_t lane = 0; lane < kDataLanes; ++lane) {
    const auto more = static_cast<std::int32_t>(limits[lane] - told_limits_[lane]);
    if (more >= static_cast<std::int32_t>(kLimitStep)) has_status_ = true;
  }
}

auto Session::next_datagram(MutableByteSpan control, TimeNs now) -> std::optional<Outgoing> {
  const auto made = [&](const Datagram& datagram, const SocketAddress& to) {
    return Outgoing{.bytes = control.first(encode(datagram, control)), .to = to};
  };
  if (const auto bye = std::exchange(bye_, std::nullopt)) {
    return made({.to = bye->to, .body = Bye{}}, bye->address);
  }
  if (own_ == 0) return std::nullopt;
  if (const auto answer = std::exchange(answer_, std::nullopt)) {
    return made({.to = answer->to, .body = hello()}, answer->address);
  }
  if (hello_at_ <= now) {
    hello_at_ = now + kHelloInterval;
    if (!is_confirmed_ || !is_up_) return made({.to = peer_, .body = hello()}, *address_);
    hello_at_ = kNever;
  }
  if (!is_up_) return std::nullopt;
  if (std::exchange(has_status_, false)) {
    sent_at_ = now;
    told_limits_ = limits_;
    return made({.to = peer_,
                 .body = Status{.next = expected_,
                                .is_gap = std::exchange(has_gap_, false),
                                .limits = limits_}},
                *address_);
  }
  const auto packet = window_.take_next(now);
  if (!packet) return std::nullopt;
  sent_at_ = now;
  return Outgoing{.bytes = *packet, .to = *address_};
}

TimeNs Session::deadline() const {
  TimeNs first = hello_at_;
  if (is_up_) {
    first = std::min({first, window_.deadline(), sent_at_ + kKeepAlive, heard_at_ + kSilenceMax});
  }
  return first;
}

auto Session::on_time(TimeNs now) -> Event {
  if (!is_up_) return {};
  if (elapsed(heard_at_, now) >= kSilenceMax) return end(now);
  if (elapsed(sent_at_, now) >= kKeepAlive) has_status_ = true;
  window_.on_time(now);
  return {};
}

}  // namespace verbatim::fabric::trunk
