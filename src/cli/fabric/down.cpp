#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os/unique_fd.h"
#include "base/time.h"
#include "cli/command.h"
#include "cli/fabric/commands.h"
#include "cli/fabric/status.h"
#include "fabric/protocol/channel.h"
#include "fabric/protocol/fabric_folder.h"

namespace verbatim::cli {
namespace {

namespace protocol = fabric::protocol;

/// As long as the subnet manager may take to end, and longer.
constexpr TimeNs kTimeout = 10 * kSecond;

/// Becomes readable when the process has ended.
UniqueFd watch_process(pid_t process) {
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
}

/// The daemon behind the connection and, after it, the agents of its hosts. One that has ended
/// already is left out.
Result<std::vector<UniqueFd>> watch_processes(int connection, const std::string& name) {
  ucred daemon{};
  socklen_t length = sizeof daemon;
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &daemon, &length) != 0) {
    return refuse_errno("whose socket is it");
  }
  std::vector<UniqueFd> watches;
  watches.push_back(watch_process(daemon.pid));
  if (!watches.front()) return refuse_errno("cannot watch the fabric's daemon");
  const auto status = fabric_status(name);
  if (!status) return std::unexpected(status.error());
  for (const auto& agent : status->at("agents")) {
    UniqueFd watch = watch_process(agent.at("pid").get<pid_t>());
    if (watch) watches.push_back(std::move(watch));
  }
  return watches;
}

Result<void> end_fabric(const std::string& name) {
  const auto folder = protocol::FabricFolder::of(name);
  if (!folder) return std::unexpected(folder.error());
  const auto connection = folder->connect();
  if (!connection) return std::unexpected(connection.error());
  const auto processes = watch_processes(connection->get(), name);
  if (!processes) return std::unexpected(processes.error());
  if (auto sent = protocol::send(connection->get(), protocol::StopRequest{}); !sent) return sent;
  const TimeNs deadline = monotonic_now() + kTimeout;
  for (const UniqueFd& process : *processes) {
    pollfd ended{process.get(), POLLIN, 0};
    const TimeNs now = monotonic_now();
    const TimeNs left = now < deadline ? deadline - now : 0;
    if (poll(&ended, 1, static_cast<int>(left / kMillisecond)) > 0) continue;
    const bool is_daemon = &process == &processes->front();
    return refuse(EBUSY, fmt::format("{} of fabric '{}' does not end: see {}",
                                     is_daemon ? "the daemon" : "an agent of a host", name,
                                     is_daemon ? folder->log() : "'verbatim status'"));
  }
  return {};
}

}  // namespace

void add_fabric_down(CLI::App& fabric, int& exit_status) {
  auto* down = fabric.add_subcommand("down", "End a fabric and its subnet manager");
  auto name = std::make_shared<std::string>();  // Lives as long as the callback that reads it.
  add_name_option(*down, *name);
  down->callback([name, &exit_status] {
    if (const auto ended = end_fabric(*name); !ended) {
      fmt::print(stderr, "verbatim fabric down: {}\n", ended.error().text);
      exit_status = kExitFailure;
    }
  });
}

}  // namespace verbatim::cli
