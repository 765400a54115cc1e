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
#include "wire/mad/management_packet.h"
#include "wire/subnet/path_record.h"

namespace verbatim::dropin {

/// A program's own access to queue pair 1 of its host, through the fabric's daemon. It sends
/// messages of the communication manager, whose answers come by the agent, and asks the subnet
/// administrator for paths. Any thread may call it.
class FabricManagement {
 public:
  /// Called once with the record, or with why there is none: ETIMEDOUT, EINVAL if the subnet
  /// administrator knows no path, ENETDOWN if the fabric has ended.
  using OnPath = std::function<void(const Result<wire::PathRecord>&)>;
  static constexpr std::size_t kQueriesMax = 4096;

  /// Errors of the fabric's daemon.
  static Result<std::unique_ptr<FabricManagement>> open(const arena::Node& node);
  /// The background thread takes answers from now on.
  Result<void> start(adapter::Progress& progress);
  /// Called first in a forked child: the parent's connection is closed there.
  void close_in_child() { connection_.reset(); }

  Result<void> send_cm(const InfinibandPath& path, wire::MadSpan mad);
  /// `on_path` is called by the background thread. EAGAIN: the port has no subnet manager; ENOBUFS:
  /// too many queries wait.
  Result<void> find_path(const arena::InfinibandPort& port, const Gid& source,
                         const Gid& destination, TimeNs timeout, OnPath on_path);

 private:
  struct Agents {
    std::uint32_t cm = 0;
    std::uint32_t sa = 0;
  };
  FabricManagement(UniqueFd connection, Agents agents)
      : connection_(std::move(connection)), agents_(agents) {}
  void receive(adapter::Progress& progress);
  void on_message(const fabric::protocol::MadMessage& message);
  void answer(std::uint32_t query, const Result<wire::PathRecord>& result);
  void end();

  UniqueFd connection_;
  const Agents agents_;  // Their numbers in the connection.
  fabric::protocol::Receiver receiver_;
  std::mutex lock_;  // Protects the members below.
  std::map<std::uint32_t, OnPath> queries_;
  std::uint32_t last_query_ = 0;
};

/// The GID of the host with this address. EHOSTUNREACH: the fabric has none. Waits for the daemon.
Result<Gid> find_gid(const arena::Node& node, const SocketAddress& address);

}  // namespace verbatim::dropin
