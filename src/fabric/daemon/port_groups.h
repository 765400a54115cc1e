#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/time.h"
#include "fabric/daemon/port_agents.h"
#include "fabric/protocol/messages.h"
#include "mad/groups/memberships.h"

/// The multicast groups that programs are in through one port of a host. Without I/O.
namespace verbatim::fabric {

/// The daemon's own agents on ports: no open port of a program.
inline constexpr FileId kOwnFile{~0u};

class PortGroups {
 public:
  /// Questions to the subnet administrator go by an agent of `agents`, which outlives it.
  explicit PortGroups(PortAgents& agents) : agents_(agents) {}

  /// A program joins a group, and is told in a MulticastMember what has come of it.
  void join(FileId file, const protocol::JoinMulticast& request, const PortIdentifiers& port,
            TimeNs now);
  void leave(FileId file, std::uint32_t membership, const PortIdentifiers& port, TimeNs now);
  /// The program's open port has ended.
  void close(FileId file, const PortIdentifiers& port, TimeNs now);

  /// What an agent of kOwnFile gets.
  void on_delivery(const Delivery& delivery, const PortIdentifiers& port, TimeNs now);
  /// Joins all groups again if a subnet manager may not know of them.
  void on_port_changed(const PortIdentifiers& port, TimeNs now);
  void on_time(const PortIdentifiers& port, TimeNs now);
  TimeNs deadline() const { return memberships_.deadline(); }

  struct Told {
    FileId file{};
    protocol::MulticastMember message;
  };
  std::optional<Told> take_told();

 private:
  void drain(const PortIdentifiers& port, TimeNs now);
  void ask(const mad::AskAdministrator& question, const PortIdentifiers& port, TimeNs now);
  Result<std::uint32_t> agent();
  void tell(FileId file, std::uint32_t membership, const Result<wire::MulticastRecord>& group);

  PortAgents& agents_;
  mad::Memberships memberships_;
  std::deque<Told> told_;
  std::optional<std::uint32_t> agent_;  // Its number in kOwnFile, from the first question on.
  std::optional<SubnetManagement> management_;  // As it was when the port joined.
};

}  // namespace verbatim::fabric
