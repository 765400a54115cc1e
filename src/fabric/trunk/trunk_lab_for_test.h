#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "fabric/trunk/session.h"

namespace verbatim::fabric::trunk {

inline const SocketAddress kAddresses[] = {SocketAddress::ipv4({10, 0, 0, 1}, 4800),
                                           SocketAddress::ipv4({10, 0, 0, 2}, 4800),
                                           SocketAddress::ipv4({10, 0, 0, 3}, 4800)};
inline constexpr Offer kOffer{
    .width = LinkWidth::x4, .speed = LinkSpeed::hdr, .width_enabled = 3, .speed_enabled = 7};

/// What a network does with a datagram, in parts of 100.
struct Weather {
  unsigned lost = 0;
  unsigned doubled = 0;
  unsigned late = 0;  // It comes after later ones.
};

/// Two sides of a trunk and the network between them, in virtual time. Packets are numbers.
class TrunkLab {
 public:
  struct Side {
    explicit Side(Session::Identity identity) : session(std::move(identity)) {}
    Session session;
    unsigned ups = 0;
    unsigned downs = 0;
    std::vector<std::uint32_t> received;
  };

  explicit TrunkLab(std::uint64_t seed = 1, Weather of = {})
      : weather(of),
        random_(seed),
        a({.random = std::mt19937_64(seed), .node_guid = 1, .port = 36, .peer = kAddresses[1]}),
        b({.random = std::mt19937_64(seed + 1), .node_guid = 2, .port = 1, .peer = std::nullopt}) {}

  void connect() {
    a.session.set_offer(kOffer, now);
    b.session.set_offer(kOffer, now);
    run(kSecond);
  }

  /// Until nothing happens within `time`.
  void run(TimeNs time) {
    const TimeNs until = now + time;
    for (;;) {
      take_datagrams();
      if (std::exchange(was_served_, false) &&
          std::min(a.session.deadline(), b.session.deadline()) <= now) {
        ++overdue;
        break;
      }
      const TimeNs next = std::min({a.session.deadline(), b.session.deadline(),
                                    in_flight_.empty() ? kNever : in_flight_.begin()->first});
      if (next > until) break;
      now = std::max(now, next);
      while (!in_flight_.empty() && in_flight_.begin()->first <= now) {
        const auto node = in_flight_.extract(in_flight_.begin());
        arrive(node.mapped());
      }
      note(a, a.session.on_time(now));
      note(b, b.session.on_time(now));
      was_served_ = true;
    }
    now = until;
  }

  static void send(Side& side, std::uint32_t number, bool is_management = false) {
    std::array<std::byte, 64> packet{};
    store_be(packet.data(), number);
    side.session.send(packet, is_management);
  }

  /// A datagram that the network delivers now, from whom it likes.
  void inject(Side& to, const Datagram& datagram, const SocketAddress& from) {
    std::array<std::byte, kDatagramBytesMax> bytes;
    const std::size_t size = encode(datagram, bytes);
    note(to, to.session.on_datagram(ByteSpan(bytes).first(size), from, now));
  }

  Weather weather;
  std::mt19937_64 random_;
  TimeNs now = kSecond;
  Side a;
  Side b;
  std::uint64_t sent = 0;     // Datagrams.
  std::uint64_t overdue = 0;  // Deadlines that were not later than now, after they were served.
  bool is_cut = false;
  std::vector<std::vector<std::byte>> seen;  // What went to `b`, as a listener has it.

 private:
  struct Flight {
    bool to_b;
    std::vector<std::byte> bytes;
  };

  bool happens(unsigned parts) { return random_() % 100 < parts; }

  void take_datagrams() {
    std::array<std::byte, kControlBytesMax> control;
    for (const bool from_a : {true, false}) {
      Session& session = (from_a ? a : b).session;
      while (const auto outgoing = session.next_datagram(control, now)) {
        ++sent;
        Flight flight{.to_b = from_a, .bytes = {outgoing->bytes.begin(), outgoing->bytes.end()}};
        if (from_a) seen.push_back(flight.bytes);
        if (is_cut || happens(weather.lost)) continue;
        const unsigned copies = happens(weather.doubled) ? 2 : 1;
        for (unsigned i = 0; i < copies; ++i) {
          const TimeNs delay = (happens(weather.late) ? 300 : 50) * kMicrosecond;
          in_flight_.emplace(now + delay, flight);
        }
      }
    }
  }

  void arrive(const Flight& flight) {
    Side& to = flight.to_b ? b : a;
    note(to, to.session.on_datagram(flight.bytes, kAddresses[flight.to_b ? 0 : 1], now));
  }

  void note(Side& side, const Session::Event& event) {
    if (std::holds_alternative<Session::Up>(event)) ++side.ups;
    if (std::holds_alternative<Session::Down>(event)) ++side.downs;
    if (const auto* packet = std::get_if<Packet>(&event)) {
      side.received.push_back(load_be<std::uint32_t>(packet->bytes.data()));
    }
  }

  bool was_served_ = false;
  std::multimap<TimeNs, Flight> in_flight_;
};

}  // namespace verbatim::fabric::trunk
