#include <algorithm>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>
#include <pwd.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/client/client.h"
#include "agent/client/start_agent.h"
#include "cli/doctor/facts/machine.h"
#include "cli/environment.h"
#include "service/folder.h"

namespace verbatim::cli::doctor {
namespace {

std::string user_name(uid_t uid) {
  const passwd* const entry = getpwuid(uid);
  return entry != nullptr ? entry->pw_name : std::to_string(uid);
}

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

/// Recognises a container.
std::string container_kind() {
  if (exists("/.dockerenv")) return "Docker";
  if (exists("/run/.containerenv")) return "Podman";
  if (getenv("KUBERNETES_SERVICE_HOST") != nullptr) return "Kubernetes";
  if (getenv("APPTAINER_CONTAINER") != nullptr || exists("/.singularity.d")) return "Apptainer";
  return first_line("/run/systemd/container");
}

RuntimeFolderFacts read_runtime_folder() {
  const char* const wanted = getenv("XDG_RUNTIME_DIR");
  RuntimeFolderFacts facts{.path = {}, .wanted = wanted != nullptr ? wanted : ""};
  const auto folder = service::RuntimeFolder::open();
  if (!folder) {
    facts.path = std::unexpected(folder.error());
    return facts;
  }
  facts.path = folder->path();
  struct statvfs room{};
  if (statvfs(folder->path().c_str(), &room) == 0) facts.free_bytes = room.f_bavail * room.f_frsize;
  folder->remove_if_empty();
  return facts;
}

Installation read_installation() {
  Installation installation;
  const auto own = own_folder();
  installation.folder = own ? find_dropin_folder(*own) : own;
  if (!installation.folder) return installation;
  for (const char* library : {"/libibverbs.so.1", "/librdmacm.so.1", "/libverbatim-view.so",
                              "/rsocket/librspreload.so.1"}) {
    const std::string path = *installation.folder + library;
    if (!exists(path)) installation.missing.push_back(path);
  }
  const auto options = agent::AgentOptions::from_environment();
  const auto agent = agent::find_agent_program(options ? *options : agent::AgentOptions{});
  if (!agent) installation.missing.push_back("verbatimd");
  return installation;
}

std::set<const ServiceNeed*> missing_in(const std::string& dropin_folder) {
  std::set<const ServiceNeed*> missing;
  for (const ServiceNeed& need : kServiceNeeds) {
    const bool is_there = std::ranges::any_of(need.any_of, [&](const char* path) {
      if (path == nullptr) return false;
      return access((*path == '/' ? path : dropin_folder + "/" + path).c_str(), R_OK) == 0;
    });
    if (!is_there) missing.insert(&need);
  }
  return missing;
}

std::vector<RunningNode> read_nodes() {
  std::vector<RunningNode> nodes;
  const auto names = agent::list_nodes();
  if (!names) return nodes;
  for (const std::string& name : *names) {
    const auto text = agent::request_status(name);
    if (!text && text.error().code == ENOENT) continue;  // It has ended meanwhile.
    RunningNode node{.name = name, .version = {}, .silence = {}, .programs = {}};
    if (!text) node.silence = text.error().text;
    const auto status =
        nlohmann::json::parse(text ? *text : "", nullptr, /*allow_exceptions=*/false);
    if (status.is_object()) {
      node.version = status.value("version", "");
      node.agent_pid = status.value("agent_pid", 0);
      for (const auto& program : status.value("programs", nlohmann::json::array())) {
        node.programs.push_back(program.value("pid", 0));
      }
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

Result<agent::Node> read_node() {
  const auto options = agent::AgentOptions::from_environment();
  if (!options) return std::unexpected(options.error());
  return agent::start_node(*options);
}

}  // namespace

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

Machine read_machine(std::map<std::string, std::string> variables) {
  Machine machine{};
  machine.uid = geteuid();
  machine.user = user_name(machine.uid);
  machine.variables = std::move(variables);
  utsname system{};
  if (uname(&system) == 0) machine.kernel = system.release;
  machine.container = container_kind();
  read_limits(machine);
  try_system_calls(machine);
  machine.runtime_folder = read_runtime_folder();
  machine.installation = read_installation();
  if (machine.installation.folder) machine.missing_needs = missing_in(*machine.installation.folder);
  const std::string port = first_line("/proc/sys/net/ipv4/ip_unprivileged_port_start");
  if (!port.empty()) machine.first_free_port = std::strtoull(port.c_str(), nullptr, 10);
  machine.nodes = read_nodes();  // Before this command starts one.
  machine.node = read_node();
  read_network(machine);
  if (machine.installation.folder) machine.trial = try_device(*machine.installation.folder);
  return machine;
}

}  // namespace verbatim::cli::doctor
