#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "adapter/progress/progress.h"
#include "arena/node.h"
#include "base/error.h"
#include "base/net/path.h"
#include "base/os/unique_fd.h"
#include "base/time.h"
#include "fabric/protocol/channel.h"
#include "fabric/protocol/interface_addresses.h"
#include "mad/administrator_queries.h"
#include "wire/mad/management_packet.h"
#include "wire/subnet/multicast_record.h"

namespace verbatim::dropin {

/// A program's own access to queue pair 1 of its host's ports, through the fabric's daemon. It
/// sends messages of the communication manager, whose answers come by the agent, and asks the
/// subnet administrator. Any thread may call it.
class FabricManagement {
 public:
  /// Called once by the background thread; with ENETDOWN if the fabric has ended.
  using OnAnswer = mad::AdministratorQueries::OnAnswer;
  /// Called by the background thread with the group's record when the port has joined it, and again
  /// when the subnet administrator has made another group of it. An error is the last call: the
  /// port has not joined, or its membership has ended.
  using OnGroup = std::function<void(const Result<wire::MulticastRecord>&)>;

  /// Errors of the fabric's daemon.
  static Result<std::unique_ptr<FabricManagement>> open(const arena::Node& node);
  /// The background thread takes answers from now on.
  Result<void> start(adapter::Progress& progress);
  /// Called first in a forked child: the parent's connections are closed there.
  void close_in_child() { ports_.clear(); }

  Result<void> send_cm(const InfinibandPath& path, wire::MadSpan mad);
  /// Asks the subnet administrator of a port of the node, by its number. EAGAIN: it has no subnet
  /// manager; ENOBUFS: too many questions wait.
  Result<void> ask(const arena::Node& node, std::uint8_t port,
                   const wire::AdministrationPacket& question, TimeNs timeout, OnAnswer on_answer);
  /// A port joins the group for this program, until `leave_group`. `components`: which fields of
  /// `wanted` count. `membership`: a number of the caller that none of its groups has.
  Result<void> join_group(std::uint32_t membership, std::uint8_t port,
                          const wire::MulticastRecord& wanted, std::uint64_t components,
                          OnGroup on_group);
  void leave_group(std::uint32_t membership);

 private:
  /// A connection to the daemon, and numbers of agents in it.
  struct Port {
    UniqueFd connection;
    std::uint32_t cm = 0;
    std::uint32_t sa = 0;
  };
  static Result<Port> open(const arena::Node& node, std::uint8_t number);
  explicit FabricManagement(std::vector<Port> ports) : ports_(std::move(ports)) {}
  Result<Port*> at(std::uint8_t number);
  void receive(adapter::Progress& progress, const Port& port);
  void on_message(const Port& port, ByteSpan bytes);
  void on_mad(const Port& port, const fabric::protocol::MadMessage& message);
  void on_member(const fabric::protocol::MulticastMember& member);
  void end();

  std::vector<Port> ports_;  // From port 1 on; they stay.
  fabric::protocol::Receiver receiver_;
  std::mutex lock_;  // Protects what follows; not held during `OnAnswer` and `OnGroup`.
  mad::AdministratorQueries queries_;
  struct Group {
    std::uint8_t port = 1;
    OnGroup on_group;
  };
  std::map<std::uint32_t, Group> groups_;  // By membership.
};

/// The GID of the host with this address. EHOSTUNREACH: the fabric has none. Waits for the daemon.
Result<Gid> find_gid(const arena::Node& node, const SocketAddress& address);
/// Asks the host's interfaces of IP over InfiniBand (fabric/protocol/interface_addresses.h). Either
/// address may be empty.
Result<fabric::protocol::AddressAnswer> ask_interfaces(const arena::Node& node,
                                                       const SocketAddress& source,
                                                       const SocketAddress& destination);

}  // namespace verbatim::dropin
