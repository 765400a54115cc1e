#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

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

/// A program's own access to queue pair 1 of its host, through the fabric's daemon. It sends
/// messages of the communication manager, whose answers come by the agent, and asks the subnet
/// administrator. Any thread may call it.
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
  /// Called first in a forked child: the parent's connection is closed there.
  void close_in_child() { connection_.reset(); }

  Result<void> send_cm(const InfinibandPath& path, wire::MadSpan mad);
  /// Asks the subnet administrator of the port. EAGAIN: it has no subnet manager; ENOBUFS: too many
  /// questions wait.
  Result<void> ask(const arena::InfinibandPort& port, const wire::AdministrationPacket& question,
                   TimeNs timeout, OnAnswer on_answer);
  /// The port joins the group for this program, until `leave_group`. `components`: which fields of
  /// `wanted` count. `membership`: a number of the caller that none of its groups has.
  Result<void> join_group(std::uint32_t membership, const wire::MulticastRecord& wanted,
                          std::uint64_t components, OnGroup on_group);
  void leave_group(std::uint32_t membership);

 private:
  struct Agents {
    std::uint32_t cm = 0;
    std::uint32_t sa = 0;
  };
  FabricManagement(UniqueFd connection, Agents agents)
      : connection_(std::move(connection)), agents_(agents) {}
  void receive(adapter::Progress& progress);
  void on_message(ByteSpan bytes);
  void on_mad(const fabric::protocol::MadMessage& message);
  void on_member(const fabric::protocol::MulticastMember& member);
  void end();

  UniqueFd connection_;
  const Agents agents_;  // Their numbers in the connection.
  fabric::protocol::Receiver receiver_;
  std::mutex lock_;  // Protects what follows; not held during `OnAnswer` and `OnGroup`.
  mad::AdministratorQueries queries_;
  std::map<std::uint32_t, OnGroup> groups_;  // By membership.
};

/// The GID of the host with this address. EHOSTUNREACH: the fabric has none. Waits for the daemon.
Result<Gid> find_gid(const arena::Node& node, const SocketAddress& address);
/// Asks the host's interfaces of IP over InfiniBand (fabric/protocol/interface_addresses.h). Either
/// address may be empty.
Result<fabric::protocol::AddressAnswer> ask_interfaces(const arena::Node& node,
                                                       const SocketAddress& source,
                                                       const SocketAddress& destination);

}  // namespace verbatim::dropin
