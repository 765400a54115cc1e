#include "agent/client/agent_request.h"

#include <sys/socket.h>

#include "agent/client/start_agent.h"
#include "config/layers.h"
#include "service/folder.h"

namespace verbatim::agent {
namespace {

/// Starting an agent takes milliseconds; the lock may be held as long as one start may take at
/// most.
constexpr TimeNs kStartLockTimeout = 15 * kSecond;

bool nobody_listens(const Error& error) {
  return error.code == ENOENT || error.code == ECONNREFUSED;
}

Result<UniqueFd> connect_to_agent(const AgentOptions& options, const std::string& path) {
  auto connection = service::connect_to(path);
  if (connection || connection.error().code != EAGAIN) return connection;
  return refuse(ETIMEDOUT, fmt::format("the agent of node '{}' takes no connection", options.node));
}

/// Requires the start lock: its earlier holder has probably started the agent.
Result<UniqueFd> connect_or_start_alone(const AgentOptions& options, const std::string& path) {
  auto connection = connect_to_agent(options, path);
  if (connection || !nobody_listens(connection.error())) return connection;
  if (auto started = start_agent(options); !started) return std::unexpected(started.error());
  connection = connect_to_agent(options, path);
  if (!connection && nobody_listens(connection.error())) {
    return refuse(kClosed, "the agent left as soon as it was ready");
  }
  return connection;
}

}  // namespace

Result<UniqueFd> connect_or_start(const AgentOptions& options) {
  if (auto fitting = service::check_node_name(options.node); !fitting) {
    return std::unexpected(fitting.error());
  }
  auto folder = service::RuntimeFolder::open();
  if (!folder) return std::unexpected(folder.error());
  const std::string path = folder->socket(options.node);
  auto connection = connect_to_agent(options, path);
  if (!connection && nobody_listens(connection.error())) {
    auto lock = service::LockFile::take(folder->start_lock(options.node), kStartLockTimeout);
    if (!lock) {
      // ENOENT: an exiting agent has removed the empty folder.
      const int code = lock.error().code == ENOENT ? kClosed : lock.error().code;
      return refuse(code, lock.error().text);
    }
    connection = connect_or_start_alone(options, path);
    lock->remove();
  }
  return connection;
}

Result<UniqueFd> connect_to_running(const std::string& node, TimeNs patience) {
  if (auto fitting = service::check_node_name(node); !fitting)
    return std::unexpected(fitting.error());
  auto folder = service::RuntimeFolder::open();
  if (!folder) return std::unexpected(folder.error());
  auto connection = service::connect_to(folder->socket(node), patience);
  const int code = connection ? 0 : connection.error().code;
  if (code == ENOENT || code == ECONNREFUSED) {
    return refuse(ENOENT, fmt::format("node '{}' does not run: its first program starts it", node));
  }
  return connection;
}

Result<WantedNode> wanted_node(const AgentOptions& options) {
  WantedNode wanted;
  if (options.addresses.size() > kAddressesMax) return refuse(EINVAL, "too many addresses");
  for (const auto& address : options.addresses) {
    wanted.addresses[wanted.address_count++] = to_record(address);
  }
  for (const RoceVersion version : options.versions) {
    wanted.versions[wanted.version_count++] = version;
  }
  if (options.protocol) {
    wanted.names_protocol = 1;
    wanted.protocol = *options.protocol;
  }
  put_text(wanted.device, options.device);
  put_text(wanted.profile, options.profile);
  wanted.fabric = options.fabric;
  wanted.host = options.host;
  wanted.host.make_printable();  // As the node has it.
  wanted.function = options.function;
  wanted.function.make_printable();
  const auto folders = config::config_folders();
  const auto values = folders ? config::resolve(options.node, *folders, options.settings())
                              : std::unexpected(folders.error());
  if (values) wanted.configuration = config::digest_of(*values);
  return wanted;
}

/// " (process 12)": the one that listens where the socket is connected to. Empty for a pair of
/// sockets that this process has made.
static std::string listener_of(int connection) {
  ucred who{};
  socklen_t size = sizeof who;
  const bool is_told = getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
                       who.pid != 0 && who.pid != getpid();
  return is_told ? fmt::format(" (process {})", who.pid) : "";
}

Result<Incoming> await_answer(int connection) {
  auto incoming = receive(connection);
  if (!incoming) {
    if (incoming.error().code == EAGAIN) {
      return refuse(ETIMEDOUT, fmt::format("the agent{} does not answer", listener_of(connection)));
    }
    return incoming;
  }
  if (incoming->type() != MessageType::refusal) return incoming;
  const auto refusal = incoming->as<Refusal>();
  if (!refusal) return std::unexpected(refusal.error());
  return refuse(refusal->code, get_text(refusal->text));
}

}  // namespace verbatim::agent
