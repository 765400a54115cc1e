#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

#include "agent/identity/interfaces.h"
#include "agent/protocol/node.h"
#include "base/error.h"
#include "base/net/address.h"
#include "cli/doctor/facts/service_needs.h"

/// Facts about this machine, which the checks judge. Checks read nothing else, so a test can
/// describe any machine.
namespace verbatim::cli::doctor {

/// A limit of the process (getrlimit(2)) or of its control group; nothing: unlimited.
using Limit = std::optional<std::uint64_t>;

/// Limit and use of a control group's resource.
struct Quota {
  Limit limit;
  std::uint64_t used = 0;
};

struct SharedMemoryFolder {  // /dev/shm
  bool is_present = false;
  bool is_tmpfs = false;
  bool is_writable = false;
  std::uint64_t free_bytes = 0;
};

struct RuntimeFolderFacts {
  Result<std::string> path;  // Where programs would find it.
  std::string wanted;        // XDG_RUNTIME_DIR; empty if it is not set.
  std::uint64_t free_bytes = ~std::uint64_t{0};
};

/// A socket of this network namespace, from /proc/net.
struct PortUser {
  SocketAddress address;
  uid_t uid = 0;
  pid_t pid = 0;        // 0: not visible to this user, as sockets of the kernel.
  std::string program;  // The program of `pid`.
};

struct RunningNode {
  std::string name;
  std::string version;  // The agent's version.
  std::string silence;  // Why the agent does not answer; empty if it does.
  pid_t agent_pid = 0;
  std::vector<pid_t> programs;
};

struct Installation {
  Result<std::string> folder;        // Folder of the drop-in libraries.
  std::vector<std::string> missing;  // Paths of missing files.
};

/// Result of opening the device in a child.
struct Trial {
  bool is_done = false;  // False if there was nothing to try it with.
  bool has_opened = false;
  std::string step;   // The first call that failed.
  std::string words;  // The library's log lines meanwhile.
};

struct Machine {
  uid_t uid = 0;
  std::string user;
  std::map<std::string, std::string> variables;  // The environment.

  std::string kernel;     // "6.1.0-18-amd64"
  std::string container;  // "Docker"; empty if there is no sign of one.
  // Results of system calls: 0 or errno.
  int memfd_error = 0;
  int pidfd_error = 0;
  int stop_error = 0;            // Stopping this program's threads (ptrace(2)).
  int peer_copy_error = 0;       // process_vm_readv(2) by a process that is no ancestor.
  int packet_socket_error = 0;   // For RoCE v1.
  int user_namespace_error = 0;  // Gives CAP_NET_RAW.
  int tun_error = 0;             // Opening /dev/net/tun.
  int ptrace_scope = 0;          // Yama's; 0 without Yama.

  Limit address_space;
  Limit file_size;
  Limit open_files;       // The hard limit, to which the agent raises the soft one.
  Limit open_files_soft;  // The soft limit, which programs keep.
  Limit processes;
  std::uint64_t processes_of_user = 0;
  Limit locked_memory;
  std::uint64_t free_memory_bytes = 0;
  Quota group_memory;
  Quota group_tasks;
  SharedMemoryFolder shared_memory;

  std::vector<agent::Interface> interfaces;
  std::vector<PortUser> roce_ports;      // UDP port 4791.
  std::vector<PortUser> tcp_ports;       // Listening.
  std::uint64_t receive_buffer_max = 0;  // net.core.rmem_max
  Quota tracked_connections;             // By netfilter.

  std::uint64_t first_free_port = 1024;        // The first TCP port that is not root's alone.
  std::set<const ServiceNeed*> missing_needs;  // Of kServiceNeeds.

  RuntimeFolderFacts runtime_folder;
  Installation installation;
  std::vector<RunningNode> nodes;
  Result<agent::Node> node;  // The node of a program that is started now.
  Trial trial;
};

/// Reads the facts of this machine, in the current environment. Starts the node's agent, which
/// exits by itself. `variables`: the user's original environment.
Machine read_machine(std::map<std::string, std::string> variables);

// Steps of it.
void read_limits(Machine& machine);
void read_network(Machine& machine);
void try_system_calls(Machine& machine);
/// Opens the device in a child, as a program would.
Trial try_device(const std::string& dropin_folder);

/// Returns the first line of a file of /proc or /sys; empty if it cannot be read.
std::string first_line(const std::string& path);

}  // namespace verbatim::cli::doctor
