#include "fabric/daemon/trunks/trunks.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/random.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/overloaded.h"
#include "fabric/daemon/status.h"
#include "fabric/keeper/management_packet.h"
#include "fabric/management/training.h"

namespace verbatim::fabric {
namespace {

std::uint64_t random_number() {
  std::uint64_t number = 0;
  VERBATIM_ASSERT(getrandom(&number, sizeof number, 0) == sizeof number);
  return number;
}

/// What the peer's port says of itself when a link trains.
wire::PortInfo port_of(const trunk::Offer& offer) {
  wire::PortInfo port;
  port.physical_state = wire::PhysicalState::polling;
  port.width_enabled = offer.width_enabled;
  port.speed_enabled = offer.speed_enabled;
  port.speed_extended_enabled = offer.speed_extended_enabled;
  port.speed_extended2_enabled = offer.speed_extended2_enabled;
  return port;
}

/// The cable is as good as its worse side.
Rate lesser(Rate rate, const trunk::Offer& peer) {
  return {.width = lanes_of(peer.width) < lanes_of(rate.width) ? peer.width : rate.width,
          .speed = std::min(rate.speed, peer.speed)};
}

}  // namespace

Trunks::Trunks(ManagementNet& net, Keeper& keeper) : net_(net), keeper_(keeper) {
  net_.set_trunk_carrier(*this);
}

Result<std::array<int, 2>> Trunks::add(const Options& options, TimeNs now) {
  if (!options.listen && !options.peer) {
    return refuse(EINVAL, "a trunk needs an address: its own, its peer's, or both");
  }
  const bool is_ipv6 = (options.listen ? options.listen : options.peer)->is_ipv6();
  if (options.peer && options.peer->is_ipv6() != is_ipv6) {
    return refuse(EINVAL, "both addresses of a trunk are IPv4, or both are IPv6");
  }
  const SocketAddress any = is_ipv6 ? SocketAddress::ipv6({}) : SocketAddress::ipv4({});
  auto socket = TrunkSocket::open(options.listen.value_or(any));
  if (!socket) return std::unexpected(std::move(socket.error()));
  auto end = keeper_.plug_trunk(options.port);
  if (!end) return std::unexpected(std::move(end.error()));
  const std::array descriptors{socket->fd(), (*end)->bell()};
  const auto [place, is_new] = trunks_.try_emplace(
      options.port,
      Trunk{.port = options.port,
            .rate = options.rate,
            .socket = std::move(*socket),
            .end = std::move(*end),
            .session = trunk::Session({.random = random_number,
                                       .node_guid = net_.topology().nodes[options.port.node].guid,
                                       .port = options.port.port,
                                       .peer = options.peer})});
  VERBATIM_ASSERT(is_new);  // The port would have a cable else.
  net_.add_trunk(options.port, options.rate, now);
  seek(place->second, now);
  return descriptors;
}

Result<void> Trunks::set_cable(PortPlace port, bool is_in, TimeNs now) {
  const auto found = trunks_.find(port);
  if (found == trunks_.end()) return refuse(ENODEV, "the port has no trunk");
  Trunk& trunk = found->second;
  if (std::exchange(trunk.has_cable, is_in) == is_in) return {};
  if (!is_in) on_event(trunk, trunk::Session::Down{}, now);
  seek(trunk, now);
  return {};
}

bool Trunks::note_ready(int fd) {
  for (auto& [port, trunk] : trunks_) {
    if (fd == trunk.socket.fd()) return trunk.is_readable = true;
    if (fd != trunk.end->bell()) continue;
    trunk.end->on_bell();
    return true;
  }
  return false;
}

void Trunks::receive(TimeNs now) {
  for (auto& [port, trunk] : trunks_) {
    trunk.end->end_sleep();
    if (std::exchange(trunk.is_readable, false)) receive(trunk, now);
  }
}

void Trunks::receive(Trunk& trunk, TimeNs now) {
  trunk.socket.receive([&](ByteSpan bytes, const SocketAddress& from) {
    on_event(trunk, trunk.session.on_datagram(bytes, from, now), now);
  });
  if (trunk.session.is_up()) trunk.end->set_peer_limits(trunk.session.peer_limits());
}

void Trunks::send(TimeNs now) {
  for (auto& [port, trunk] : trunks_) send(trunk, now);
}

void Trunks::send(Trunk& trunk, TimeNs now) {
  on_event(trunk, trunk.session.on_time(now), now);
  trunk.end->push();
  if (trunk.session.is_up()) trunk.session.set_limits(trunk.end->limits());
  while (const std::uint32_t room = trunk.session.room()) {
    const std::size_t taken = trunk.end->take(fabric_now(), room, [&](ByteSpan packet) {
      trunk.session.send(packet, /*is_management=*/false);
    });
    if (taken == 0) break;
  }
  trunk.socket.send_all(
      [&](MutableByteSpan control) { return trunk.session.next_datagram(control, now); });
}

bool Trunks::begin_sleep() {
  bool may_sleep = true;
  for (auto& [port, trunk] : trunks_) {
    if (trunk.session.is_up()) may_sleep &= trunk.end->begin_sleep(trunk.session.room() != 0);
  }
  return may_sleep;
}

TimeNs Trunks::deadline() const {
  TimeNs first = kNever;
  for (const auto& [port, trunk] : trunks_) first = std::min(first, trunk.session.deadline());
  return first;
}

void Trunks::on_event(Trunk& trunk, const trunk::Session::Event& event, TimeNs now) {
  std::visit(Overloaded{[](std::monostate) {},
                        [&](const trunk::Session::Up& up) { on_up(trunk, up.peer, now); },
                        [&](const trunk::Session::Down&) {
                          net_.set_trunk_link(trunk.port, std::nullopt, now);
                          trunk.end->end_session();
                          seek(trunk, now);
                        },
                        [&](const trunk::Packet& packet) { on_packet(trunk, packet, now); }},
             event);
}

void Trunks::on_up(Trunk& trunk, const trunk::Hello& peer, TimeNs now) {
  trunk.end->begin_session();
  const auto rate = rate_with(trunk, peer);
  trunk.fault = rate ? "" : rate.error().text;
  if (rate) return net_.set_trunk_link(trunk.port, *rate, now);
  log(LogLevel::warn, "a trunk to {} does not come up: {}", *trunk.session.peer(), trunk.fault);
}

/// A manager would take two nodes of one GUID for one.
Result<Rate> Trunks::rate_with(const Trunk& trunk, const trunk::Hello& peer) const {
  if (peer.node_guid == net_.topology().nodes[trunk.port.node].guid) {
    return refuse(EEXIST, fmt::format("both sides have the node GUID {:#x}: 'verbatim fabric "
                                      "generate --guid-base N' makes others",
                                      peer.node_guid));
  }
  const auto rate =
      trained_rate(lesser(trunk.rate, peer.offer), net_.port_info(trunk.port), port_of(peer.offer));
  if (!rate) return refuse(EINVAL, "the ports have no rate in common");
  return *rate;
}

void Trunks::on_packet(Trunk& trunk, const trunk::Packet& packet, TimeNs now) {
  if (!packet.is_management) {
    trunk.end->post(packet.bytes);
    return;
  }
  if (const auto datagram = datagram_of(packet.bytes)) net_.receive(trunk.port, *datagram, now);
}

/// Looks for the peer, if the cable is in and the port does.
void Trunks::seek(Trunk& trunk, TimeNs now) {
  if (net_.is_trunk_up(trunk.port)) return;
  const auto offer = offer_of(trunk);
  if (!trunk.session.is_up() && offer == trunk.session.offer()) return;
  trunk.session.set_offer(offer, now);
}

std::optional<trunk::Offer> Trunks::offer_of(const Trunk& trunk) const {
  const wire::PortInfo& port = net_.port_info(trunk.port);
  if (!trunk.has_cable || port.physical_state != wire::PhysicalState::polling) return std::nullopt;
  return trunk::Offer{.width = trunk.rate.width,
                      .speed = trunk.rate.speed,
                      .width_enabled = port.width_enabled,
                      .speed_enabled = port.speed_enabled,
                      .speed_extended_enabled = port.speed_extended_enabled,
                      .speed_extended2_enabled = port.speed_extended2_enabled};
}

void Trunks::on_departure(PortPlace port, const ManagementDatagram& datagram) {
  trunk::Session& session = trunks_.at(port).session;
  if (session.has_room(/*is_management=*/true)) {
    session.send(packet_of(datagram).bytes(), /*is_management=*/true);
  } else {
    log(LogLevel::debug, "a trunk has no room for a management datagram: dropped");
  }
}

/// Its link may have been taken down by a manager.
void Trunks::on_trunk_changed(PortPlace port) {
  const auto found = trunks_.find(port);
  if (found == trunks_.end()) return;  // It is being added.
  if (net_.is_trunk_up(port)) return;
  Trunk& trunk = found->second;
  if (trunk.session.is_up()) trunk.end->end_session();
  seek(trunk, monotonic_now());
}

nlohmann::ordered_json Trunks::status() const {
  auto trunks = nlohmann::ordered_json::array();
  for (const auto& [port, trunk] : trunks_) {
    const auto& peer = trunk.session.peer();
    trunks.push_back({{"node", printable(net_.topology().nodes[port.node].name)},
                      {"port", port.port},
                      {"state", state_name(net_.port_info(port).state)},
                      {"rate", rate_text(trunk.rate.width, trunk.rate.speed)},
                      {"local", trunk.socket.local().text()},
                      {"peer", peer ? peer->text() : ""},
                      {"is_connected", trunk.session.is_up()},
                      {"fault", trunk.session.is_up() ? trunk.fault : ""},
                      {"repeated", trunk.session.repeated()},
                      {"missing", trunk.session.counts().missing},
                      {"damaged", trunk.session.counts().damaged}});
  }
  return trunks;
}

}  // namespace verbatim::fabric
