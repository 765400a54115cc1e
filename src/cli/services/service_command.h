#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/command.h"
#include "cli/environment.h"
#include "cli/fabric/host.h"
#include "cli/program.h"
#include "service/control.h"

/// What commands of daemons share: each node, or host of a fabric, has one of a kind, named after
/// it. `up` starts it, `down` ends it, `show` tells what it does.
namespace verbatim::cli {

struct ServiceKind {
  const char* kind = "";  // Of `verbatim-ulpd`, and the command's word: "lnet".
  const char* what = "";  // "no LNet node of 'a' runs"
};

struct ServiceChoice {
  NodeChoice node;
  HostChoice host;
};
void add_service_options(CLI::App& command, ServiceChoice& choice);
/// The host that the choice, or else the environment, names: "H1", "FABRIC.H1" on a fabric that is
/// not the default one.
std::optional<std::string> host_name(const ServiceChoice& choice);
/// Whether an option or the environment says which node or host.
bool is_named(const ServiceChoice& choice);
/// The daemon is called as its host, or else as its node.
service::ServiceName service_name(const char* kind, const ServiceChoice& choice);

/// The names of the kind's daemons that run: "a, b"; empty if there are none.
std::string names_that_run(std::string_view kind);

/// Puts this process on the node or host.
std::expected<void, StartFailure> enter(const ServiceChoice& choice);

/// Print "verbatim KIND COMMAND: TEXT" to standard error, and return `status`.
int fail_service(const ServiceKind& kind, const char* command, const std::string& text,
                 int status = kExitFailure);

/// Starts the daemon with these options of its own; returns when it serves. The exit status.
int start_service(const ServiceKind& kind, const ServiceChoice& choice,
                  const std::vector<std::string>& options);
/// None: the reason is printed.
std::optional<nlohmann::json> ask_service(const ServiceKind& kind, const char* command,
                                          const ServiceChoice& choice,
                                          const nlohmann::json& question);

std::optional<nlohmann::json> ask_service(const ServiceKind& kind, const char* command,
                                          const service::ServiceName& name,
                                          const nlohmann::json& question);
/// All of the daemon's kind that run.
std::vector<service::ServiceName> running_services(std::string_view kind);
/// Prints what each of them does: as JSON an object, or of several a list; else what `text` makes
/// of it. The exit status.
int show_services(const ServiceKind& kind, const std::vector<service::ServiceName>& names,
                  bool as_json, std::string (*text)(const nlohmann::json& status));

void add_service_down(CLI::App& group, const ServiceKind& kind, const char* summary,
                      int& exit_status);
/// Without a name of a node or host: of all that run.
void add_service_show(CLI::App& group, const ServiceKind& kind, const char* summary,
                      std::string (*text)(const nlohmann::json& status), int& exit_status);

}  // namespace verbatim::cli
