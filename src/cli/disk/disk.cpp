#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/un.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/disk/disk_text.h"
#include "cli/disk/logins.h"
#include "cli/environment.h"
#include "cli/fabric/host.h"
#include "cli/program.h"
#include "service/control.h"
#include "service/folder.h"
#include "service/launch.h"

namespace verbatim::cli {
namespace {

constexpr const char* kExamples =
    "A disk of an iSER, NVMe over Fabrics or SRP target, for programs that know NBD: qemu-img,\n"
    "qemu-io, nbdcopy, fio --ioengine=nbd, nbdfuse, nbd-client. The command logs in, prints\n"
    "the disk's URI and serves it, by nbdkit, until Ctrl-C ends it. A target that is lost is\n"
    "waited for: requests go on when it is back.\n"
    "\n"
    "Examples:\n"
    "  verbatim disk iser://10.0.0.1/iqn.2026-01.com.example:disk/0\n"
    "  verbatim disk nvme://10.0.0.1/nqn.2026-01.com.example:disk/1\n"
    "  verbatim disk nvme://10.0.0.1/nqn.2026-01.com.example:disk/1 \\\n"
    "    nvme://10.0.1.1/nqn.2026-01.com.example:disk/1    (two paths to one disk)\n"
    "  verbatim disk --host H8 srp://$(verbatim run --host H8 -- ibsrpdm -c)\n"
    "  qemu-img info 'nbd+unix:///?socket=...'     (the URI that it prints)\n"
    "  verbatim disk --vhost-user ./disk.sock nvme://10.0.0.1/nqn.2026-01.test:d/1\n"
    "                            (a device of QEMU's; prints QEMU's options)\n"
    "  verbatim disk show\n"
    "  verbatim disk down --name NAME";

constexpr std::string_view kPlugin = "/nbdkit-verbatim-plugin.so";
constexpr TimeNs kPatience = kSecond;  // Of `show`, for all disks together.

struct Form {
  NodeChoice node;
  HostChoice host;
  std::vector<std::string> urls;  // A path each.
  std::string initiator, host_id, auth, name, socket, vhost_user;
  std::optional<int> patience, sessions;
  bool is_read_only = false;
  bool json = false;  // Of `show`.
};

int fail(const std::string& text, int status = kExitFailure) {
  fmt::print(stderr, "verbatim disk: {}\n", text);
  return status;
}

/// Beside the libraries of programs: they are of one release.
Result<std::string> find_plugin() {
  const auto own = own_folder();
  if (!own) return std::unexpected(own.error());
  const auto dropins = find_dropin_folder(*own);
  if (!dropins) return std::unexpected(dropins.error());
  const std::string plugin = *dropins + std::string(kPlugin);
  if (access(plugin.c_str(), R_OK) == 0) return plugin;
  return refuse(ENOENT,
                fmt::format("{} is not there: install the package verbatim-nbdkit, or build "
                            "with nbdkit-plugin-dev",
                            plugin));
}

std::string name_of(const Form& form) {
  return form.name.empty() ? fmt::to_string(getpid()) : form.name;
}

Result<void> check_name(const std::string& name) {
  if (auto fits = service::check_node_name(name); !fits) return fits;
  if (const pid_t process = service::process_of({"disk", name}); process > 0)
    return refuse(EEXIST, fmt::format("disk '{}' is served by process {}: choose another --name",
                                      name, process));
  return {};
}

/// Where the disk's users connect. One of this name that was killed has left its socket.
Result<std::string> socket_of(const Form& form, const std::string& name) {
  if (auto is_free = check_name(name); !is_free) return std::unexpected(is_free.error());
  if (!form.socket.empty()) return form.socket;
  const auto folder = service::RuntimeFolder::open();
  if (!folder) return std::unexpected(folder.error());
  std::string path = fmt::format("{}/disk+{}.nbd", folder->path(), name);
  if (path.size() >= sizeof(sockaddr_un::sun_path))
    return refuse(ENAMETOOLONG, fmt::format("{} is too long for a socket: choose another by "
                                            "--socket",
                                            path));
  unlink(path.c_str());
  return path;
}

/// What nbdkit's plugin and `verbatim-ulpd vhost-user` are told alike.
std::vector<std::string> words_of(const Form& form, const std::string& name,
                                  const std::string& socket) {
  std::vector<std::string> words{"name=" + name, "socket=" + socket};
  for (const std::string& url : form.urls) words.push_back("url=" + url);
  const auto add = [&words](const char* key, const std::string& value) {
    if (!value.empty()) words.push_back(fmt::format("{}={}", key, value));
  };
  add("initiator", form.initiator);
  add("host-id", form.host_id);
  add("auth", form.auth);
  if (form.patience) add("patience", fmt::to_string(*form.patience));
  return words;
}

int become(const std::string& program, std::vector<std::string> words,
           const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  const auto failure = become_program(program, std::move(words));
  return fail(failure.text, failure.exit_status);
}

/// Becomes nbdkit, which prints the URI when it serves: returns only if that fails.
int serve_nbd(const Form& form) {
  const auto program = prepare_program(form.node, {"nbdkit"});
  if (!program) return fail(program.error().text, program.error().exit_status);
  const auto plugin = find_plugin();
  if (!plugin) return fail(plugin.error().text);
  if (const auto entered = enter_host(form.host); !entered) return fail(entered.error().text);
  const std::string name = name_of(form);
  const auto socket = socket_of(form, name);
  if (!socket) return fail(socket.error().text);
  std::vector<std::string> words{"nbdkit",   "--foreground", "--threads", "32",
                                 "--filter", "blocksize",    "--unix",    *socket};
  if (form.is_read_only) words.push_back("--readonly");
  words.push_back(*plugin);
  if (form.sessions) words.push_back(fmt::format("sessions={}", *form.sessions));
  return become(*program, std::move(words), words_of(form, name, *socket));
}

/// Becomes the device of a virtual machine, which prints QEMU's options when it serves.
int serve_machine(const Form& form) {
  if (!form.socket.empty() || form.sessions)
    return fail(
        "--vhost-user has its own socket and one session: leave out --socket and --sessions",
        kExitUsage);
  const auto own = service::find_program("verbatim-ulpd");
  if (!own) return fail(own.error().text);
  const auto program = prepare_program(form.node, {*own});
  if (!program) return fail(program.error().text, program.error().exit_status);
  if (const auto entered = enter_host(form.host); !entered) return fail(entered.error().text);
  const std::string name = name_of(form);
  if (auto is_free = check_name(name); !is_free) return fail(is_free.error().text);
  std::vector<std::string> words{"verbatim-ulpd", "vhost-user"};
  if (form.is_read_only) words.push_back("read-only=1");
  return become(*program, std::move(words), words_of(form, name, form.vhost_user));
}

int serve(const Form& form) {
  if (form.urls.empty())
    return fail("which disk? Say its URL, as iser://10.0.0.1/iqn.2026-01.com.example:disk/0",
                kExitUsage);
  return form.vhost_user.empty() ? serve_nbd(form) : serve_machine(form);
}

int show(bool as_json) {
  std::vector<service::ServiceName> names;
  for (const auto& one : service::services())
    if (one.kind == "disk") names.push_back(one);
  const auto answers = service::ask(names, {{"ask", "status"}}, kPatience);
  nlohmann::json all = nlohmann::json::array();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (answers[i]) {
      all.push_back(*answers[i]);
    } else if (answers[i].error().code != ENOENT) {  // Else it was killed.
      all.push_back({{"name", names[i].name}, {"error", answers[i].error().text}});
    }
  }
  fmt::print("{}", as_json ? all.dump(2) + "\n" : disks_text(all));
  return 0;
}

int end_disk(const std::string& name) {
  const auto ended = service::end({"disk", name});
  if (ended) return 0;
  return fail(ended.error().code == ENOENT
                  ? fmt::format("no disk '{}' is served: 'verbatim disk show' names them", name)
                  : ended.error().text);
}

void add_options(CLI::App& command, Form& form) {
  add_node_options(command, form.node);
  add_host_options(command, form.host);
  command
      .add_option("url", form.urls,
                  "Which disk: iser://HOST[:PORT]/IQN/LUN, nvme://.../NQN/NSID, or srp://LINE; "
                  "several: paths to one disk")
      ->type_name("URL");
  command
      .add_option("--initiator", form.initiator,
                  "Who we are: an IQN or NQN; default: this machine's")
      ->type_name("NAME");
  command
      .add_option("--host-id", form.host_id,
                  "NVMe: which host, to reservations; default: this machine's")
      ->type_name("UUID");
  command
      .add_option("--auth", form.auth,
                  "CHAP: userid and password, each with its value in a line; userid_mutual, "
                  "password_mutual")
      ->type_name("FILE");
  command
      .add_option("--sessions", form.sessions, "How many, each in a thread; default: 1. Not SRP")
      ->type_name("NUMBER");
  command
      .add_option("--patience", form.patience, "How long a lost target is waited for; default: 120")
      ->type_name("SECONDS");
  command.add_option("--name", form.name, "Its name in 'show'; default: the process's number")
      ->type_name("NAME");
  command
      .add_option("--socket", form.socket,
                  "Where the disk's users connect; default: of the runtime folder")
      ->type_name("PATH");
  command
      .add_option("--vhost-user", form.vhost_user,
                  "Be a disk of a virtual machine, at this socket; prints QEMU's options")
      ->type_name("PATH");
  command.add_flag("--read-only", form.is_read_only, "Nobody may write");
}

}  // namespace

void add_disk(CLI::App& app, int& exit_status) {
  auto* disk = app.add_subcommand("disk", "Have a target's disk, by NBD");
  auto form = std::make_shared<Form>();
  add_options(*disk, *form);
  disk->footer(kExamples);
  const auto add_show = [&](const char* name) {
    auto* command = disk->add_subcommand(name, "Show the disks that are served");
    command->add_flag("--json", form->json, "Print JSON");
    command->callback([form, &exit_status] { exit_status = show(form->json); });
    return command;
  };
  add_show("show");
  add_show("list")->group("");  // As it was called before; hidden.
  auto* up = disk->add_subcommand("up", "Keep the logins of a node's programs");
  auto logins = std::make_shared<ServiceChoice>();
  add_service_options(*up, *logins);
  auto* down = disk->add_subcommand("down", "End the logins of a node's programs, or one disk");
  add_service_options(*down, *logins);
  down->add_option("--name", form->name, "One disk alone, by its name in 'show'")
      ->type_name("NAME");
  down->callback([form, logins, &exit_status] {
    exit_status = form->name.empty() ? end_logins(*logins) : end_disk(form->name);
  });
  up->callback([logins, &exit_status] { exit_status = start_logins(*logins); });
  disk->callback([form, disk, &exit_status] {
    if (disk->get_subcommands().empty()) exit_status = serve(*form);
  });
}

}  // namespace verbatim::cli
