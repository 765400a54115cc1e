#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/fabric/fabric_host.h"
#include "agent/identity/interface_watch.h"
#include "agent/identity/interfaces.h"
#include "agent/management/early_requests.h"
#include "agent/management/management_port.h"
#include "agent/management/pending_disconnects.h"
#include "agent/management/rdma_cm_ports.h"
#include "agent/management/request_rates.h"
#include "agent/netlink/netlink_sockets.h"
#include "agent/protocol/claims.h"
#include "agent/protocol/protocol.h"
#include "agent/server/on_demand.h"
#include "agent/server/port_totals.h"
#include "agent/server/status.h"
#include "agent/sockets/slots.h"
#include "agent/sockets/spare_descriptors.h"
#include "base/time.h"
#include "cm/ib/routing.h"
#include "config/layers.h"
#include "config/node_config.h"
#include "mad/dispatcher.h"
#include "service/folder.h"

/// The agent: one thread that handles the messages of programs and commands, and their ends.
namespace verbatim::agent {

/// What the node of an interface or function claims, so that no other one has it.
std::string interface_claim(const Node& node);

class Server {
 public:
  struct Options {
    std::string node = "local";
    std::vector<config::Setting> given;  // These have priority over the node's file.
    bool stays = false;                  // Also without programs, until a signal comes.
  };

  /// Takes the node's lock, and its addresses if no program of it is alive. Errors: EADDRINUSE,
  /// EADDRNOTAVAIL, EEXIST (another agent runs), EINVAL...
  static Result<std::unique_ptr<Server>> create(Options options);
  ~Server();

  /// Serves until the last program has ended or a signal comes. Then removes the node's files.
  void run();

 private:
  struct Program {
    std::uint32_t slot = 0;
    std::time_t since = 0;
    std::string name;
    std::vector<UniqueFd> files;  // As in `SharedFiles`: none, the arena, or all.
    int arena() const { return files.empty() ? -1 : files[0].get(); }
  };
  struct Connection {
    UniqueFd fd;
    UniqueFd process;  // A pidfd: shows the end of the process even if a child has its socket.
    pid_t pid = 0;
    std::optional<Program> program;
    std::optional<Incoming> waiting;      // A request that came before the node was known.
    int bindings = -1;                    // Programs: the connection for its port requests.
    std::uint64_t datagrams_dropped = 0;  // Management datagrams for which its socket was full.
    int bindings_of = -1;                 // Such a connection: the program's connection.
    UniqueFd room;                        // Programs: reserves a descriptor for `bindings`.
    bool keeps_node = false;              // A command: as a program, without a slot.
    bool is_surplus = false;              // Accepted with a spare descriptor: it gets one answer.
    NetworkState announced_port;          // What a program knows of the node's port,
    std::size_t announced_addresses = 0;  // and of how many of its addresses it has sockets.
    std::uint64_t announced_links = 0;    // Which `link_change_` it knows,
    std::uint64_t joined_links = 0;       // and which one was when it joined.
    bool is_direct = false;               // A peer of this machine was given its files.
  };

  Server(Options options, service::RuntimeFolder folder, service::LockFile lock);
  Result<void> listen();
  Result<void> watch(int fd);
  int timeout_ms() const;
  /// Returns true half a second after the last connection has closed.
  bool may_leave() const {
    return connections_.empty() && pending_disconnects_.empty() && !options_.stays;
  }
  /// Programs of the node live, commands keep it, or it stays anyway.
  bool is_in_use() const;
  /// Not an agent that has only begun, or whose programs are about to rejoin it.
  bool may_give_way() const { return has_served_ && !recovering() && !is_in_use(); }
  void on_ready(int fd);
  void on_time();
  void on_connection();
  void on_message(int fd);
  void close_connection(int fd);
  void finish();

  // Handling of few descriptors: server_limits.cpp.
  UniqueFd accept(bool& is_surplus);
  void pause_accepting();
  void resume_accepting();
  Result<Incoming> receive_from(Connection& connection);
  void leave_room(Connection& connection);
  void end_surplus();
  Error out_of_descriptors() const;
  Result<void> check_room_for_program(Connection& connection);
  void refuse_with(int fd, const Error& error);

  // Starts without programs of an earlier agent.
  Result<void> begin();
  Result<config::Effective> wanted_node() const;
  Result<Node> choose_identity();
  Result<void> claim_addresses(const Node& node);
  // With them: until one rejoins, nobody else is served.
  bool recovering() const { return !slots_.has_value(); }
  Result<void> recover(Incoming& rejoin);
  void show_view() const;
  /// Writes the view's counters again if they are old.
  void look_at_counters();
  /// Returns when `look_at_counters` is due, kNever if no counter changes.
  TimeNs counters_deadline() const;

  /// What the node offers as soon as it is known: queue pair 1, and RDMA netlink.
  Result<void> open_services();
  // RDMA netlink: server_netlink.cpp.
  void open_netlink();
  PortTotals port_totals_now() const;
  std::vector<ProgramEntry> program_entries() const;

  // The node of a fabric's host: server_fabric.cpp.
  Result<void> open_own_fabric();
  Result<void> open_fabric(const std::string& fabric, const std::string& host);
  Result<void> reopen_fabric(const Node& node);
  void on_fabric_change();

  // The node on a card's function: server_function.cpp.
  Result<Node> node_on_function(const config::NodeConfig& wanted);

  // Changes of the network: see server_port.cpp.
  Result<void> watch_interfaces();
  void look_at_port();
  void set_network(const NetworkState& state);
  void look_for_addresses(const std::vector<Interface>& interfaces);
  Result<void> add_address(const SocketAddress& address);
  Result<void> add_address(const SocketAddress& address, RoceVersion version);
  void announce_port();
  Result<void> announce_port(Connection& connection);

  // Captures and faults: server_links.cpp.
  Result<void> on_capture_request(Connection& connection, const Incoming& incoming);
  Result<void> on_capture_offer(Connection& connection, Incoming& incoming);
  Result<void> on_capture_sync(const Connection& connection, const Incoming& incoming);
  void hear_out(int fd);
  Result<void> on_fault_request(Connection& connection, const Incoming& incoming);
  void end_capture();
  void announce_links();
  LinkOrders links_for(const Connection& program) const;
  void adopt_faults(const FaultText& faults);
  void note_direct(Connection& program);
  Result<void> tell_capturer(const Connection& program, std::span<const int> ring,
                             std::string_view failure);

  void on_recovery_time();
  void serve_waiting();
  void refuse_waiting(const Error& error);

  /// Refusals are sent to the other side; if sending fails, it has closed.
  void serve(Connection& connection, Incoming incoming);
  Result<void> answer(Connection& connection, Incoming& incoming);
  Result<void> on_hello(Connection& connection, Incoming& incoming);
  Result<void> on_rejoin(Connection& connection, Incoming& incoming);
  Result<void> on_status_request(Connection& connection);
  Result<void> on_peer_request(Connection& connection, const Incoming& incoming);
  Result<void> on_description_request(Connection& connection, const Incoming& incoming);
  Result<void> on_give_way(const Connection& connection);
  /// Returns an error if this node is another one and has programs; if it has none, the agent
  /// leaves, too.
  Result<void> become_wanted(const WantedNode& wanted);
  Result<void> check_addresses(const WantedNode& wanted) const;
  Result<void> check_versions(const WantedNode& wanted) const;
  Result<void> check_protocol(const WantedNode& wanted) const;
  Result<void> check_device(const WantedNode& wanted) const;
  Result<void> check_host(const WantedNode& wanted) const;
  Result<void> check_function(const WantedNode& wanted) const;
  Result<void> on_open_bindings(Connection& connection, Incoming& incoming);
  Result<void> on_binding_request(Connection& connection, const Incoming& incoming);
  Result<void> welcome(Connection& connection, Program program, const UniqueFd& lock);
  Node description() const;

  // Management datagrams: passed to the program that they are for, or answered.
  Result<void> open_management_port();
  void on_mad(const Mad& mad);
  /// Handles those of the communication manager.
  void on_cm_mad(const Mad& mad);
  void pass_on(Connection& program, const Mad& mad);
  void pass_on_request(Connection& program, const Mad& mad);
  /// Returns the program in a slot, if it has a connection manager.
  Connection* manager_in(std::uint32_t slot);
  /// Returns the program that a datagram to the node's address `own` is for.
  Connection* manager_of(const cm::Route& route, const SocketAddress& own);
  void send_disconnects();
  /// As `manager_of`, after reading what the program has already sent: it may have stopped
  /// listening.
  Connection* up_to_date_manager_of(const cm::Route& route, const SocketAddress& own);
  void refuse_mad(const Mad& mad);
  void serve_early_requests();
  Result<void> start_on_demand(std::vector<std::string> words) const;

  Options options_;
  service::RuntimeFolder folder_;
  service::LockFile lock_;
  Claims claims_;
  SlotLocks slot_locks_;
  std::optional<Slots> slots_;  // Empty while recovering.
  std::map<int, Connection> connections_;
  std::map<int, int> connection_of_process_;  // From pidfd to connection.
  /// Connections closed in the current batch of epoll events. They stay open until the batch is
  /// done: events name descriptors, and a new connection must not reuse a number.
  std::vector<Connection> closed_;
  std::map<std::uint32_t, int> connection_of_slot_;
  std::unique_ptr<FabricHost> fabric_;                // Null unless the node is a fabric's host.
  std::unique_ptr<netlink::NetlinkSockets> netlink_;  // Null where its socket cannot be made.
  std::unique_ptr<ManagementPort> management_;
  mad::Dispatcher dispatcher_;
  mad::ClientId communication_manager_{};  // Of the dispatcher.
  PortTable ports_;
  PendingDisconnects pending_disconnects_;
  EarlyRequests early_requests_;
  OnDemand on_demand_{[this](const auto& words) { return start_on_demand(words); }};
  RequestRates request_rates_;
  bool programs_spoke_ = false;  // Since early requests were served: one may listen now.
  TimeNs next_warning_ = 0;      // Of what the network asks.
  std::optional<InterfaceWatch> interface_watch_;  // Empty where the kernel refuses.
  NetworkState port_;
  /// Addresses of the node's interface that are not the node's: those it had before the agent, and
  /// those that were refused. Empty until they are looked at first.
  std::optional<std::vector<SocketAddress>> ignored_addresses_;
  bool port_is_announced_ = true;  // False if a program's socket was full: it is told again.
  LinkOrders links_;
  std::uint64_t link_change_ = 1;    // Counts changes of links_.
  std::uint64_t fault_change_ = 0;   // Which of them was the faults' last one.
  bool links_are_announced_ = true;  // As port_is_announced_.
  int capturer_ = -1;                // The connection of who captures.
  UniqueFd listening_, events_, signals_;
  SpareDescriptors spares_;
  TimeNs resume_at_ = kNever;                // No connection is accepted until then.
  std::map<int, TimeNs> surplus_deadlines_;  // By connection.
  PortTotals totals_of_the_gone_;            // Of ended programs, so that counters never decrease.
  PortTotals totals_shown_;
  FaultTotals faults_of_the_gone_;
  TimeNs counters_deadline_ = 0;
  TimeNs recovery_deadline_ = kNever;
  TimeNs rejoined_until_ = 0;  // Programs of an earlier agent may still be about to rejoin.
  TimeNs idle_since_ = 0;
  std::uint64_t configuration_ = 0;  // Of all values (config::digest_of); 0: an earlier agent's.
  bool has_served_ = false;          // Else who started the agent is about to ask.
  bool stopping_ = false;
};

}  // namespace verbatim::agent
