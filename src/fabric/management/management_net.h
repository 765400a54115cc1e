#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/net/path.h"
#include "base/time.h"
#include "base/types.h"
#include "fabric/management/deadlines.h"
#include "fabric/management/node_counts.h"
#include "fabric/topology/bit_errors.h"
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

/// Sees management datagrams that cross links which are watched.
class LinkWatcher {
 public:
  /// `from_b`: it leaves the link's end `b`.
  virtual void on_crossing(std::uint32_t link, bool from_b, const ManagementDatagram& datagram,
                           bool is_damaged) = 0;

 protected:
  ~LinkWatcher() = default;
};

/// Takes datagrams that leave by a trunk, and is told when its port changes. It may not call the
/// net from within.
class TrunkCarrier {
 public:
  virtual void on_departure(PortPlace port, const ManagementDatagram& datagram) = 0;
  /// Its PortInfo is another; its link may have gone down.
  virtual void on_trunk_changed(PortPlace port) = 0;

 protected:
  ~TrunkCarrier() = default;
};

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

  /// A datagram of a program's queue pair has come to queue pair 1 through the port, by the data
  /// path.
  void arrive_by_data(PortPlace in, const ManagementDatagram& datagram, TimeNs now);

  const wire::PortInfo& port_info(PortPlace port) const;
  wire::NodeInfo node_info(PortPlace port) const;
  /// How often a subnet manager has asked the port's software to register again (IBA 14.4.11).
  std::uint32_t reregistrations(PortPlace port) const;
  const mad::NodeTables& tables(std::uint32_t node) const { return *tables_[node]; }
  const wire::NodeDescription& node_description(PortPlace port) const;
  /// The node's own software describes it anew, and its managers are told.
  void set_node_description(std::uint32_t node, std::string_view text, TimeNs now);
  std::span<const std::uint16_t> pkeys(PortPlace port) const;
  /// The port's own GUID; alias GUIDs follow if a manager has set some.
  std::vector<std::uint64_t> guids(PortPlace port) const;
  /// As the performance agent shows them.
  mad::PortCounterValues counters(PortPlace port) const {
    return counts_[port.node].counters(port.port);
  }
  /// From now on the performance agents show these counts, too. They must outlive the net.
  void set_data_counters(const DataCounters& counters) { data_counters_ = &counters; }
  /// Software gives the port a capability or takes it back, and its manager is told: a bit of
  /// wire::port_capability, as IsSM. Returns false if it is so already.
  bool set_capability(PortPlace port, std::uint32_t capability, bool has_it, TimeNs now);
  /// A program has received `count` packets with a P_Key or Q_Key that does not match through the
  /// port: `trap` 257 or 258.
  void on_bad_key(PortPlace port, wire::TrapNumber trap, const wire::BadKeyDetails& last,
                  unsigned count, TimeNs now);
  /// Packets that come to the port by the data path are damaged too often: trap 129.
  void on_link_integrity_error(PortPlace port, TimeNs now);
  /// The cable `link`, an index in topology().links, is taken out or put in again.
  void set_link(std::uint32_t link, bool up, TimeNs now);
  /// The cable carries this rate at most from now on: the link trains again.
  void set_cable_rate(std::uint32_t link, Rate rate, TimeNs now);
  /// The cable's bits are wrong at this rate, up to kBitErrorRateMax: the port
  /// at its end finds damaged datagrams by their VCRC, and drops them.
  void set_bit_error_rate(std::uint32_t link, double rate);
  double bit_error_rate(std::uint32_t link) const { return links_[link].bit_error_rate; }
  /// Null: nobody. The watcher must outlive the net.
  void set_watcher(std::uint32_t link, LinkWatcher* watcher) { links_[link].watcher = watcher; }
  bool has_cable(std::uint32_t link) const { return links_[link].has_cable; }
  Rate cable_rate(std::uint32_t link) const { return links_[link].rate; }
  /// At which the link runs; while it is down, what its cable carries. A manager may allow less.
  Rate active_rate(std::uint32_t link) const {
    return links_[link].is_up ? links_[link].active : links_[link].rate;
  }

  // trunk_ports.cpp: ports whose cable ends in another fabric.

  /// Before the first trunk. The carrier must outlive the net.
  void set_trunk_carrier(TrunkCarrier& carrier) { carrier_ = &carrier; }
  /// Plugs a trunk of this rate into a port that has no cable. Its link is down.
  void add_trunk(PortPlace port, Rate rate, TimeNs now);
  /// Both sides have found each other, and train at this rate; or the link goes down.
  void set_trunk_link(PortPlace port, std::optional<Rate> rate, TimeNs now);
  bool is_trunk_up(PortPlace port) const;
  /// A datagram has come through a trunk.
  void receive(PortPlace in, const ManagementDatagram& datagram, TimeNs now);
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
    Rate rate;    // That the cable carries now.
    Rate active;  // At which it has trained last.
    double bit_error_rate = 0;
    BitErrors bit_errors{};  // Of both directions.
    LinkWatcher* watcher = nullptr;
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
  // routers.cpp.
  bool is_for_another_subnet(const Packet& packet, PortPlace at) const;
  Out forward(Packet& packet, PortPlace in);
  std::optional<PortPlace> port_with(const Gid& gid) const;
  Out take_step(Packet& packet, const mad::SmiStep& step, PortPlace at, TimeNs now);
  Out deliver(Packet& packet, PortPlace at, TimeNs now);
  Out deliver_smp(Packet& packet, PortPlace at, TimeNs now);
  Out deliver_general(Packet& packet, PortPlace at, TimeNs now);
  Out answer(Packet& packet, PortPlace at, TimeNs now);
  /// Nobody here takes it: a Get or Set is answered so, others are dropped.
  Out refuse(Packet& packet, wire::MadStatus status, PortPlace at, TimeNs now);
  void hand_over(Packet& packet, PortPlace at, TimeNs now);

  static void show(const Packet& packet, LinkWatcher& watcher, std::uint32_t link, bool from_b,
                   bool is_damaged);
  std::optional<PortPlace> cross(const Packet& packet, PortPlace out, TimeNs now);
  void tell_link_integrity_error(PortPlace port, TimeNs now);
  bool has_right_keys(const Packet& packet, PortPlace at, TimeNs now);
  bool passes_partition(const Packet& packet, PortPlace at, bool inbound, TimeNs now);
  std::span<const std::uint16_t> own_p_keys(PortPlace at) const;
  bool has_p_key(PortPlace at, std::uint16_t key, bool (*passes)(PKey entry, PKey sent)) const;
  bool is_local(PortPlace at, Lid lid) const;
  mad::SmiPlace smi_place(PortPlace at) const;

  void depart_by_trunk(const Packet& packet, PortPlace out, TimeNs now);
  void take_trunk_down(PortPlace port, TimeNs now);

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
  std::unordered_map<std::uint64_t, PortPlace> ports_by_guid_;  // Of hosts.
  std::vector<LinkState> links_;
  std::map<PortPlace, bool> trunks_;  // Whether each is up.
  TrunkCarrier* carrier_ = nullptr;
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
