#include "cli/rds/broker.h"

#include <cerrno>
#include <cstdlib>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "cli/environment.h"
#include "service/launch.h"
#include "ulp/rds/local/client.h"

namespace verbatim::cli {
namespace {

/// In the drop-ins' folder.
constexpr const char* kRdsLibrary = "/rds/librdspreload.so.1";

std::string variable(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

Result<std::string> path_of(const service::ServiceName& name) {
  const auto status = service::ask(name, {{"ask", "status"}});
  if (!status) return std::unexpected(status.error());
  return status->value("socket", std::string());
}

}  // namespace

service::ServiceName rds_broker_name() {
  const std::string host = variable("VERBATIM_HOST"), fabric = variable("VERBATIM_FABRIC");
  if (host.empty()) return {"rds", node_of({})};
  const bool is_default = fabric.empty() || fabric == "default";
  return {"rds", is_default ? host : fabric + "." + host};
}

Result<std::string> find_rds_broker(bool stays) {
  const auto name = rds_broker_name();
  if (auto path = path_of(name); path || path.error().code != ENOENT) {
    if (path && stays) service::ask(name, {{"ask", "stay"}});
    return path;
  }
  const auto program = service::find_program("verbatim-ulpd");
  if (!program) return program;
  std::vector<std::string> words{"rds", "--name", name.name};
  if (!stays) words.insert(words.end(), {"--until-idle", "yes"});
  const auto started = service::start_daemon({.program = *program, .arguments = words});
  auto path = path_of(name);
  // Another program may have been first.
  return path || started ? path : std::unexpected(started.error());
}

Result<void> use_rds_library() {
  const auto path = find_rds_broker(false);
  if (!path) return std::unexpected(path.error());
  const auto own = own_folder();
  if (!own) return std::unexpected(own.error());
  const auto dropins = find_dropin_folder(*own);
  if (!dropins) return std::unexpected(dropins.error());
  // The program inherits it: as long as it lives, the broker has a user.
  if (ulp::rds::local::open_socket(*path, 0) < 0) return refuse_errno("the RDS broker");
  const char* const old = getenv("LD_PRELOAD");
  setenv("LD_PRELOAD", with_library(old, *dropins + kRdsLibrary).c_str(), 1);
  setenv("VERBATIM_RDS", path->c_str(), 1);
  return {};
}

}  // namespace verbatim::cli
