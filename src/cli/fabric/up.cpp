#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/os/unique_fd.h"
#include "base/time.h"
#include "cli/command.h"
#include "cli/environment.h"
#include "cli/fabric/commands.h"
#include "cli/fabric/status.h"
#include "fabric/protocol/fabric_folder.h"
#include "fabric/protocol/manager_command.h"

namespace verbatim::cli {
namespace {

namespace fs = std::filesystem;
namespace protocol = fabric::protocol;

constexpr const char* kExamples =
    "TOPOLOGY is a file of nodes and links as ibnetdiscover prints them, or a net file\n"
    "of ibsim; '-' is standard input. 'verbatim fabric generate' makes one.\n"
    "\n"
    "--manager opensm runs the system's opensm on the first host of each subnet, and\n"
    "waits until the subnets are up. Logs and files are in the fabric's folder, which is\n"
    "printed where it fails. Subnets that a router connects have prefixes that it\n"
    "forwards. Without a manager, links stay in state Init; start one with\n"
    "'verbatim run --host H1 -- opensm -f opensm.log'. Options of opensm stand behind its\n"
    "name, in quotation marks; files are looked for from this folder on.\n"
    "\n"
    "Links carry what their width and speed allow; with --rate unlimited, what this\n"
    "machine can.\n"
    "\n"
    "A fabric runs until 'verbatim fabric down'. In a script, --ends-with $$ ends it with\n"
    "the script, however that ends.\n"
    "\n"
    "Examples:\n"
    "  verbatim fabric up net\n"
    "  verbatim fabric up net --name big --manager opensm\n"
    "  verbatim fabric up net --manager 'opensm -R ftree -Q -P partitions.conf'\n"
    "  verbatim fabric up net --ends-with $$";

/// The descriptor of the ready pipe in the daemon.
constexpr int kReadyFd = 3;
/// The largest subnet that was tried, of 5,000 nodes, takes opensm 10 s.
constexpr TimeNs kManagerTimeout = 300 * kSecond;
constexpr useconds_t kPollMicroseconds = 20'000;

struct Form {
  std::string topology;
  std::string name;
  std::string manager = "none";
  std::string rate = "link";
  std::optional<pid_t> ends_with;
};

[[noreturn]] void become_daemon(std::vector<std::string>& arguments, int ready, int log,
                                bool reads_input) {
  setsid();
  if (const int null = open("/dev/null", O_RDONLY | O_CLOEXEC); null >= 0 && !reads_input) {
    dup2(null, STDIN_FILENO);
  }
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  if (ready == kReadyFd) {
    fcntl(ready, F_SETFD, 0);
  } else {
    dup2(ready, kReadyFd);
  }
  close_range(kReadyFd + 1, ~0U, 0);  // Who waits for the end of a pipe of the caller's gets it.
  std::vector<char*> pointers;
  for (auto& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  execv(pointers.front(), pointers.data());
  const std::string text = fmt::format("cannot start {}: {}", arguments.front(), strerror(errno));
  [[maybe_unused]] const auto written = write(kReadyFd, text.data(), text.size());
  _exit(1);
}

/// Returns what the daemon writes into the pipe: why it cannot serve, or nothing.
std::string read_to_end(int pipe) {
  std::string text;
  std::array<char, 512> part;
  for (ssize_t length; (length = read(pipe, part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(length));
  }
  return text;
}

Result<void> start_daemon(const Form& form, const protocol::FabricFolder& folder) {
  const auto programs = own_folder();
  if (!programs) return std::unexpected(programs.error());
  if (auto made = folder.make(); !made) return made;
  const bool reads_input = form.topology == "-";
  std::vector<std::string> arguments{*programs + "/verbatim-fabricd",
                                     "--topology",
                                     reads_input ? "-" : fs::absolute(form.topology).string(),
                                     "--name",
                                     form.name,
                                     "--manager",
                                     form.manager,
                                     "--rate",
                                     form.rate,
                                     "--ready-fd",
                                     std::to_string(kReadyFd)};
  if (form.ends_with) {
    arguments.insert(arguments.end(), {"--ends-with", std::to_string(*form.ends_with)});
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return refuse_errno("pipe");
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  const UniqueFd log(open(folder.log().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log) return refuse_errno(folder.log());
  const pid_t child = fork();
  if (child < 0) return refuse_errno("fork");
  if (child == 0) become_daemon(arguments, writing.get(), log.get(), reads_input);
  writing.reset();
  const std::string failure = read_to_end(reading.get());
  if (!failure.empty()) return refuse(EINVAL, failure);
  return {};
}

/// Opensm writes into its log that the subnet is up.
bool has_brought_up(const std::string& log) {
  std::ifstream file(log);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return text.find("SUBNET UP") != std::string::npos;
}

/// Waits for each subnet's opensm.
Result<void> wait_for_managers(const std::string& name) {
  std::string waits_for;
  for (const TimeNs deadline = monotonic_now() + kManagerTimeout; monotonic_now() < deadline;) {
    const auto status = fabric_status(name);
    if (!status) return std::unexpected(status.error());
    waits_for.clear();
    for (const auto& manager : status->at("managers")) {
      if (manager.contains("exit_status")) {
        return refuse(ECHILD, fmt::format("opensm has ended: see {0}/log and {0}/output",
                                          manager.at("folder").get<std::string>()));
      }
      const std::string log = manager.at("log");
      if (!has_brought_up(log)) waits_for = log;
    }
    if (waits_for.empty()) return {};
    usleep(kPollMicroseconds);
  }
  return refuse(ETIMEDOUT, fmt::format("opensm has not brought the subnet up in {} s: see {}",
                                       kManagerTimeout / kSecond, waits_for));
}

/// A link has trained, and no manager has brought it up yet.
bool has_waiting_link(const nlohmann::ordered_json& status) {
  return std::ranges::any_of(status.at("nodes"), [](const auto& node) {
    return node.at("kind") == "host" && std::ranges::any_of(node.at("ports"), [](const auto& port) {
             return port.at("state") == "init";
           });
  });
}

/// A link that has trained late becomes active by its manager's next sweep.
Result<void> wait_for_late_links(const std::string& name) {
  auto status = fabric_status(name);
  for (const TimeNs deadline = monotonic_now() + kSecond;
       status && has_waiting_link(*status) && monotonic_now() < deadline;
       status = fabric_status(name)) {
    usleep(kPollMicroseconds);
  }
  if (!status) return std::unexpected(status.error());
  return {};
}

Result<void> bring_up(const Form& form) {
  const auto folder = protocol::FabricFolder::own(form.name);
  if (!folder) return std::unexpected(folder.error());
  if (auto started = start_daemon(form, *folder); !started) return started;
  if (!folder->connect()) {
    return refuse(ECHILD, fmt::format("the fabric's daemon has ended: see {}", folder->log()));
  }
  if (form.manager == "none") return {};
  if (auto is_up = wait_for_managers(form.name); !is_up) return is_up;
  return wait_for_late_links(form.name);
}

}  // namespace

void add_fabric_up(CLI::App& fabric, int& exit_status) {
  auto* up = fabric.add_subcommand("up", "Start a fabric");
  auto form = std::make_shared<Form>();  // Lives as long as the callback that reads it.
  up->add_option("topology", form->topology, "A file of nodes and links; -: standard input")
      ->type_name("FILE")
      ->required();
  add_name_option(*up, form->name);
  up->add_option("--manager", form->manager,
                 "Subnet manager: none (default), or opensm and options")
      ->type_name("COMMAND")
      ->check([](const std::string& text) {
        const auto command = protocol::parse_manager_command(text);
        return command ? std::string() : command.error().text;
      });
  up->add_option("--rate", form->rate,
                 "Of links: their own (link, default) or the machine's (unlimited)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"link", "unlimited"}));
  up->add_option("--ends-with", form->ends_with, "End the fabric when this process ends")
      ->type_name("PID");
  up->footer(kExamples);
  up->callback([form, &exit_status] {
    if (const auto started = bring_up(*form); !started) {
      fmt::print(stderr, "verbatim fabric up: {}\n", started.error().text);
      exit_status = kExitFailure;
    }
  });
}

}  // namespace verbatim::cli
