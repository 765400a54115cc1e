#pragma once

#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cm/ib/connection_manager.h"

/// Two connection managers, or one against a scripted peer; tests are ladders of messages.
namespace verbatim::cm {

inline SocketAddress address_a() { return SocketAddress::ipv4({10, 0, 0, 1}); }
inline SocketAddress address_b() { return SocketAddress::ipv4({10, 0, 0, 2}); }
inline constexpr std::uint16_t kPort = 7174;
inline constexpr std::uint64_t kGuidA = 0xa;
inline constexpr std::uint64_t kGuidB = 0xb;

inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}
inline bool begins_with(const PrivateData& data, std::string_view text) {
  return data.size() >= text.size() && std::memcmp(data.begin(), text.data(), text.size()) == 0;
}

/// Takes the effects of type `Kind` out of `effects`, in order.
template <typename Kind>
std::vector<Kind> take(Effects& effects) {
  std::vector<Kind> taken;
  std::erase_if(effects, [&taken](Effect& effect) {
    if (!std::holds_alternative<Kind>(effect)) return false;
    taken.push_back(std::get<Kind>(std::move(effect)));
    return true;
  });
  return taken;
}

/// A program: its engine and the effects.
struct Side {
  Side(const SocketAddress& where, std::uint64_t guid, std::uint16_t slot)
      : address(where), engine({.slot = slot, .node_guid = guid, .seed = guid * 77}) {}

  void receive(const SendMad& mad, TimeNs now) {
    engine.on_mad(mad.bytes, roce_path(mad.source), address_of(mad.destination), now, effects);
  }
  /// Takes the effect of this type; there must be exactly one.
  template <typename Kind>
  std::optional<Kind> only() {
    auto taken = take<Kind>(effects);
    if (taken.size() != 1) return std::nullopt;
    return std::move(taken.front());
  }

  SocketAddress address;
  ConnectionManager engine;
  Effects effects;
};

/// A clock and two sides; the test delivers or loses each MAD.
struct Bench {
  Side a{address_a(), kGuidA, 3};
  Side b{address_b(), kGuidB, 5};
  TimeNs now = 1'000 * kSecond;

  static ConnectParameters to_b(std::uint16_t port = kPort) {
    ConnectParameters parameters;
    parameters.service = wire::service_id_of(PortSpace::tcp, port);
    parameters.path = {.local = address_a(),
                       .remote = roce_path(address_b()),
                       .local_gid = gid_of(address_a()),
                       .remote_gid = gid_of(address_b()),
                       .mtu = Mtu::k4096,
                       .flow_label = 0x12345};
    parameters.ends = {address_a().with_port(5555), address_b().with_port(port)};
    parameters.offer = {.qpn = Qpn(0xa1),
                        .starting_psn = Psn(0xa2a2a2),
                        .responder_resources = 3,
                        .initiator_depth = 5};
    return parameters;
  }
  static AcceptParameters yes(Qpn qpn = Qpn(0xb1)) {
    return {.offer = {.qpn = qpn,
                      .starting_psn = Psn(0xb2b2b2),
                      .responder_resources = 4,
                      .initiator_depth = 2}};
  }
  void listen() {
    ASSERT_TRUE(b.engine.listen({.service = wire::service_id_of(PortSpace::tcp, kPort),
                                 .address = SocketAddress::ipv4({0, 0, 0, 0})}));
  }

  /// The MAD that `from` wants to send; there must be exactly one.
  std::optional<SendMad> mad_of(Side& from) { return from.only<SendMad>(); }
  /// Delivers MADs until none is left.
  void deliver() {
    for (bool sent = true; sent;) {
      sent = false;
      for (const SendMad& mad : take<SendMad>(a.effects)) b.receive(mad, now), sent = true;
      for (const SendMad& mad : take<SendMad>(b.effects)) a.receive(mad, now), sent = true;
    }
  }
  /// Advances the clock and runs both sides' timers; delivers MADs if `through`.
  void pass(TimeNs span, bool through = true) {
    const TimeNs until = now + span;
    while (std::min(a.engine.deadline(), b.engine.deadline()) <= until) {
      now = std::max(now, std::min(a.engine.deadline(), b.engine.deadline()));
      a.engine.on_timeout(now, a.effects);
      b.engine.on_timeout(now, b.effects);
      if (through) {
        deliver();
      } else {
        take<SendMad>(a.effects), take<SendMad>(b.effects);
      }
    }
    now = until;
  }
  /// Decodes the message of a MAD.
  template <typename Message>
  static std::optional<Message> message(const std::optional<SendMad>& mad) {
    if (!mad) return std::nullopt;
    const auto decoded = wire::decode_cm(mad->bytes);
    if (!decoded || !std::holds_alternative<Message>(decoded->message)) return std::nullopt;
    return std::get<Message>(decoded->message);
  }

  struct Ids {
    ConnectionId a{};
    ConnectionId b{};
  };
  /// Delivers REQ and REP; A then has its `ConnectResponse`.
  Ids half_connected() {
    Ids ids;
    ids.a = *a.engine.connect(to_b(), now, a.effects);
    deliver();
    ids.b = b.only<ConnectRequest>()->connection;
    EXPECT_TRUE(b.engine.accept(ids.b, yes(), now, b.effects));
    deliver();
    EXPECT_TRUE(a.only<ConnectResponse>());
    return ids;
  }
  Ids connected() {
    const Ids ids = half_connected();
    EXPECT_TRUE(a.engine.establish(ids.a, {}, now, a.effects));
    deliver();
    EXPECT_TRUE(b.only<Established>());
    return ids;
  }
};

}  // namespace verbatim::cm
