#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "agent/identity/interfaces.h"
#include "agent/protocol/node.h"
#include "base/error.h"
#include "base/net/address.h"

/// The facts about this machine that the checks judge. Checks read nothing else, so that a test can
/// describe any machine.
namespace verbatim::cli::doctor {

/// A limit of the process (getrlimit(2)) or of its control group; none: unlimited.
using Limit = std::optional<std::uint64_t>;

/// What a control group may use, and uses.
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
  Result<std::string> path;  // As programs would find it.
  std::string wanted;        // XDG_RUNTIME_DIR; empty if it is not set.
  std::uint64_t free_bytes = ~std::uint64_t{0};
};

/// A socket of this network namespace, as /proc/net tells of it.
struct PortUser {
  SocketAddress address;
  uid_t uid = 0;
  pid_t pid = 0;        // 0: no process that this user may look into, such as the kernel's own.
  std::string program;  // Of `pid`.
};

struct RunningNode {
  std::string name;
  std::string version;  // Of its agent.
  std::string silence;  // Why the agent does not tell; empty if it does.
  pid_t agent_pid = 0;
  std::vector<pid_t> programs;
};

struct Installation {
  Result<std::string> folder;        // Of the drop-in libraries.
  std::vector<std::string> missing;  // Paths of files that should be there.
};

/// Whether a program can open the device, tried in a child.
struct Trial {
  bool is_done = false;  // False if there was nothing to try it with.
  bool has_opened = false;
  std::string step;   // The first call that failed.
  std::string words;  // What the library said meanwhile.
};

struct Machine {
  uid_t uid = 0;
  std::string user;
  std::map<std::string, std::string> variables;  // The environment.

  std::string kernel;     // "6.1.0-18-amd64"
  std::string container;  // "Docker"; empty if it looks like none.
  // System calls that were tried: 0, or the errno.
  int memfd_error = 0;
  int pidfd_error = 0;
  int userfaultfd_error = 0;
  int peer_copy_error = 0;       // process_vm_readv(2) from a process that is no ancestor.
  int packet_socket_error = 0;   // RoCE v1.
  int user_namespace_error = 0;  // A way to CAP_NET_RAW.
  int ptrace_scope = 0;          // Of Yama; 0 if there is no Yama.

  Limit address_space;
  Limit file_size;
  Limit open_files;       // The hard limit: the agent raises the soft one.
  Limit open_files_soft;  // Programs keep theirs.
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
  Quota tracked_connections;             // Netfilter's.

  RuntimeFolderFacts runtime_folder;
  Installation installation;
  std::vector<RunningNode> nodes;
  Result<agent::NodeDescription> node;  // The node that a program started now would belong to.
  Trial trial;
};

/// Looks at this machine, in the environment as it is now. Starts the node's agent, which leaves by
/// itself. `variables`: the environment as the user had it.
Machine read_machine(std::map<std::string, std::string> variables);

// Parts of it.
void read_limits(Machine& machine);
void read_network(Machine& machine);
void try_system_calls(Machine& machine);
/// Opens the device in a child, as a program would.
Trial try_device(const std::string& dropin_folder);

/// The first line of a file of /proc or /sys; empty if it cannot be read.
std::string first_line(const std::string& path);

}  // namespace verbatim::cli::doctor
