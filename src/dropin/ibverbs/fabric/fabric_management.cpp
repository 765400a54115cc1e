#include "dropin/ibverbs/fabric/fabric_management.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <sys/socket.h>

#include "base/log.h"
#include "fabric/protocol/fabric_folder.h"
#include "fabric/protocol/mad_address.h"
#include "wire/mad/cm_message.h"
#include "wire/subnet/administration_packet.h"

namespace verbatim::dropin {
namespace {

namespace protocol = fabric::protocol;

constexpr std::uint32_t kTries = 10;  // As Linux, which divides the time-out by them.

Result<UniqueFd> connect_to(const arena::Node& node) {
  const auto folder = protocol::FabricFolder::of(std::string(node.fabric.view()));
  if (!folder) return std::unexpected(folder.error());
  return folder->connect();
}

/// Without methods: requests of the class go to other agents.
Result<std::uint32_t> register_agent(int port, wire::MadClass management_class,
                                     std::uint8_t version) {
  const auto registered = protocol::ask_beside<protocol::Registered>(
      port,
      protocol::RegisterAgent{.management_class = raw(management_class), .class_version = version});
  if (!registered) return std::unexpected(registered.error());
  return registered->agent;
}

}  // namespace

Result<std::unique_ptr<FabricManagement>> FabricManagement::open(const arena::Node& node) {
  std::vector<Port> ports;
  for (std::size_t number = 1; number <= node.network.infiniband.size(); ++number) {
    auto port = open(node, static_cast<std::uint8_t>(number));
    if (!port) return std::unexpected(port.error());
    ports.push_back(std::move(*port));
  }
  return std::unique_ptr<FabricManagement>(new FabricManagement(std::move(ports)));
}

Result<FabricManagement::Port> FabricManagement::open(const arena::Node& node,
                                                      std::uint8_t number) {
  auto connection = connect_to(node);
  if (!connection) return std::unexpected(connection.error());
  protocol::OpenPort port{.port = number};
  protocol::put_text(port.host, fmt::format("{:#x}", node.guid));
  const auto opened = protocol::ask<protocol::Opened>(connection->get(), port);
  if (!opened) return std::unexpected(opened.error());
  const auto cm = register_agent(connection->get(), wire::MadClass::communication_management,
                                 wire::kCmClassVersion);
  if (!cm) return std::unexpected(cm.error());
  const auto sa = register_agent(connection->get(), wire::MadClass::subnet_administration,
                                 wire::AdministrationPacket::kClassVersion);
  if (!sa) return std::unexpected(sa.error());
  return Port{.connection = std::move(*connection), .cm = *cm, .sa = *sa};
}

Result<void> FabricManagement::start(adapter::Progress& progress) {
  for (const Port& port : ports_) {
    auto watched = progress.watch(port.connection.get(),
                                  [this, &progress, &port] { receive(progress, port); });
    if (!watched) return watched;
  }
  return {};
}

Result<FabricManagement::Port*> FabricManagement::at(std::uint8_t number) {
  if (number != 0 && number <= ports_.size()) return &ports_[number - 1u];
  return refuse(EINVAL, fmt::format("the host has no port {}", number));
}

Result<void> FabricManagement::send_cm(const InfinibandPath& path, wire::MadSpan mad) {
  const auto port = at(path.port);
  if (!port) return std::unexpected(port.error());
  const protocol::SentMad message{.record = {.agent = (*port)->cm,
                                             .length = static_cast<std::uint32_t>(mad.size()),
                                             .address = protocol::management_address(path)}};
  return protocol::send_mad((*port)->connection.get(), message, mad, MSG_DONTWAIT);
}

Result<void> FabricManagement::ask(const arena::Node& node, std::uint8_t number,
                                   const wire::AdministrationPacket& question, TimeNs timeout,
                                   OnAnswer on_answer) {
  const auto by = at(number);
  if (!by) return std::unexpected(by.error());
  const arena::InfinibandPort& port = node.network.infiniband[number - 1u];
  if (port.sm_lid == Lid{}) return refuse(EAGAIN, "the port has no subnet manager yet");
  const auto query = [&] {
    const std::lock_guard guard(lock_);
    return queries_.add(question, std::move(on_answer));
  }();
  if (!query) return std::unexpected(query.error());
  const auto each_ms = static_cast<std::uint32_t>(timeout / kMillisecond / kTries);
  const protocol::SentMad message{
      .record = {.agent = (*by)->sa,
                 .timeout_ms = std::max(each_ms, std::uint32_t{1}),
                 .retries = kTries - 1,
                 .length = wire::kMadBytes,
                 .address = protocol::management_address({.dlid = port.sm_lid,
                                                          .slid = port.lid,
                                                          .service_level = port.sm_service_level,
                                                          .grh = std::nullopt})}};
  auto sent = protocol::send_mad((*by)->connection.get(), message, query->datagram, MSG_DONTWAIT);
  if (sent) return sent;
  const std::lock_guard guard(lock_);
  queries_.remove(query->number);
  return sent;
}

/// Called by the background thread.
void FabricManagement::receive(adapter::Progress& progress, const Port& port) {
  for (;;) {
    const auto incoming = receiver_.receive(port.connection.get(), MSG_DONTWAIT);
    if (!incoming && incoming.error().code == EAGAIN) return;
    if (!incoming) {
      progress.unwatch(port.connection.get());
      return end();
    }
    on_message(port, incoming->bytes);
  }
}

void FabricManagement::on_message(const Port& port, ByteSpan bytes) {
  if (const auto member = protocol::decode<protocol::MulticastMember>(bytes)) {
    return on_member(*member);
  }
  const auto mad = protocol::decode_mad(bytes, protocol::MessageType::received_mad);
  if (mad) on_mad(port, *mad);
}

Result<void> FabricManagement::join_group(std::uint32_t membership, std::uint8_t number,
                                          const wire::MulticastRecord& wanted,
                                          std::uint64_t components, OnGroup on_group) {
  const auto port = at(number);
  if (!port) return std::unexpected(port.error());
  protocol::JoinMulticast request{.membership = membership, .components = components};
  wire::encode(wanted, std::as_writable_bytes(std::span(request.record)));
  {
    const std::lock_guard guard(lock_);
    groups_.emplace(membership, Group{.port = number, .on_group = std::move(on_group)});
  }
  auto sent = protocol::send((*port)->connection.get(), request, -1, MSG_DONTWAIT);
  if (sent) return sent;
  const std::lock_guard guard(lock_);
  groups_.erase(membership);
  return sent;
}

void FabricManagement::leave_group(std::uint32_t membership) {
  std::uint8_t port = 0;
  {
    const std::lock_guard guard(lock_);
    const auto found = groups_.find(membership);
    if (found == groups_.end()) return;
    port = found->second.port;
    groups_.erase(found);
  }
  const protocol::LeaveMulticast request{.membership = membership};
  if (const auto sent = protocol::send(ports_[port - 1u].connection.get(), request); !sent) {
    log(LogLevel::info, "a multicast group is not left: {}", sent.error().text);
  }
}

void FabricManagement::on_member(const protocol::MulticastMember& member) {
  OnGroup on_group;
  {
    const std::lock_guard guard(lock_);
    const auto found = groups_.find(member.membership);
    if (found == groups_.end()) return;  // It has left meanwhile.
    on_group = found->second.on_group;
    if (member.error != 0) groups_.erase(found);
  }
  if (member.error != 0) return on_group(refuse(member.error, std::strerror(member.error)));
  on_group(wire::decode<wire::MulticastRecord>(std::as_bytes(std::span(member.record))));
}

void FabricManagement::on_mad(const Port& port, const protocol::MadMessage& message) {
  if (message.record.agent != port.sa) return;
  const auto answer = [&] {
    const std::lock_guard guard(lock_);
    return queries_.take(message.inline_bytes, protocol::answered(message.record));
  }();
  if (answer) answer->on_answer(answer->packet);
}

void FabricManagement::end() {
  std::vector<OnAnswer> left;
  std::map<std::uint32_t, Group> groups;
  {
    const std::lock_guard guard(lock_);
    left = queries_.take_all();
    groups.swap(groups_);
  }
  for (const OnAnswer& on_answer : left) on_answer(refuse(ENETDOWN, "the fabric has ended"));
  for (const auto& [membership, group] : groups) {
    group.on_group(refuse(ENETDOWN, "the fabric has ended"));
  }
}

Result<protocol::AddressAnswer> ask_interfaces(const arena::Node& node, const SocketAddress& source,
                                               const SocketAddress& destination) {
  const auto folder = protocol::FabricFolder::of(std::string(node.fabric.view()));
  if (!folder) return std::unexpected(folder.error());
  return protocol::ask_interfaces(*folder, node.guid, {source, destination});
}

Result<Gid> find_gid(const arena::Node& node, const SocketAddress& address) {
  const auto connection = connect_to(node);
  if (!connection) return std::unexpected(connection.error());
  const auto found = protocol::ask<protocol::HostGid>(
      connection->get(), protocol::GidRequest{.address = address.ipv4_bytes()});
  if (!found) return std::unexpected(found.error());
  return Gid{found->gid};
}

}  // namespace verbatim::dropin
