#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/net/path.h"
#include "base/time.h"
#include "base/types.h"
#include "fabric/management/deadlines.h"
#include "fabric/management/node_counts.h"
#include "fabric/topology/topology.h"
#include "mad/pma/performance_agent.h"
#include "mad/sma/node_tables.h"
#include "mad/sma/smi.h"
#include "mad/sma/subnet_agent.h"
#include "wire/mad/mad.h"
#include "wire/subnet/smp.h"

namespace verbatim::fabric {

/// A management datagram on its way between two ports (UD on QP0 or QP1).
struct ManagementDatagram {
  InfinibandPath path;     // dlid, slid, sl, grh of the packet. Directed routes: permissive LIDs.
  Qpn source_qp{};         // 0, 1, or a program's own QP.
  Qpn destination_qp{};    // 0 or 1.
  std::uint32_t qkey = 0;  // QP1: 0x80010000.
  std::uint16_t pkey = 0xffff;  // Value, not index.
  std::array<std::byte, wire::kMadBytes> mad{};
  bool operator==(const ManagementDatagram&) const = default;
};

/// What a port's own agents do not handle, and what changes: told to the host's software. It may
/// call the net from within.
class HostSoftware {
 public:
  virtual void on_datagram(PortPlace port, const ManagementDatagram& datagram, TimeNs now) = 0;
  /// PortInfo (state, LID, SM LID, rate...), P_Keys or GUIDs are others.
  virtual void on_port_changed(PortPlace port) = 0;

 protected:
  ~HostSoftware() = default;
};

/// Makes the tables of a node, by its place in `Topology::nodes`, for the data path to read.
using MakeTables = std::function<std::unique_ptr<mad::NodeTables>(std::uint32_t node)>;

/// All nodes' management agents, and how management datagrams get from port to port: hop by hop
/// over links that are up, by directed route, by the switches' forwarding tables, or mixed. One
/// thread; no clock, no sockets. A datagram arrives, and is answered, within `send`.
class ManagementNet {
 public:
  /// All links are up, and wait for a subnet manager. Topology and software must outlive the net.
  /// `seed` makes the transaction ids of traps. Tables are in plain memory unless `make_tables` is
  /// there.
  ManagementNet(const Topology& topology, HostSoftware& software, std::uint64_t seed,
                const MakeTables& make_tables = {});
  ManagementNet(const ManagementNet&) = delete;
  ManagementNet& operator=(const ManagementNet&) = delete;

  /// The software of a host or router sends by one of its ports.
  void send(PortPlace from, const ManagementDatagram& datagram, TimeNs now);

  const wire::PortInfo& port_info(PortPlace port) const;
  wire::NodeInfo node_info(PortPlace port) const;
  const mad::NodeTables& tables(std::uint32_t node) const { return *tables_[node]; }
  const wire::NodeDescription& node_description(PortPlace port) const;
  std::span<const std::uint16_t> pkeys(PortPlace port) const;
  /// The port's own GUID; alias GUIDs follow if a manager has set some.
  std::vector<std::uint64_t> guids(PortPlace port) const;
  /// From now on the performance agents show these counts, too. They must outlive the net.
  void set_data_counters(const DataCounters& counters) { data_counters_ = &counters; }
  /// Software opens or closes the port as its subnet manager. Returns false if it is so already.
  bool set_is_sm(PortPlace port, bool is_sm, TimeNs now);
  /// The cable `link`, an index in topology().links, is taken out or put in again.
  void set_link(std::uint32_t link, bool up, TimeNs now);
  /// The cable carries this rate at most from now on: the link trains again.
  void set_cable_rate(std::uint32_t link, Rate rate, TimeNs now);
  bool has_cable(std::uint32_t link) const { return links_[link].has_cable; }
  Rate cable_rate(std::uint32_t link) const { return links_[link].rate; }
  const Topology& topology() const { return topology_; }

  /// When `on_time` has something to do: links train, traps are repeated, leases end.
  TimeNs deadline() const { return deadlines_.first(); }
  void on_time(TimeNs now);

 private:
  /// The SMP of a datagram to QP0 is decoded once, and encoded where it leaves the net.
  struct Packet {
    ManagementDatagram datagram;
    std::optional<wire::Smp> smp{};
    bool has_other_version = false;  // Than the one that agents know.
  };
  struct LinkState {
    Rate rate;  // That the cable carries now.
    bool has_cable = true;
    bool is_up = true;
  };
  using Out = std::optional<PortPlace>;  // The port by which a packet leaves; none: it has arrived.

  static bool decode(Packet& packet);
  void walk(Packet& packet, Out out, TimeNs now);
  Out depart(Packet& packet, PortPlace from, TimeNs now);
  Out arrive(Packet& packet, PortPlace in, TimeNs now);
  Out arrive_by_lid(Packet& packet, PortPlace in, TimeNs now);
  Out route_by_lid(Packet& packet, PortPlace from, TimeNs now);
  Out take_step(Packet& packet, const mad::SmiStep& step, PortPlace at, TimeNs now);
  Out deliver(Packet& packet, PortPlace at, TimeNs now);
  Out deliver_smp(Packet& packet, PortPlace at, TimeNs now);
  Out deliver_general(Packet& packet, PortPlace at, TimeNs now);
  Out answer(Packet& packet, PortPlace at, TimeNs now);
  /// Nobody here takes it: a Get or Set is answered so, others are dropped.
  Out refuse(Packet& packet, wire::MadStatus status, PortPlace at, TimeNs now);
  void hand_over(Packet& packet, PortPlace at, TimeNs now);

  std::optional<PortPlace> cross(const Packet& packet, PortPlace out, TimeNs now);
  bool has_right_keys(const Packet& packet, PortPlace at, TimeNs now);
  bool passes_partition(const Packet& packet, PortPlace at, bool inbound, TimeNs now);
  bool has_p_key(PortPlace at, std::uint16_t key) const;
  bool is_local(PortPlace at, Lid lid) const;
  mad::SmiPlace smi_place(PortPlace at) const;

  std::uint32_t link_of(PortPlace port) const;
  void take_down(std::uint32_t link, TimeNs now);
  void train(std::uint32_t link, TimeNs now);
  /// Sends the node's traps that are due, and notes when it has more to do.
  void send_traps(std::uint32_t node, TimeNs now);
  /// What steps of agents have asked for, after the answers have left.
  void settle(TimeNs now);

  static bool is_get_or_set(wire::MadMethod method) {
    return method == wire::MadMethod::get || method == wire::MadMethod::set;
  }
  std::uint32_t waiter_of_node(std::uint32_t node) const {
    return static_cast<std::uint32_t>(links_.size()) + node;
  }
  bool is_switch(std::uint32_t node) const { return agents_[node].node().is_switch(); }

  const Topology& topology_;
  HostSoftware& software_;
  std::vector<std::unique_ptr<mad::NodeTables>> tables_;
  std::vector<mad::SubnetAgent> agents_;
  std::vector<std::size_t> first_ports_;  // Of each node, in `links_of_ports_`.
  std::vector<std::uint32_t> links_of_ports_;
  std::vector<LinkState> links_;
  const DataCounters* data_counters_ = nullptr;
  std::vector<NodeCounts> counts_;
  std::vector<mad::PerformanceAgent> performance_agents_;
  Deadlines deadlines_;  // Of links that train by their index, then of nodes.
  struct Change {
    std::uint32_t node;
    mad::SubnetEffects effects;
  };
  std::vector<Change> changes_;
};

}  // namespace verbatim::fabric
