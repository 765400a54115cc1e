#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/nfs/nfs_text.h"
#include "cli/services/service_command.h"
#include "service/launch.h"

namespace verbatim::cli {
namespace {

constexpr const char* kExamples =
    "NFS over RDMA (RFC 8166) for servers and clients that speak TCP. A node's 'serve'\n"
    "stands before an NFS server: Linux mounts it with -o rdma,port=20049. Its 'client'\n"
    "stands before an RDMA server: what speaks TCP mounts 127.0.0.1.\n"
    "\n"
    "Examples:\n"
    "  verbatim nfs serve --node a /srv/data\n"
    "  verbatim nfs serve --node a --to 127.0.0.1:2049\n"
    "  verbatim nfs client 127.0.0.2 --node b --listen 127.0.0.1:12049\n"
    "  verbatim nfs show --node a\n"
    "  verbatim nfs down --node a";
constexpr const char* kKinds[] = {"nfs-serve", "nfs-client"};

constexpr TimeNs kPatience = 20 * kSecond;  // nfs-ganesha takes a second or two.

struct UpForm {
  ServiceChoice place;
  std::string to, listen, folder;
};

struct ShowForm {
  ServiceChoice place;
  bool json = false;
};

int fail(const char* command, const std::string& text, int status = kExitFailure) {
  fmt::print(stderr, "verbatim nfs {}: {}\n", command, text);
  return status;
}

std::string name_of(const ServiceChoice& choice) { return service_name("nfs", choice).name; }

int up(const char* command, const std::string& kind, const UpForm& form) {
  if (const auto entered = enter(form.place); !entered)
    return fail(command, entered.error().text, entered.error().exit_status);
  const auto program = service::find_program("verbatim-ulpd");
  if (!program) return fail(command, program.error().text);
  std::vector<std::string> words{kind, "--name", name_of(form.place)};
  if (!form.to.empty()) words.insert(words.end(), {"--to", form.to});
  if (!form.folder.empty())
    words.insert(words.end(), {"--folder", std::filesystem::absolute(form.folder).string()});
  if (!form.listen.empty()) words.insert(words.end(), {"--listen", form.listen});
  std::ranges::move(end_with_fabric(), std::back_inserter(words));
  const auto started =
      service::start_daemon({.program = *program, .arguments = words, .patience = kPatience});
  if (started) return 0;
  return fail(command, started.error().text,
              started.error().code == EINVAL ? kExitUsage : kExitFailure);
}

std::vector<service::ServiceName> both_of(const ServiceChoice& place) {
  std::vector<service::ServiceName> both;
  for (const char* const kind : kKinds) both.push_back({kind, name_of(place)});
  return both;
}

/// Those of them that run.
template <typename Do>
int for_each_of(const char* command, const ServiceChoice& place,
                const std::vector<service::ServiceName>& names, Do act) {
  bool has_one = false;
  for (const service::ServiceName& name : names) {
    const auto done = act(name);
    if (!done && done.error().code == ENOENT) continue;
    if (!done) return fail(command, done.error().text);
    has_one = true;
  }
  if (has_one) return 0;
  return fail(command, fmt::format("no NFS gateway of '{}' runs", name_of(place)));
}

int down(const ServiceChoice& place) {
  return for_each_of("down", place, both_of(place),
                     [](const service::ServiceName& name) { return service::end(name); });
}

int show(const ShowForm& form) {
  std::vector<service::ServiceName> names = both_of(form.place);
  if (!is_named(form.place)) {
    names.clear();
    for (const char* const kind : kKinds)
      std::ranges::move(running_services(kind), std::back_inserter(names));
  }
  nlohmann::json all = nlohmann::json::array();
  const int status = for_each_of("show", form.place, names, [&](const service::ServiceName& name) {
    auto one = service::ask(name, {{"ask", "status"}});
    if (one) all.push_back(*one);
    return one;
  });
  if (status != 0) return status;
  if (form.json) return fmt::print("{}\n", all.dump(2)), 0;
  for (const auto& one : all) fmt::print("{}", nfs_text(one));
  return 0;
}

void add_serve(CLI::App& nfs, int& exit_status) {
  auto* command = nfs.add_subcommand("serve", "Serve a folder, or a server's files, over RDMA");
  auto form = std::make_shared<UpForm>();
  add_service_options(*command, form->place);
  command->add_option("--to", form->to, "The NFS server, over TCP; default: 127.0.0.1, port 2049")
      ->type_name("IP[:PORT]");
  command
      ->add_option("folder", form->folder,
                   "Instead of a server: a folder, which nfs-ganesha serves")
      ->type_name("FOLDER")
      ->excludes("--to");
  command
      ->add_option("--listen", form->listen, "Where clients connect; default: the node, port 20049")
      ->type_name("IP[:PORT]");
  command->footer(kExamples);
  command->callback([form, &exit_status] { exit_status = up("serve", "nfs-serve", *form); });
}

void add_client(CLI::App& nfs, int& exit_status) {
  auto* command = nfs.add_subcommand("client", "Reach an RDMA server for clients that speak TCP");
  auto form = std::make_shared<UpForm>();
  add_service_options(*command, form->place);
  command->add_option("server", form->to, "The NFS server, over RDMA; its port: 20049")
      ->type_name("IP[:PORT]")
      ->required();
  command
      ->add_option("--listen", form->listen, "Where clients connect; default: 127.0.0.1, port 2049")
      ->type_name("IP[:PORT]");
  command->footer(kExamples);
  command->callback([form, &exit_status] { exit_status = up("client", "nfs-client", *form); });
}

void add_down(CLI::App& nfs, int& exit_status) {
  auto* command = nfs.add_subcommand("down", "End a node's NFS gateways");
  auto place = std::make_shared<ServiceChoice>();
  add_service_options(*command, *place);
  command->callback([place, &exit_status] { exit_status = down(*place); });
}

void add_show(CLI::App& nfs, int& exit_status) {
  auto* command = nfs.add_subcommand("show", "Show a node's NFS gateways and their clients");
  auto form = std::make_shared<ShowForm>();
  add_service_options(*command, form->place);
  command->add_flag("--json", form->json, "Print JSON");
  command->callback([form, &exit_status] { exit_status = show(*form); });
}

}  // namespace

void add_nfs(CLI::App& app, int& exit_status) {
  auto* nfs = app.add_subcommand("nfs", "Serve and reach files by NFS over RDMA");
  nfs->require_subcommand(1);
  nfs->footer(kExamples);
  add_serve(*nfs, exit_status);
  add_client(*nfs, exit_status);
  add_show(*nfs, exit_status);
  add_down(*nfs, exit_status);
}

}  // namespace verbatim::cli
