#include <cerrno>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fabric/daemon/hosts/host_facts.h"
#include "fabric/daemon/link_changes.h"
#include "fabric/daemon/server.h"
#include "fabric/daemon/status.h"
#include "fabric/daemon/tables.h"
#include "fabric/daemon/trunks/trunk_request.h"

/// What programs and commands ask for.
namespace verbatim::fabric {
namespace {

using protocol::MessageType;
using protocol::text_of;

protocol::Refusal refusal_of(const Error& error) {
  protocol::Refusal refusal;
  refusal.code = error.code;
  protocol::put_text(refusal.text, error.text);
  return refusal;
}

/// Calls `serve` with the message as a `Request`.
template <typename Request, typename Serve>
Result<void> with(const protocol::Incoming& incoming, Serve serve) {
  const auto request = protocol::decode<Request>(incoming.bytes);
  if (!request) return std::unexpected(request.error());
  return serve(*request);
}

template <typename Answer>
Result<void> reply(int fd, const Answer& message, int descriptor = -1) {
  return protocol::send(fd, message, descriptor, MSG_DONTWAIT);
}

/// Becomes readable when the process ends that has made the connection. None: it is in another pid
/// namespace, or has ended.
UniqueFd process_of(int connection) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.pid <= 0) {
    return {};
  }
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)));
}

wire::BadKeyDetails details_of(const protocol::BadKeyReport& report) {
  return {.source_lid = Lid{report.source_lid},
          .destination_lid = Lid{report.destination_lid},
          .key = report.key,
          .service_level = static_cast<std::uint8_t>(report.service_level % 16),
          .source_qpn = Qpn(report.source_qpn).value(),
          .destination_qpn = Qpn(report.destination_qpn).value(),
          .source_gid = report.source_gid,
          .destination_gid = report.destination_gid};
}

}  // namespace

Result<void> Server::on_message(Connection& connection, const protocol::Incoming& incoming) {
  if (connection.port) return on_port_message(connection, incoming);
  if (connection.end != 0) return on_end_message(connection, incoming);
  const auto type = protocol::type_of(incoming.bytes);
  if (!type) return std::unexpected(type.error());
  switch (*type) {
    case MessageType::host_request:
      return with<protocol::HostRequest>(incoming, [&](const auto& request) -> Result<void> {
        const auto host = find_host(net_.topology(), text_of(request.host));
        if (!host) return std::unexpected(host.error());
        return reply(connection.fd.get(), facts_of(*host));
      });
    case MessageType::watch_host:
      return with<protocol::WatchHost>(
          incoming, [&](const auto& request) { return on_watch(connection, request); });
    case MessageType::gid_request:
      return with<protocol::GidRequest>(
          incoming, [&](const auto& request) { return on_gid(connection, request); });
    case MessageType::view_request:
      return with<protocol::ViewRequest>(
          incoming, [&](const auto& request) { return on_view(connection, request); });
    case MessageType::issm_request:
      return with<protocol::IssmRequest>(
          incoming, [&](const auto& request) { return on_issm(connection, request); });
    case MessageType::open_port:
      return with<protocol::OpenPort>(
          incoming, [&](const auto& request) { return on_open(connection, request); });
    case MessageType::attach_data:
      return with<protocol::AttachData>(
          incoming, [&](const auto& request) { return on_attach(connection, request); });
    case MessageType::status_request:
      return on_status(connection);
    case MessageType::tables_request:
      return reply_text(connection, tables_of(net_, keeper_->audit()));
    case MessageType::link_request:
      return with<protocol::LinkRequest>(
          incoming, [&](const auto& request) { return on_link(connection, request); });
    case MessageType::trunk_request:
      return with<protocol::TrunkRequest>(
          incoming, [&](const auto& request) { return on_trunk(connection, request); });
    case MessageType::capture_request:
      return with<protocol::CaptureRequest>(
          incoming, [&](const auto& request) { return on_capture(connection, request); });
    case MessageType::stop_request:
      begin_to_stop();
      return {};
    default:
      return refuse(EPROTO, fmt::format("there is no request {:#x}", static_cast<unsigned>(*type)));
  }
}

Result<PortPlace> Server::find_port(const protocol::HostName& host, unsigned port) const {
  const auto found = find_host(net_.topology(), text_of(host));
  if (!found) return std::unexpected(found.error());
  if (port == 0 || port > net_.topology().nodes[*found].ports || port > protocol::kPortsMax) {
    return refuse(ENODEV, fmt::format("host '{}' has no port {}", text_of(host), port));
  }
  return PortPlace{*found, static_cast<std::uint8_t>(port)};
}

Result<void> Server::on_open(Connection& connection, const protocol::OpenPort& request) {
  const auto port = find_port(request.host, request.port);
  if (!port) return std::unexpected(port.error());
  connection.port = *port;
  return reply(connection.fd.get(), protocol::Opened{});
}

/// A connection may live longer than the program, in a child that it has forked: so the process is
/// watched, too, where it can be seen.
Result<void> Server::on_attach(Connection& connection, const protocol::AttachData& request) {
  const auto port = find_port(request.host, request.port);
  if (!port) return std::unexpected(port.error());
  UniqueFd process = process_of(connection.fd.get());
  if (process) {
    if (auto watched = watch(process.get(), EPOLLIN); !watched) return watched;
  }
  const auto end = keeper_->attach(*port, request.qpn_range);
  if (!end) return std::unexpected(end.error());
  connection.end = *end;
  connection.end_port = *port;
  connection.process = std::move(process);
  if (connection.process) {
    connections_of_processes_[connection.process.get()] = connection.fd.get();
  }
  return reply(connection.fd.get(), protocol::DataAttached{.end = *end}, keeper_->image());
}

Result<void> Server::on_end_message(Connection& connection, const protocol::Incoming& incoming) {
  if (protocol::type_of(incoming.bytes) == MessageType::bad_key_report) {
    return with<protocol::BadKeyReport>(incoming, [&](const auto& report) -> Result<void> {
      const auto trap =
          report.is_q_key != 0 ? wire::TrapNumber::bad_q_key : wire::TrapNumber::bad_p_key;
      net_.on_bad_key(connection.end_port, trap, details_of(report), report.count, monotonic_now());
      return {};
    });
  }
  return with<protocol::JoinGroup>(incoming, [&](const auto& request) -> Result<void> {
    auto joined = keeper_->set_member(connection.end, Lid{request.lid}, request.is_member != 0);
    if (!joined) return joined;
    return reply(connection.fd.get(), protocol::Done{});
  });
}

Result<void> Server::on_issm(Connection& connection, const protocol::IssmRequest& request) {
  const auto port = find_port(request.host, request.port);
  if (!port) return std::unexpected(port.error());
  const std::string path = folder_.issm(net_.node_info(*port).node_guid, port->port);
  if (auto made = issm_files_->add(*port, path); !made) return made;
  protocol::IssmPath answer;
  if (path.size() >= answer.path.size()) return refuse(ENAMETOOLONG, path);
  protocol::put_text(answer.path, path);
  return reply(connection.fd.get(), answer);
}

Result<void> Server::on_watch(Connection& connection, const protocol::WatchHost& request) {
  const auto host = find_host(net_.topology(), text_of(request.host));
  if (!host) return std::unexpected(host.error());
  if (connection.watched_host) return refuse(EPROTO, "the connection watches a host already");
  connection.watched_host = *host;
  watchers_.emplace(*host, connection.fd.get());
  counters_due_ = monotonic_now();
  return reply(connection.fd.get(), facts_of(*host));
}

Result<void> Server::on_gid(Connection& connection, const protocol::GidRequest& request) {
  const SocketAddress address = SocketAddress::ipv4(request.address);
  const auto host = addresses_.node_with(address);
  if (!host) {
    return refuse(EHOSTUNREACH, fmt::format("no host of the fabric has the address {}: 'verbatim "
                                            "fabric show' lists them",
                                            address.ip_text()));
  }
  return reply(connection.fd.get(),
               protocol::HostGid{.gid = identifiers(net_, {*host, 1}).gid.bytes});
}

Result<void> Server::on_view(Connection& connection, const protocol::ViewRequest& request) {
  const auto host = find_host(net_.topology(), text_of(request.host));
  if (!host) return std::unexpected(host.error());
  if (auto shown = show(*host); !shown) return shown;
  return reply(connection.fd.get(), facts_of(*host));
}

/// By its process, `verbatim fabric down` waits for the end of each.
nlohmann::ordered_json Server::agents_status() const {
  auto agents = nlohmann::ordered_json::array();
  for (const auto& [host, connection] : watchers_) {
    ucred agent{};
    socklen_t length = sizeof agent;
    const bool is_known =
        getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &agent, &length) == 0 && agent.pid != 0;
    if (!is_known) continue;
    agents.push_back(
        {{"host", fmt::format("{:#x}", net_.topology().nodes[host].guid)}, {"pid", agent.pid}});
  }
  return agents;
}

nlohmann::ordered_json Server::managers_status() const {
  auto managers = nlohmann::ordered_json::array();
  for (const SubnetManager& manager : managers_) {
    managers.push_back({{"host", fmt::format("{:#x}", manager.place().host_guid)},
                        {"folder", manager.place().folder},
                        {"log", manager.log()}});
    managers.back()[manager.runs() ? "pid" : "exit_status"] =
        manager.runs() ? manager.pid() : manager.exit_status();
  }
  return managers;
}

Result<void> Server::on_status(Connection& connection) {
  auto status = status_of(net_, addresses_, *keeper_);
  status["trunks"] = trunks_.status();
  status["agents"] = agents_status();
  status["name"] = options_.name;
  status["managers"] = managers_status();
  return reply_text(connection, status.dump());
}

Result<void> Server::reply_text(Connection& connection, const std::string& text) {
  const auto memfd = protocol::memfd_of(std::as_bytes(std::span(text)));
  if (!memfd) return std::unexpected(memfd.error());
  return reply(connection.fd.get(), protocol::Status{.size = text.size()}, memfd->get());
}

Result<void> Server::on_link(Connection& connection, const protocol::LinkRequest& request) {
  const TimeNs now = monotonic_now();
  const auto trunk = trunk_of(net_.topology(), trunks_, request);
  auto changed = trunk ? change_trunk(trunks_, *trunk, request, now)
                       : change_link(net_, *keeper_, request, now);
  if (!changed) return changed;
  return reply(connection.fd.get(), protocol::Done{});
}

Result<void> Server::on_trunk(Connection& connection, const protocol::TrunkRequest& request) {
  const auto options = options_of(net_.topology(), request);
  if (!options) return std::unexpected(options.error());
  const auto descriptors = trunks_.add(*options, monotonic_now());
  if (!descriptors) return std::unexpected(descriptors.error());
  for (const int fd : *descriptors) {
    if (auto watched = watch(fd, EPOLLIN); !watched) return watched;
  }
  return reply(connection.fd.get(), protocol::Done{});
}

Result<void> Server::on_port_message(Connection& connection, const protocol::Incoming& incoming) {
  const auto type = protocol::type_of(incoming.bytes);
  if (!type) return std::unexpected(type.error());
  PortAgents& agents = agents_of(*connection.port);
  const FileId file{static_cast<std::uint32_t>(connection.fd.get())};
  const int beside = incoming.descriptor.get();  // The socket that came with the request.
  switch (*type) {
    case MessageType::sent_mad:
      return on_mad(connection, incoming);
    case MessageType::register_agent:
      return with<protocol::RegisterAgent>(incoming, [&](const auto& request) -> Result<void> {
        const auto number = agents.add(file, request);
        if (!number) return reply(beside, refusal_of(number.error()));
        carry_out(monotonic_now());  // The port shows the agent before the program knows of it.
        return reply(beside, protocol::Registered{.agent = *number});
      });
    case MessageType::unregister_agent:
      return with<protocol::UnregisterAgent>(incoming, [&](const auto& request) -> Result<void> {
        const auto removed = agents.remove(file, request.agent);
        if (!removed) return reply(beside, refusal_of(removed.error()));
        carry_out(monotonic_now());
        return reply(beside, protocol::Done{});
      });
    case MessageType::join_multicast:
      return with<protocol::JoinMulticast>(incoming, [&](const auto& request) -> Result<void> {
        groups_of(*connection.port)
            .join(file, request, identifiers(net_, *connection.port), monotonic_now());
        return {};
      });
    case MessageType::leave_multicast:
      return with<protocol::LeaveMulticast>(incoming, [&](const auto& request) -> Result<void> {
        groups_of(*connection.port)
            .leave(file, request.membership, identifiers(net_, *connection.port), monotonic_now());
        return {};
      });
    default:
      return refuse(EPROTO, fmt::format("an open port cannot {:#x}", static_cast<unsigned>(*type)));
  }
}

Result<void> Server::on_mad(Connection& connection, const protocol::Incoming& incoming) {
  const auto mad = protocol::decode_mad(incoming.bytes, MessageType::sent_mad);
  if (!mad) return std::unexpected(mad.error());
  const auto bytes = protocol::datagram_of(*mad, incoming.descriptor);
  if (!bytes) return std::unexpected(bytes.error());
  const FileId file{static_cast<std::uint32_t>(connection.fd.get())};
  agents_of(*connection.port)
      .send(file, mad->record, *bytes, identifiers(net_, *connection.port), monotonic_now());
  carry_out(monotonic_now());
  return {};
}

}  // namespace verbatim::fabric
