#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "base/time.h"
#include "fabric/daemon/hosts/description_files.h"
#include "fabric/daemon/hosts/host_addresses.h"
#include "fabric/daemon/hosts/host_facts.h"
#include "fabric/daemon/hosts/host_view.h"
#include "fabric/daemon/issm_files.h"
#include "fabric/daemon/port_agents.h"
#include "fabric/daemon/port_groups.h"
#include "fabric/daemon/subnet_manager.h"
#include "fabric/daemon/trunks/trunks.h"
#include "fabric/keeper/keeper.h"
#include "fabric/management/management_net.h"
#include "fabric/protocol/channel.h"
#include "fabric/protocol/fabric_folder.h"
#include "fabric/protocol/manager_command.h"
#include "fabric/protocol/trunk_message.h"
#include "fabric/topology/topology.h"
#include "service/folder.h"

/// A running fabric: its nodes' management agents, and the sockets by which programs are hosts.
namespace verbatim::fabric {

class Server final : private HostSoftware {
 public:
  struct Options {
    std::string name;
    Topology topology;
    protocol::ManagerCommand manager;
    std::string working_folder = "/";  // Of the manager.
    Keeper::Pace pace = Keeper::Pace::by_link;
    UniqueFd owner;  // Readable when the process ends with which the fabric shall end; or none.
  };
  /// EEXIST: a fabric of this name runs.
  static Result<std::unique_ptr<Server>> create(Options options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Serves until it is told to stop, by a command or a signal, or its socket's file is taken away,
  /// or its owner has ended.
  void run();

 private:
  /// What the program of an open port gets.
  using PortMessage = std::variant<Delivery, protocol::MulticastMember>;
  /// A connection. It becomes an open port, or watches a host, or a program's end of the data path,
  /// or makes requests.
  struct Connection {
    UniqueFd fd;
    std::optional<PortPlace> port;
    std::optional<std::uint32_t> watched_host;
    bool is_behind = false;  // The host has changed, and the socket had no room for it.
    std::vector<std::uint32_t> captured_links;
    std::uint32_t end = 0;
    PortPlace end_port;             // Of the host whose end it is.
    UniqueFd process;               // Of the program that has the end: readable when it ends.
    std::deque<PortMessage> queue;  // What the socket has had no room for.
    std::size_t queued_bytes = 0;
  };

  Server(Options options, protocol::FabricFolder folder, std::unique_ptr<Keeper> keeper);
  Result<void> open();
  Result<void> start_managers();
  bool has_managers() const;
  Result<void> watch(int fd, std::uint32_t events) const;

  void serve(int fd);
  void accept_all();
  void pause_accepting(int error);
  void serve_connection(int fd);
  void close_connection(int fd);
  void on_issm_changes();
  void on_description_changes();
  void on_manager_end(SubnetManager& manager);
  nlohmann::ordered_json managers_status() const;

  // server_requests.cpp: returns why the request is refused.
  Result<void> on_message(Connection& connection, const protocol::Incoming& incoming);
  Result<void> on_open(Connection& connection, const protocol::OpenPort& request);
  Result<void> on_issm(Connection& connection, const protocol::IssmRequest& request);
  Result<void> on_watch(Connection& connection, const protocol::WatchHost& request);
  Result<void> on_gid(Connection& connection, const protocol::GidRequest& request);
  Result<void> on_view(Connection& connection, const protocol::ViewRequest& request);
  Result<void> on_status(Connection& connection);
  static Result<void> reply_text(Connection& connection, const std::string& text);
  Result<void> on_attach(Connection& connection, const protocol::AttachData& request);
  Result<void> on_end_message(Connection& connection, const protocol::Incoming& incoming);
  nlohmann::ordered_json agents_status() const;
  Result<void> on_link(Connection& connection, const protocol::LinkRequest& request);
  Result<void> on_trunk(Connection& connection, const protocol::TrunkRequest& request);
  Result<void> on_port_message(Connection& connection, const protocol::Incoming& incoming);
  Result<void> on_mad(Connection& connection, const protocol::Incoming& incoming);
  Result<PortPlace> find_port(const protocol::HostName& host, unsigned port) const;

  // server_captures.cpp
  Result<void> on_capture(Connection& connection, const protocol::CaptureRequest& request);
  void end_captures(const Connection& connection);

  // server_datagrams.cpp
  void on_datagram(PortPlace port, const ManagementDatagram& datagram, TimeNs now) override;
  void on_port_changed(PortPlace port) override;
  /// What programs' queue pairs have sent to queue pair 1 of a node.
  void take_from_programs(TimeNs now);
  PortAgents& agents_of(PortPlace port);
  PortGroups& groups_of(PortPlace port);
  /// Sends and delivers what the ports' agents have made, until nothing is left. Shows which of
  /// them the ports have.
  void carry_out(TimeNs now);
  void deliver(FileId file, PortMessage message);
  static bool send_now(int fd, const PortMessage& message);
  void flush(Connection& connection);
  void tell_changed_hosts();
  void tell(Connection& watcher, const protocol::HostDescription& facts);
  void wait_for_room(const Connection& connection, bool wanted) const;
  protocol::HostDescription facts_of(std::uint32_t host) const;
  std::vector<HostFile> counters_of(std::uint32_t host) const;
  Result<void> show(std::uint32_t host);
  std::vector<std::string> make_issm_files(std::uint32_t host);
  void show_counters(TimeNs now);

  TimeNs deadline() const;
  void on_time(TimeNs now);
  void begin_to_stop();
  void stop_managers(bool with_patience) const;

  const Options options_;
  const std::uint64_t id_;
  const HostAddresses addresses_;
  const protocol::FabricFolder folder_;
  service::LockFile lock_;
  UniqueFd epoll_;
  UniqueFd listener_;
  UniqueFd signals_;
  UniqueFd socket_watch_;
  std::optional<IssmFiles> issm_files_;
  std::optional<DescriptionFiles> description_files_;
  std::vector<SubnetManager> managers_;  // Of each subnet.
  std::map<int, Connection> connections_;
  std::map<int, int> connections_of_processes_;  // By the process's descriptor.
  /// Until the turn is over: else a newcomer could get a descriptor's number for which the turn has
  /// an event.
  std::vector<Connection> closed_;
  std::map<PortPlace, PortAgents> agents_;
  std::map<PortPlace, PortGroups> groups_;
  std::set<PortPlace> touched_;                 // Ports whose agents or groups may have output.
  std::map<PortPlace, TimeNs> deadlines_;       // Of ports whose agents or groups wait.
  std::multimap<std::uint32_t, int> watchers_;  // By host: connections.
  std::map<std::uint32_t, unsigned> captures_;  // How many, by link.
  /// By host. Their counters are looked at every second while a host has an agent.
  std::map<std::uint32_t, HostView> views_;
  TimeNs counters_due_ = kNever;
  std::set<std::uint32_t> changed_hosts_;
  TimeNs changes_due_ = kNever;  // When `changed_hosts_` are told.
  TimeNs accept_again_at_ = kNever;
  bool has_said_that_it_is_full_ = false;  // And nobody came in since.
  protocol::Receiver receiver_;
  bool is_stopping_ = false;
  TimeNs kill_managers_at_ = kNever;
  std::unique_ptr<Keeper> keeper_;
  ManagementNet net_;  // After those that it calls.
  Trunks trunks_{net_, *keeper_};
};

}  // namespace verbatim::fabric
