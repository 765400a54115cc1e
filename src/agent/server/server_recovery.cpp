#include <fmt/format.h>
#include <unistd.h>

#include "agent/identity/identity.h"
#include "agent/identity/interfaces.h"
#include "agent/identity/view.h"
#include "agent/server/server.h"
#include "base/log.h"
#include "config/layers.h"

/// Start of an agent: from nothing, or from what programs kept of an earlier one.
namespace verbatim::agent {
namespace {

/// Longer than the longest pause between two attempts of a program.
constexpr TimeNs kRejoinTime = 10 * kSecond;

/// For all addresses of a node together.
constexpr TimeNs kAddressesTime = kSecond;

/// Another user's agent cannot be asked to give way, but leaves soon after its last program.
Result<void> await_free(const SocketAddress& address, TimeNs deadline) {
  auto free = ReceiveSockets::probe(address);
  while (!free && free.error().code == EADDRINUSE && monotonic_now() < deadline) {
    usleep(10'000);
    free = ReceiveSockets::probe(address);
  }
  return free;
}

}  // namespace

Result<config::Effective> Server::wanted_node() const {
  const auto folders = config::config_folders();
  if (!folders) return std::unexpected(folders.error());
  return config::resolve(options_.node, *folders, options_.given);
}

Result<Node> Server::choose_identity() {
  const auto wanted = wanted_node();
  if (!wanted) return std::unexpected(wanted.error());
  configuration_ = config::digest_of(*wanted);
  if (fabric_) return fabric_->node(options_.node, wanted->config);
  if (!wanted->config.function.empty()) return node_on_function(wanted->config);
  auto interfaces = read_interfaces();
  if (!interfaces) return std::unexpected(interfaces.error());
  const auto may_be_interface = [this](const Interface& interface) {
    const SocketAddress link_local = interface.link_local();
    if (!claims_.take_interface(interface.name, Claims::IdleOwner::ends)) return false;
    // A link-local address cannot be bound during duplicate address detection.
    if (link_local.empty() || ReceiveSockets::probe(link_local)) return true;
    claims_.release_last();
    return false;
  };
  return identify(options_.node, wanted->config, *interfaces, may_be_interface);
}

Result<void> Server::claim_addresses(const Node& node) {
  const RoceVersion first = roce_version(node.addresses.front());
  const TimeNs deadline = monotonic_now() + kAddressesTime;
  for (const SocketAddress& address : node.addresses) {
    const bool is_claimed = roce_version(address) != first;  // One claim an address.
    if (!is_claimed) {
      auto taken = claims_.take_address(address, Claims::IdleOwner::ends);
      if (!taken) return taken;
    }
    if (!node.has_sockets()) continue;  // Nothing is bound to it.
    if (auto free = await_free(address, deadline); !free) return free;
  }
  return {};
}

Result<void> Server::begin() {
  auto node = choose_identity();
  if (!node) return std::unexpected(node.error());
  if (auto claimed = claim_addresses(*node); !claimed) return claimed;
  auto slots = Slots::create(*node, slot_locks_);
  if (!slots) return std::unexpected(slots.error());
  slots_.emplace(std::move(*slots));
  look_at_port();
  // The sockets are watched once there is an epoll: see `listen`.
  return events_ ? open_services() : Result<void>();
}

/// The node works without it, too, so a failure to write the view is not fatal.
void Server::show_view() const {
  const std::string view = folder_.view(options_.node);
  const auto shown =
      fabric_ ? link_view(view, fabric_->view()) : write_view(view, description(), totals_shown_);
  if (!shown) {
    log(LogLevel::warn, "no view of /sys for programs that look there: {}", shown.error().text);
  }
}

Result<void> Server::recover(Incoming& rejoin) {
  auto store =
      DescriptorStore::restore(std::move(rejoin.descriptors[0]), std::move(rejoin.descriptors[1]));
  if (!store) return std::unexpected(store.error());
  if (store->node().name != options_.node) {
    return refuse(EPROTO, fmt::format("a descriptor store of node '{}', but this is '{}'",
                                      store->node().name, options_.node));
  }
  if (auto opened = reopen_fabric(store->node()); !opened) return opened;
  auto slots = Slots::restore(std::move(*store), slot_locks_);
  if (!slots) return std::unexpected(slots.error());
  slots_.emplace(std::move(*slots));
  const RoceVersion first = roce_version(slots_->node().addresses.front());
  for (const SocketAddress& address : slots_->node().addresses) {
    if (roce_version(address) != first) continue;
    // A process that has claimed the address meanwhile cannot bind it, and is about to release it.
    if (auto taken = claims_.take_address(address, Claims::IdleOwner::keeps); !taken) {
      log(LogLevel::warn, "{}", taken.error().text);
    }
  }
  // The node goes on under the interface's own MAC where it has it: see identify.
  claims_.take_interface(interface_claim(slots_->node()), Claims::IdleOwner::keeps);
  has_served_ = true;
  rejoined_until_ = monotonic_now() + kRejoinTime;
  early_requests_.on_listeners_unknown(monotonic_now());
  look_at_port();
  return open_services();
}

void Server::on_recovery_time() {
  if (!slot_locks_.any_is_held()) {
    if (auto begun = begin(); !begun) {
      refuse_waiting(begun.error());
      stopping_ = true;
    } else {
      serve_waiting();
    }
  } else if (monotonic_now() >= recovery_deadline_) {
    refuse_waiting(
        {ETIMEDOUT, fmt::format("programs of node '{}' live, but none of them has told its "
                                "new agent the node's state: perhaps they are stopped",
                                options_.node)});
  }
}

void Server::serve_waiting() {
  std::vector<int> waiting;
  for (const auto& [fd, connection] : connections_) {
    if (connection.waiting) waiting.push_back(fd);
  }
  for (const int fd : waiting) {
    if (stopping_) return;  // It gives way: all others ask the next agent.
    Connection& connection = connections_.at(fd);
    Incoming incoming = std::move(*connection.waiting);
    connection.waiting.reset();
    serve(connection, std::move(incoming));
  }
}

void Server::refuse_waiting(const Error& error) {
  std::vector<int> surplus;
  for (auto& [fd, connection] : connections_) {
    if (!connection.waiting) continue;
    connection.waiting.reset();
    if (connection.is_surplus) surplus.push_back(fd);
    Refusal refusal;
    refusal.code = error.code;
    put_text(refusal.text, error.text);
    // If it cannot be sent, the program has closed, and its end will be handled.
    static_cast<void>(send(fd, refusal, {}, MSG_DONTWAIT));
  }
  for (const int fd : surplus) close_connection(fd);
}

}  // namespace verbatim::agent
