#include "cli/rds/broker.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iterator>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "cli/fabric/host.h"
#include "cli/services/service_command.h"
#include "cli/sockets/preload.h"
#include "service/launch.h"
#include "ulp/rds/local/client.h"

namespace verbatim::cli {
namespace {

/// In the drop-ins' folder.
constexpr const char* kRdsLibrary = "/rds/librdspreload.so.1";

Result<std::string> path_of(const service::ServiceName& name) {
  const auto status = service::ask(name, {{"ask", "status"}});
  if (!status) return std::unexpected(status.error());
  return status->value("socket", std::string());
}

/// Opens a socket that stays open, and waits for the broker to know it.
bool is_admitted(const std::string& path) {
  namespace local = ulp::rds::local;
  const int fd = local::open_socket(path, 0);
  local::Answer answer;
  if (fd >= 0 && local::ask(fd, local::Ask::own_name, answer) >= 0) return true;
  if (fd >= 0) close(fd);
  return false;
}

}  // namespace

Result<std::string> find_rds_broker(bool stays) {
  const auto name = service_name("rds", {});
  if (auto path = path_of(name); path || path.error().code != ENOENT) {
    if (path && stays) service::ask(name, {{"ask", "stay"}});
    return path;
  }
  const auto program = service::find_program("verbatim-ulpd");
  if (!program) return program;
  std::vector<std::string> words{"rds", "--name", name.name};
  if (!stays) words.insert(words.end(), {"--until-idle", "yes"});
  std::ranges::move(end_with_fabric(), std::back_inserter(words));
  const auto started = service::start_daemon({.program = *program, .arguments = words});
  auto path = path_of(name);
  // Another program may have been first.
  return path || started ? path : std::unexpected(started.error());
}

Result<void> use_rds_library(bool stays) {
  constexpr int kTries = 100;
  constexpr useconds_t kPause = 50'000;
  auto path = find_rds_broker(stays);
  if (!path) return std::unexpected(path.error());
  // The program inherits the socket: as long as it lives, the broker has a user. One that ends,
  // idle, does not admit it; then there is another soon.
  for (int tries = 1; !path || !is_admitted(*path); ++tries) {
    if (tries == kTries) return refuse_errno("the RDS broker");
    usleep(kPause);
    path = find_rds_broker(stays);
  }
  if (auto added = add_preload(kRdsLibrary); !added) return added;
  setenv("VERBATIM_RDS", path->c_str(), 1);
  return {};
}

}  // namespace verbatim::cli
