#include "cli/fabric/ask_service_levels.h"

#include <cerrno>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <poll.h>

#include "base/bytes.h"
#include "cli/fabric/status.h"
#include "fabric/protocol/channel.h"
#include "fabric/protocol/mad_address.h"
#include "wire/mad/rmpp.h"
#include "wire/subnet/administration_packet.h"
#include "wire/subnet/path_record.h"

namespace verbatim::cli {
namespace {

namespace protocol = fabric::protocol;

constexpr std::uint32_t kTimeoutMs = 5000;
constexpr std::uint32_t kRetries = 1;
constexpr TimeNs kBetweenReports = 5 * kSecond;

Gid gid_of(const protocol::PortDescription& port) {
  Gid gid;
  const auto bytes = std::as_writable_bytes(std::span(gid.bytes));
  store_be(&bytes[0], port.gid_prefix);
  store_be(&bytes[8], port.guid);
  return gid;
}

/// Sends the question through the port, which is open, and waits for the answer.
Result<wire::PathTable> ask(int fd, std::uint32_t agent, const protocol::PortDescription& port) {
  std::array<std::byte, wire::kMadBytes> query;
  encode(wire::PathTableQuery{.transaction = 1, .source = gid_of(port)}, query);
  const protocol::SentMad message{
      .record = {.agent = agent,
                 .timeout_ms = kTimeoutMs,
                 .retries = kRetries,
                 .length = wire::kMadBytes,
                 .address = protocol::management_address({.dlid = Lid{port.sm_lid},
                                                          .slid = Lid{port.lid},
                                                          .service_level = port.sm_service_level,
                                                          .grh = std::nullopt})}};
  if (auto sent = send_mad(fd, message, query); !sent) return std::unexpected(sent.error());
  pollfd waiting{fd, POLLIN, 0};  // Longer than the daemon, which tells that none has come.
  poll(&waiting, 1, static_cast<int>(kTimeoutMs * (kRetries + 2)));
  protocol::Receiver receiver;
  const auto incoming = receiver.receive(fd);
  if (!incoming) return std::unexpected(incoming.error());
  const auto mad = protocol::decode_mad(incoming->bytes, protocol::MessageType::received_mad);
  if (!mad) return std::unexpected(mad.error());
  if (auto sent = protocol::answered(mad->record); !sent) return std::unexpected(sent.error());
  const auto answer = protocol::datagram_of(*mad, incoming->descriptor);
  if (!answer) return std::unexpected(answer.error());
  auto table = wire::decode_path_table(*answer);
  if (!table) return refuse(EPROTO, wire::describe(table.error()));
  if (table->status != 0) {
    return refuse(EINVAL, fmt::format("the subnet administrator refuses to list paths "
                                      "(status {:#06x})",
                                      table->status));
  }
  return std::move(*table);
}

/// All paths from a port of the host with this GUID.
Result<wire::PathTable> paths_from(const std::string& fabric_name, std::uint64_t guid,
                                   std::uint8_t number) {
  const auto connection = connect_to_fabric(fabric_name);
  if (!connection) return std::unexpected(connection.error());
  protocol::HostName host;
  protocol::put_text(host, fmt::format("{:#x}", guid));
  const int fd = connection->get();
  const auto facts =
      protocol::ask<protocol::HostDescription>(fd, protocol::HostRequest{.host = host});
  if (!facts) return std::unexpected(facts.error());
  const auto opened =
      protocol::ask<protocol::Opened>(fd, protocol::OpenPort{.host = host, .port = number});
  if (!opened) return std::unexpected(opened.error());
  const protocol::PortDescription& port = facts->ports[number - 1];
  if (port.sm_lid == 0) return refuse(ENETDOWN, "there is no subnet manager");
  const auto agent = protocol::ask_beside<protocol::Registered>(
      fd, protocol::RegisterAgent{.management_class = raw(wire::MadClass::subnet_administration),
                                  .class_version = wire::AdministrationPacket::kClassVersion,
                                  .rmpp_version = wire::RmppHeader::kVersion});
  if (!agent) return std::unexpected(agent.error());
  return ask(fd, agent->agent, port);
}

fabric::LevelsByLid by_lid(const wire::PathTable& paths) {
  fabric::LevelsByLid levels;
  for (const wire::PathRecord& path : paths.records) {
    if (levels.size() <= path.destination_lid) levels.resize(path.destination_lid + 1U);
    levels[path.destination_lid] |= static_cast<fabric::LevelSet>(1U << path.service_level);
  }
  return levels;
}

/// Of hosts.
std::vector<fabric::PortPlace> ports_that_send(const fabric::Snapshot& snapshot) {
  const fabric::Cables cables(snapshot);
  std::vector<fabric::PortPlace> ports;
  for (const fabric::Direction source : fabric::sources(snapshot)) {
    const fabric::PortPlace port = cables.start(source);
    if (snapshot.nodes[port.node].kind == fabric::NodeKind::adapter) ports.push_back(port);
  }
  return ports;
}

}  // namespace

AskedServiceLevels ask_service_levels(const std::string& fabric_name,
                                      const fabric::Snapshot& snapshot, TimeNs deadline) {
  AskedServiceLevels asked;
  const fabric::Subnets subnets = ports_by_subnet(snapshot);
  const auto ports = ports_that_send(snapshot);
  std::set<fabric::PortPlace> without_answers;  // Subnets.
  std::size_t not_asked = 0;
  TimeNs report_at = monotonic_now() + kBetweenReports;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const fabric::PortPlace subnet = subnets.of(ports[i]);
    if (without_answers.contains(subnet)) continue;
    const TimeNs now = monotonic_now();
    if (now > deadline) {
      asked.levels.by_port[ports[i]] = {};
      ++not_asked;
      continue;
    }
    if (now > report_at) {
      fmt::print(stderr, "verbatim fabric check: the paths from {} of {} ports are known\n", i,
                 ports.size());
      report_at = now + kBetweenReports;
    }
    const auto paths = paths_from(fabric_name, snapshot.nodes[ports[i].node].guid, ports[i].port);
    if (paths) {
      asked.levels.by_port[ports[i]] = by_lid(*paths);
      continue;
    }
    without_answers.insert(subnet);
    asked.remarks.push_back(
        fmt::format("{}: {}: packets of its subnet are looked at at service "
                    "level 0",
                    text_of(snapshot, ports[i]), paths.error().text));
  }
  if (not_asked != 0) {
    asked.remarks.push_back(fmt::format(
        "that took too long: no credit loops are looked for among packets from {} of {} ports",
        not_asked, ports.size()));
  }
  return asked;
}

}  // namespace verbatim::cli
