#include "cli/services/service_command.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "fabric/protocol/fabric_folder.h"
#include "service/launch.h"

namespace verbatim::cli {
namespace {

std::string not_there(const ServiceKind& kind, const service::ServiceName& name) {
  const std::string others = names_that_run(kind.kind);
  return others.empty()
             ? fmt::format("no {} of '{}' runs: 'verbatim {} up' starts one", kind.what, name.name,
                           kind.kind)
             : fmt::format("no {} of '{}' runs (there is {})", kind.what, name.name, others);
}

int end_service(const ServiceKind& kind, const ServiceChoice& choice) {
  const auto name = service_name(kind.kind, choice);
  const auto ended = service::end(name);
  if (ended) return 0;
  return fail_service(kind, "down",
                      ended.error().code == ENOENT ? not_there(kind, name) : ended.error().text);
}

}  // namespace

std::string names_that_run(std::string_view kind) {
  std::string names;
  for (const auto& one : running_services(kind)) names += (names.empty() ? "" : ", ") + one.name;
  return names;
}

void add_service_options(CLI::App& command, ServiceChoice& choice) {
  add_node_options(command, choice.node);
  add_host_options(command, choice.host);
}

std::optional<std::string> host_name(const ServiceChoice& choice) {
  const auto chosen = [](const std::optional<std::string>& option, const char* variable) {
    const char* const value = getenv(variable);
    return option.value_or(value == nullptr ? "" : value);
  };
  const bool has_node = choice.node.node.has_value() || !choice.node.addresses.empty();
  if (!choice.host.host && has_node) return std::nullopt;
  const std::string host = chosen(choice.host.host, "VERBATIM_HOST"),
                    fabric = chosen(choice.host.fabric, "VERBATIM_FABRIC");
  if (host.empty()) return std::nullopt;
  const bool is_default = fabric.empty() || fabric == fabric::protocol::kDefaultFabric;
  return is_default ? host : fabric + "." + host;
}

bool is_named(const ServiceChoice& choice) {
  const char* const node = getenv("VERBATIM_NODE");
  const bool has_node =
      choice.node.node || !choice.node.addresses.empty() || (node != nullptr && *node != '\0');
  return has_node || host_name(choice);
}

service::ServiceName service_name(const char* kind, const ServiceChoice& choice) {
  if (auto host = host_name(choice)) return {kind, std::move(*host)};
  return {kind, node_of(choice.node)};
}

std::expected<void, StartFailure> enter(const ServiceChoice& choice) {
  if (auto set = set_environment(choice.node); !set) return set;
  if (const auto entered = enter_host(choice.host); !entered) {
    const Error& error = entered.error();
    return std::unexpected(
        StartFailure{error.code == EINVAL ? kExitUsage : kExitFailure, error.text});
  }
  return {};
}

int fail_service(const ServiceKind& kind, const char* command, const std::string& text,
                 int status) {
  fmt::print(stderr, "verbatim {} {}: {}\n", kind.kind, command, text);
  return status;
}

int start_service(const ServiceKind& kind, const ServiceChoice& choice,
                  const std::vector<std::string>& options) {
  if (const auto entered = enter(choice); !entered)
    return fail_service(kind, "up", entered.error().text, entered.error().exit_status);
  const auto program = service::find_program("verbatim-ulpd");
  if (!program) return fail_service(kind, "up", program.error().text);
  std::vector<std::string> words{kind.kind, "--name", service_name(kind.kind, choice).name};
  words.insert(words.end(), options.begin(), options.end());
  std::ranges::move(end_with_fabric(), std::back_inserter(words));
  const auto started = service::start_daemon({.program = *program, .arguments = words});
  if (started) return 0;
  return fail_service(kind, "up", started.error().text,
                      started.error().code == EINVAL ? kExitUsage : kExitFailure);
}

std::optional<nlohmann::json> ask_service(const ServiceKind& kind, const char* command,
                                          const ServiceChoice& choice,
                                          const nlohmann::json& question) {
  return ask_service(kind, command, service_name(kind.kind, choice), question);
}

std::optional<nlohmann::json> ask_service(const ServiceKind& kind, const char* command,
                                          const service::ServiceName& name,
                                          const nlohmann::json& question) {
  auto answer = service::ask(name, question);
  if (answer) return std::move(*answer);
  fail_service(kind, command,
               answer.error().code == ENOENT ? not_there(kind, name) : answer.error().text);
  return std::nullopt;
}

std::vector<service::ServiceName> running_services(std::string_view kind) {
  auto names = service::services();
  std::erase_if(names, [&](const service::ServiceName& one) {
    return one.kind != kind || service::process_of(one) == 0;
  });
  return names;
}

int show_services(const ServiceKind& kind, const std::vector<service::ServiceName>& names,
                  bool as_json, std::string (*text)(const nlohmann::json&)) {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& name : names) {
    auto status = ask_service(kind, "show", name, {{"ask", "status"}});
    if (!status) return kExitFailure;
    all.push_back(std::move(*status));
  }
  if (as_json) {
    fmt::print("{}\n", (all.size() == 1 ? all[0] : all).dump(2));
    return 0;
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names.size() > 1) fmt::print("{}{}:\n", i > 0 ? "\n" : "", names[i].name);
    fmt::print("{}", text(all[i]));
  }
  return 0;
}

void add_service_down(CLI::App& group, const ServiceKind& kind, const char* summary,
                      int& exit_status) {
  auto* command = group.add_subcommand("down", summary);
  auto choice = std::make_shared<ServiceChoice>();
  add_service_options(*command, *choice);
  command->callback([choice, kind, &exit_status] { exit_status = end_service(kind, *choice); });
}

void add_service_show(CLI::App& group, const ServiceKind& kind, const char* summary,
                      std::string (*text)(const nlohmann::json&), int& exit_status) {
  auto* command = group.add_subcommand("show", summary);
  auto choice = std::make_shared<ServiceChoice>();
  auto json = std::make_shared<bool>(false);
  add_service_options(*command, *choice);
  command->add_flag("--json", *json, "Print JSON");
  command->callback([choice, json, kind, text, &exit_status] {
    std::vector<service::ServiceName> names;
    if (!is_named(*choice)) names = running_services(kind.kind);
    if (names.empty()) names = {service_name(kind.kind, *choice)};
    exit_status = show_services(kind, names, *json, text);
  });
}

}  // namespace verbatim::cli
