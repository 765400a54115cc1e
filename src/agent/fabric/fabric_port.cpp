#include "agent/fabric/fabric_port.h"

#include <algorithm>
#include <cerrno>

#include <sys/socket.h>

#include "base/log.h"
#include "fabric/protocol/mad_address.h"
#include "wire/mad/cm_message.h"

namespace verbatim::agent {
namespace {

namespace protocol = fabric::protocol;

/// Of one call of `receive`: programs wait for their turn meanwhile.
constexpr int kDatagramsPerTurn = 64;

}  // namespace

Result<std::unique_ptr<FabricPort>> FabricPort::create(const FabricHost& host, OnMad on_mad) {
  std::unique_ptr<FabricPort> made(new FabricPort(host, std::move(on_mad)));
  const std::size_t count = host.network().infiniband.size();
  for (std::size_t port = 1; port <= count; ++port) {
    if (auto opened = made->open(static_cast<std::uint8_t>(port)); !opened)
      return std::unexpected(opened.error());
  }
  return made;
}

Result<void> FabricPort::open(std::uint8_t port) {
  auto connection = host_.open_port(port);
  if (!connection) return std::unexpected(connection.error());
  const protocol::RegisterAgent wanted{
      .management_class = raw(wire::MadClass::communication_management),
      .class_version = wire::kCmClassVersion,
      .methods = {std::uint64_t{1} << raw(wire::MadMethod::send), 0}};
  const auto registered = protocol::ask_beside<protocol::Registered>(connection->get(), wanted);
  if (!registered) return std::unexpected(registered.error());
  ports_.push_back({.connection = std::move(*connection), .agent = registered->agent});
  return {};
}

std::vector<int> FabricPort::fds() const {
  std::vector<int> fds;
  for (const Port& port : ports_) fds.push_back(port.connection.get());
  return fds;
}

/// The way back to the sender.
InfinibandPath FabricPort::path_to(const protocol::MadAddress& from, std::uint8_t own_port) const {
  const arena::InfinibandPort port = host_.network().infiniband[own_port - 1u];
  InfinibandPath path{.dlid = Lid{from.lid},
                      .slid = Lid{static_cast<std::uint16_t>(raw(port.lid) | from.path_bits)},
                      .service_level = from.service_level,
                      .port = own_port,
                      .grh = {}};
  if (from.has_grh != 0) {
    path.grh = {.source = arena::gid_of(port),
                .destination = {from.gid},
                .flow_label = from.flow_label,
                .traffic_class = from.traffic_class,
                .hop_limit = kHopLimitMax};  // As Linux: what is left of the sender's says nothing.
  }
  return path;
}

void FabricPort::receive() {
  for (std::size_t port = 1; port <= ports_.size(); ++port)
    receive(static_cast<std::uint8_t>(port));
}

void FabricPort::receive(std::uint8_t port) {
  const int connection = ports_[port - 1u].connection.get();
  for (int taken = 0; taken < kDatagramsPerTurn; ++taken) {
    const auto incoming = receiver_.receive(connection, MSG_DONTWAIT);
    if (!incoming) return;  // An end of the fabric is seen by who watches the host.
    const auto message = protocol::decode_mad(incoming->bytes, protocol::MessageType::received_mad);
    if (!message || message->inline_bytes.size() != wire::kMadBytes) continue;
    const protocol::MadRecord& record = message->record;
    if (record.status != 0) {
      log(LogLevel::info, "a datagram of the communication manager cannot be sent: {}",
          std::strerror(static_cast<int>(record.status)));
      continue;
    }
    on_mad_({.peer = path_to(record.address, port),
             .source_qpn = Qpn{record.address.qpn},
             .pkey_index = record.address.pkey_index,
             .bytes = message->inline_bytes.first<wire::kMadBytes>()});
  }
}

void FabricPort::send(std::uint32_t, const Path& path, wire::MadSpan mad) {
  const auto* const to = std::get_if<InfinibandPath>(&path);
  if (to == nullptr || to->port == 0 || to->port > ports_.size())
    return log(LogLevel::warn, "no way over InfiniBand: {}", path_text(path));
  const Port& port = ports_[to->port - 1u];
  const protocol::SentMad message{.record = {.agent = port.agent,
                                             .length = static_cast<std::uint32_t>(mad.size()),
                                             .address = protocol::management_address(*to)}};
  const auto sent = protocol::send_mad(port.connection.get(), message, mad, MSG_DONTWAIT);
  if (!sent) log(LogLevel::info, "a datagram of queue pair 1 is lost: {}", sent.error().text);
}

Result<void> FabricPort::add(const SocketAddress&, int) {
  return refuse(EOPNOTSUPP, "a host of a fabric has one address");
}

}  // namespace verbatim::agent
