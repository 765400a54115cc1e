#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/command.h"
#include "cli/fabric/port_name.h"
#include "cli/fabric/status.h"
#include "fabric/protocol/channel.h"

/// What the commands share that change a cable.
namespace verbatim::cli {

/// Writes the port that users name into the request. EINVAL with a text for users.
template <typename Request>
Result<void> put_port(const std::string& text, Request& request) {
  const auto port = parse_port_name(text);
  if (!port) return std::unexpected(port.error());
  fabric::protocol::put_text(request.node, port->node);
  request.port = port->port;
  return {};
}

/// Asks the daemon of the fabric `name` for the change, and prints what is wrong. Returns the exit
/// status of `verbatim fabric COMMAND`; a request that is an error is one of its usage.
template <typename Request>
int change_cable(std::string_view command, const Result<Request>& request,
                 const std::string& name) {
  const auto fail = [command](const Error& error, int status) {
    fmt::print(stderr, "verbatim fabric {}: {}\n", command, error.text);
    return status;
  };
  if (!request) return fail(request.error(), kExitUsage);
  const auto connection = connect_to_fabric(name);
  if (!connection) return fail(connection.error(), kExitFailure);
  const auto done = fabric::protocol::ask<fabric::protocol::Done>(connection->get(), *request);
  return done ? 0 : fail(done.error(), kExitFailure);
}

}  // namespace verbatim::cli
