#include <algorithm>
#include <utility>

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "agent/fabric/fabric_port.h"
#include "agent/management/socket_port.h"
#include "agent/server/server.h"
#include "base/log.h"
#include "cm/ib/routing.h"
#include "service/launch.h"
#include "wire/mad/cm_message.h"

/// Management datagrams of the node: the communication manager's (IBA chapter 12) are passed to the
/// program that they are for; if there is none, they are answered here.
namespace verbatim::agent {
namespace {

/// Interval of log lines about events that any host on the network can cause.
constexpr TimeNs kBetweenWarnings = 10 * kSecond;

/// Returns true if a program's socket has room for a request, which any host can send. Half of the
/// buffer is reserved for messages about the program's connections; sources that send many requests
/// get a sixteenth, which leaves the rest to those that send few.
bool has_room_for_request(int socket, bool source_sends_few) {
  int queued = 0, most = 0;
  socklen_t length = sizeof most;
  return ioctl(socket, SIOCOUTQ, &queued) != 0 ||
         getsockopt(socket, SOL_SOCKET, SO_SNDBUF, &most, &length) != 0 ||
         queued <= most / (source_sends_few ? 2 : 16);
}

}  // namespace

Result<void> Server::open_management_port() {
  const auto take = [this](const Mad& mad) { on_mad(mad); };
  const auto assign = [this](auto port) -> Result<void> {
    if (!port) return std::unexpected(port.error());
    management_ = std::move(*port);
    return {};
  };
  const auto opened = fabric_
                          ? assign(FabricPort::create(*fabric_, take))
                          : assign(SocketPort::create(slots_->node(), slots_->sockets(0), take));
  if (!opened) return opened;
  mad::Registration manager{.management_class = wire::MadClass::communication_management,
                            .class_version = wire::kCmClassVersion};
  manager.methods.set(raw(wire::MadMethod::send));
  const auto client = dispatcher_.add(manager);
  if (!client) return std::unexpected(client.error());
  communication_manager_ = *client;
  for (const int fd : management_->fds()) {
    if (auto watched = watch(fd); !watched) return watched;
  }
  return {};
}

Server::Connection* Server::manager_in(std::uint32_t slot) {
  const auto found = connection_of_slot_.find(slot);
  if (found == connection_of_slot_.end()) return nullptr;
  Connection& connection = connections_.at(found->second);
  return connection.bindings >= 0 ? &connection : nullptr;
}

/// On a fabric's host a request may be for an address of an interface of IP over InfiniBand, which
/// is none of the node's.
Server::Connection* Server::manager_of(const cm::Route& route, const SocketAddress& own) {
  if (route.slot) return manager_in(*route.slot);
  const bool is_named = fabric_ && !route.ends.empty();
  auto listener = ports_.find(route.service, is_named ? route.ends.destination : own);
  if (!listener && is_named) listener = ports_.find(route.service, own);
  return listener ? manager_in(static_cast<std::uint32_t>(listener->program)) : nullptr;
}

Server::Connection* Server::up_to_date_manager_of(const cm::Route& route,
                                                  const SocketAddress& own) {
  for (;;) {
    Connection* const program = manager_of(route, own);
    if (program == nullptr || route.slot) return program;
    // A peer may connect right after a listener closed. The program's message about that is in its
    // socket already, and epoll gives no order between sockets: read it first.
    pollfd messages{.fd = program->bindings, .events = POLLIN, .revents = 0};
    if (poll(&messages, 1, 0) <= 0) return program;
    on_ready(messages.fd);
  }
}

void Server::on_mad(const Mad& mad) {
  const auto decision = dispatcher_.route(mad::SpecialQp::qp1, mad);
  if (decision.client == communication_manager_) return on_cm_mad(mad);
  if (decision.answer_unsupported) {
    management_->send(mad.own_address, mad.peer, mad::unsupported_answer(mad.bytes));
  }
}

void Server::on_cm_mad(const Mad& mad) {
  const SocketAddress source = address_of(mad.peer);
  const SocketAddress& own = slots_->node().addresses[mad.own_address];
  const auto route = cm::route_of(mad.bytes);
  if (!route) return;
  if (const RoceVersion used = slots_->node().connection_version(); roce_version(own) != used) {
    if (const TimeNs now = monotonic_now(); now >= next_warning_) {
      log(LogLevel::warn,
          "{} asks over {}, but this node's connections are over {} (VERBATIM_ROCE)",
          source.ip_text(), name_of(roce_version(own)), name_of(used));
      next_warning_ = now + kBetweenWarnings;
    }
    if (const auto answer = cm::answer_to_other_version(mad.bytes, mad.peer, own)) {
      management_->send(mad.own_address, mad.peer, answer->bytes);
    }
    return;
  }
  if (Connection* const program = up_to_date_manager_of(*route, own)) {
    if (route->slot) return pass_on(*program, mad);
    return pass_on_request(*program, mad);
  }
  if (!route->slot) {
    EarlyRequest early{.address = mad.own_address,
                       .peer = mad.peer,
                       .source_qpn = mad.source_qpn,
                       .pkey_index = mad.pkey_index};
    std::ranges::copy(mad.bytes, early.bytes.begin());
    const TimeNs now = monotonic_now();
    const bool is_expected = on_demand_.on_request(route->service, now);
    if (early_requests_.add(route->service, early, now, is_expected)) return;
  } else if (monotonic_now() < rejoined_until_ && slot_locks_.is_held(*route->slot)) {
    return;  // Its program has not rejoined this agent yet: the peer repeats the message.
  }
  pending_disconnects_.on_mad(mad.peer, mad.bytes);
  refuse_mad(mad);
}

/// `verbatim` is this agent's user's, as the agent is; it joins the node, or the host.
Result<void> Server::start_on_demand(std::vector<std::string> words) const {
  const auto program = service::find_program("verbatim");
  if (!program) return std::unexpected(program.error());
  const auto host = std::ranges::find(options_.given, "host", &config::Setting::key);
  if (host == options_.given.end()) {
    words.insert(words.end(), {"--node", options_.node});
  } else {
    const std::string fabric(slots_->node().fabric.view());
    words.insert(words.end(), {"--fabric", fabric, "--host", host->value});
  }
  return service::start_apart({.program = *program, .arguments = std::move(words)});
}

void Server::refuse_mad(const Mad& mad) {
  const SocketAddress& own = slots_->node().addresses[mad.own_address];
  if (const auto answer = cm::answer_unmatched(mad.bytes, mad.peer, own)) {
    management_->send(mad.own_address, mad.peer, answer->bytes);
  }
}

void Server::pass_on(Connection& program, const Mad& mad) {
  MadMessage message;
  message.address = mad.own_address;
  message.source = arena::flat_path_of(mad.peer);
  message.source_qpn = mad.source_qpn.value();
  message.pkey_index = mad.pkey_index;
  std::ranges::copy(mad.bytes, message.bytes.begin());
  // A program that does not read loses it, as a card with a full receive queue does: the CM
  // repeats.
  if (!send(program.fd.get(), message, {}, MSG_DONTWAIT)) ++program.datagrams_dropped;
}

/// If it is dropped, the peer repeats the request.
void Server::pass_on_request(Connection& program, const Mad& mad) {
  const bool source_sends_few = request_rates_.count(mad.peer, monotonic_now());
  if (has_room_for_request(program.fd.get(), source_sends_few)) {
    return pass_on(program, mad);
  }
  ++program.datagrams_dropped;
}

/// Not in every round: the cost of a flood of requests must not grow with their number.
void Server::serve_early_requests() {
  const TimeNs due = early_requests_.next_deadline();
  if (due == kNever || (!std::exchange(programs_spoke_, false) && monotonic_now() < due)) return;
  const auto serve = [this](const EarlyRequest& early) {
    const SocketAddress& own = slots_->node().addresses[early.address];
    Connection* const program = manager_of(*cm::route_of(early.bytes), own);
    if (program != nullptr) pass_on_request(*program, early.mad());
    return program != nullptr;
  };
  early_requests_.step(monotonic_now(), serve,
                       [this](const EarlyRequest& early) { refuse_mad(early.mad()); });
}

void Server::send_disconnects() {
  if (!management_) return;
  pending_disconnects_.send_due(monotonic_now(),
                                [this](const PendingDisconnects::Message& message) {
                                  std::array<std::byte, wire::kMadBytes> bytes{};
                                  wire::encode(message.mad, bytes);
                                  management_->send(message.address, message.path, bytes);
                                });
}

}  // namespace verbatim::agent
