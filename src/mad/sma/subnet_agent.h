#pragma once

#include <cstdint>
#include <optional>

#include "base/net/path.h"
#include "base/time.h"
#include "mad/sma/m_key.h"
#include "mad/sma/node_tables.h"
#include "mad/sma/port_rules.h"
#include "mad/sma/subnet_node.h"
#include "mad/sma/trap_sender.h"
#include "wire/subnet/smp.h"

namespace verbatim::mad {

/// What the owner of an agent does after a step.
struct SubnetEffects {
  std::optional<std::uint8_t> changed_port;  // Its PortInfo, P_Keys or GUIDs are others, or its
                                             // software shall register again.
  std::optional<std::uint8_t> dropped_link;  // Its link goes down at both ends.
  bool has_new_deadline = false;             // Of the agent; a trap is due at once.
};

/// The port by which an SMP came, and the LID of its sender.
struct SmpSource {
  std::uint8_t port = 0;
  Lid lid{};
};

/// A trap, and how it gets to the subnet manager: LID routed from `port`.
struct TrapDatagram {
  std::uint8_t port = 0;
  wire::Smp smp;
  InfinibandPath path;
};

/// Subnet management agent of a node (IBA chapter 14): answers SMPs that read and write what the
/// node is and how it forwards, and tells the manager by traps what has changed. A pure step; hop
/// by hop delivery is the SMI's (smi.h).
class SubnetAgent {
 public:
  /// `tables` must outlive the agent.
  SubnetAgent(SubnetNode node, NodeTables& tables, std::uint64_t first_trap_transaction);

  enum class Verdict : std::uint8_t {
    answer,    // The SMP has become its answer.
    software,  // It is for the node's software, or answers a request of that.
    drop,
  };
  Verdict on_smp(const SmpSource& source, wire::Smp& smp, TimeNs now, SubnetEffects& out);

  /// Another cable is plugged into `port`, whose link is down: it can do what `info` says.
  void on_new_cable(std::uint8_t port, const wire::PortInfo& info, SubnetEffects& out) {
    commit(port, info, out);
  }
  /// The link of `port` has trained: the port waits for a manager.
  void on_link_up(std::uint8_t port, LinkWidth width, LinkSpeed speed, TimeNs now,
                  SubnetEffects& out);
  /// The cable was taken out, or the other end has gone down.
  void on_link_down(std::uint8_t port, TimeNs now, SubnetEffects& out);
  /// Packets that come to `port` are damaged more often than LocalPhyErrors allows: trap 129.
  void on_link_integrity_error(std::uint8_t port, TimeNs now, SubnetEffects& out);
  /// `count` packets came to `port` with a P_Key or Q_Key that nobody has there, `details` the
  /// last: traps 257 and 258.
  void on_bad_key(std::uint8_t port, wire::TrapNumber trap, const wire::BadKeyDetails& details,
                  TimeNs now, SubnetEffects& out, unsigned count = 1);
  /// A port of this switch does not let a packet pass for its P_Key: trap 259.
  void on_bad_key_at_switch(std::uint8_t port, wire::SwitchBadPKeyDetails details, TimeNs now,
                            SubnetEffects& out);
  /// Software of the node gives `port` a capability or takes it back (a bit of port_capability):
  /// trap 144. Returns false if that is so already.
  bool set_capability(std::uint8_t port, std::uint32_t capability, bool has_it, TimeNs now,
                      SubnetEffects& out);

  /// Software of the node describes it anew: trap 144.
  void set_description(const wire::NodeDescription& description, TimeNs now, SubnetEffects& out);

  /// When `on_time` or `take_trap` has something to do.
  TimeNs deadline() const;
  /// Leases of M_Keys end.
  void on_time(TimeNs now, SubnetEffects& out);
  /// The next trap that is due. Traps of a port that no manager has are dropped.
  std::optional<TrapDatagram> take_trap(TimeNs now);

  const SubnetNode& node() const { return node_; }
  /// NodeInfo as seen through `port`.
  wire::NodeInfo node_info(std::uint8_t port) const;

 private:
  using Status = wire::MadStatus;

  void answer(const SmpSource& source, wire::Smp& smp, MKeyAccess access, SubnetEffects& out);
  Status get(std::uint8_t arrival, wire::Smp& smp) const;
  Status set(std::uint8_t arrival, const wire::Smp& smp, SubnetEffects& out);
  Status set_node_description(std::uint8_t arrival, const wire::Smp& smp, SubnetEffects& out);
  Status set_switch_info(const wire::Smp& smp);
  Status set_port_info(std::uint8_t arrival, const wire::Smp& smp, SubnetEffects& out);
  Status get_port_info(std::uint8_t arrival, wire::Smp& smp) const;
  bool hides_extended_speeds(const wire::PortInfo& port) const;
  Status get_mellanox_port_info(std::uint8_t arrival, wire::Smp& smp) const;
  Status set_mellanox_port_info(std::uint8_t arrival, const wire::Smp& smp) const;
  Status get_table(std::uint8_t arrival, wire::Smp& smp) const;
  Status set_table(std::uint8_t arrival, const wire::Smp& smp, SubnetEffects& out);

  /// The port that an attribute modifier names: 0 is the port of arrival where the node is no
  /// switch. Nothing if there is none.
  std::optional<std::uint8_t> named_port(std::uint8_t arrival, std::uint32_t number) const;
  PortRole role_of(std::uint8_t port) const;
  /// Tells the tables, too.
  void commit(std::uint8_t port, const wire::PortInfo& info, SubnetEffects& out);
  /// The link has changed without a manager's doing.
  void commit_link(std::uint8_t port, const wire::PortInfo& info, TimeNs now, SubnetEffects& out);
  void raise(std::uint8_t port, const wire::Notice& notice, TimeNs now, SubnetEffects& out);

  SubnetNode node_;
  NodeTables& tables_;
  TrapSender traps_;
};

}  // namespace verbatim::mad
