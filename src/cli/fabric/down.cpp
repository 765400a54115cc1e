#include <memory>
#include <string>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/fabric/commands.h"
#include "fabric/protocol/channel.h"
#include "fabric/protocol/fabric_folder.h"

namespace verbatim::cli {
namespace {

namespace protocol = fabric::protocol;

/// As long as the subnet manager may take to end, and longer.
constexpr int kTimeoutMs = 10'000;

/// Becomes readable when the daemon behind the connection has ended.
Result<UniqueFd> watch_daemon(int connection) {
  ucred daemon{};
  socklen_t length = sizeof daemon;
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &daemon, &length) != 0) {
    return refuse_errno("whose socket is it");
  }
  UniqueFd watch(static_cast<int>(syscall(SYS_pidfd_open, daemon.pid, 0)));
  if (!watch) return refuse_errno("cannot watch the fabric's daemon");
  return watch;
}

Result<void> end_fabric(const std::string& name) {
  const auto folder = protocol::FabricFolder::of(name);
  if (!folder) return std::unexpected(folder.error());
  const auto connection = folder->connect();
  if (!connection) return std::unexpected(connection.error());
  const auto daemon = watch_daemon(connection->get());
  if (!daemon) return std::unexpected(daemon.error());
  if (auto sent = protocol::send(connection->get(), protocol::StopRequest{}); !sent) return sent;
  pollfd ended{daemon->get(), POLLIN, 0};
  if (poll(&ended, 1, kTimeoutMs) > 0) return {};
  return refuse(EBUSY,
                fmt::format("the daemon of fabric '{}' does not end: see {}", name, folder->log()));
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
