#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "mad/sma/node_tables.h"
#include "mad/sma/port_rules.h"
#include "mad/sma/subnet_node.h"
#include "wire/subnet/smp.h"

namespace verbatim::mad {

/// What the owner of an agent does after a step.
struct SubnetEffects {
  std::optional<std::uint8_t> changed_port;  // Its PortInfo, P_Keys or GUIDs are others.
  std::optional<std::uint8_t> dropped_link;  // Its link goes down at both ends.
};

/// Subnet management agent of a node (IBA chapter 14): answers SMPs that read and write what the
/// node is and how it forwards. A pure step; hop by hop delivery is the SMI's (smi.h).
class SubnetAgent {
 public:
  /// `tables` must outlive the agent.
  SubnetAgent(SubnetNode node, NodeTables& tables);

  enum class Verdict : std::uint8_t {
    answer,    // The SMP has become its answer.
    software,  // It is for the node's software, or answers a request of that.
    drop,
  };
  /// `port`: by which the SMP came.
  Verdict on_smp(std::uint8_t port, wire::Smp& smp, TimeNs now, SubnetEffects& out);

  /// The link of `port` has trained: the port waits for a manager.
  void on_link_up(std::uint8_t port, LinkWidth width, LinkSpeed speed, SubnetEffects& out);
  /// The cable was taken out, or the other end has gone down.
  void on_link_down(std::uint8_t port, SubnetEffects& out);
  /// Software of the node is its subnet manager, or no longer. Returns false if that is so already.
  bool set_is_sm(std::uint8_t port, bool is_sm, SubnetEffects& out);

  const SubnetNode& node() const { return node_; }
  /// NodeInfo as seen through `port`.
  wire::NodeInfo node_info(std::uint8_t port) const;

 private:
  using Status = wire::MadStatus;

  Status get(std::uint8_t arrival, wire::Smp& smp) const;
  Status set(std::uint8_t arrival, const wire::Smp& smp, SubnetEffects& out);
  Status set_node_description(const wire::Smp& smp);
  Status set_switch_info(const wire::Smp& smp);
  Status set_port_info(std::uint8_t arrival, const wire::Smp& smp, SubnetEffects& out);
  Status get_port_info(std::uint8_t arrival, wire::Smp& smp) const;
  Status get_table(std::uint8_t arrival, wire::Smp& smp) const;
  Status set_table(std::uint8_t arrival, const wire::Smp& smp, SubnetEffects& out);

  /// The port that an attribute modifier names: 0 is the port of arrival where the node is no
  /// switch. Nothing if there is none.
  std::optional<std::uint8_t> named_port(std::uint8_t arrival, std::uint32_t number) const;
  PortRole role_of(std::uint8_t port) const;
  /// Tells the tables, and marks a switch's change of state.
  void commit(std::uint8_t port, const wire::PortInfo& info, SubnetEffects& out);

  SubnetNode node_;
  NodeTables& tables_;
};

}  // namespace verbatim::mad
