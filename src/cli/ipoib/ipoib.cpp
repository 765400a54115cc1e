#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/ipoib/ipoib_text.h"
#include "cli/ipoib/name_rules.h"
#include "cli/services/service_command.h"
#include "service/launch.h"

namespace verbatim::cli {
namespace {

constexpr ServiceKind kKind{.kind = "ipoib", .what = "interface"};

constexpr const char* kExamples =
    "An interface of IP over InfiniBand on a host of a fabric. It needs CAP_NET_ADMIN,\n"
    "which everybody has in a user and network namespace ('unshare -rn').\n"
    "\n"
    "Examples:\n"
    "  unshare -rn sleep infinity &\n"
    "  verbatim ipoib up --host H1 --netns $!\n"
    "  nsenter -t $! -U -n --preserve-credentials ip address add 10.9.0.1/24 dev ib0\n"
    "  verbatim ipoib neigh --host H1\n"
    "  verbatim ipoib down --host H1";

/// Which interface: a host may have several.
struct Place {
  ServiceChoice choice;
  unsigned port = 1;
  std::optional<std::string> name;
  std::string names;  // A file of rules.
};

struct UpForm {
  Place place;
  std::string mode = "datagram", pkey = "0xffff", netns;
};

struct ShowForm {
  Place place;
  bool json = false;
};

int fail(const char* command, const std::string& text, int status = kExitFailure) {
  return fail_service(kKind, command, text, status);
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// By the GID that the host's view shows; flags and queue pair, which begin an address, are not
/// known before there is an interface.
std::optional<std::string> ruled_name(const Place& place) {
  const char* const view = getenv("VERBATIM_VIEW");
  const std::string rules = text_of(place.names);
  std::error_code ignored;
  for (const auto& device : std::filesystem::directory_iterator(
           std::string(view == nullptr ? "" : view) + "/sys/class/infiniband", ignored)) {
    std::string address = "00:00:00:00";
    std::string gid = text_of(device.path() / fmt::format("ports/{}/gids/0", place.port));
    std::erase_if(gid, [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) == 0; });
    for (std::size_t at = 0; at + 2 <= gid.size(); at += 2) address += ":" + gid.substr(at, 2);
    if (auto name = name_by_rules(rules, {address, place.port})) return name;
  }
  return std::nullopt;
}

/// Its own, or by the rules; else ib0 and ib1.
std::string interface_of(const Place& place) {
  if (place.name) return *place.name;
  if (!place.names.empty() && enter_host(place.choice.host)) {
    if (const auto name = ruled_name(place)) return *name;
  }
  return fmt::format("ib{}", place.port - 1);
}

std::optional<service::ServiceName> name_of(const Place& place) {
  const auto host = host_name(place.choice);
  if (!host) return std::nullopt;
  return service::ServiceName{kKind.kind, *host + "." + interface_of(place)};
}

std::string no_host(const Place& place) {
  const bool is_iwarp = place.choice.node.protocol == "iwarp";
  return fmt::format(
      "IP over InfiniBand is for hosts of a fabric: --host H1. The node '{}' speaks {}, and its IP "
      "network is there already",
      node_of(place.choice.node), is_iwarp ? "iWARP" : "RoCE");
}

int up(const UpForm& form) {
  const auto name = name_of(form.place);
  if (const auto entered = enter(form.place.choice); !entered)
    return fail("up", entered.error().text, entered.error().exit_status);
  if (!name) return fail("up", no_host(form.place));
  const auto program = service::find_program("verbatim-ulpd");
  if (!program) return fail("up", program.error().text);
  const std::string interface = interface_of(form.place);
  std::vector<std::string> words{"ipoib",
                                 "--name",
                                 name->name,
                                 "--interface",
                                 interface,
                                 "--mode",
                                 form.mode,
                                 "--pkey",
                                 form.pkey,
                                 "--port",
                                 std::to_string(form.place.port)};
  if (!form.netns.empty()) words.insert(words.end(), {"--netns", form.netns});
  std::ranges::move(end_with_fabric(), std::back_inserter(words));
  const auto started = service::start_daemon({.program = *program, .arguments = words});
  if (!started)
    return fail("up", started.error().text,
                started.error().code == EINVAL ? kExitUsage : kExitFailure);
  const auto status = service::ask(*name, {{"ask", "status"}});
  if (!status) return fail("up", status.error().text);
  if (!status->value("carrier", false)) {
    fmt::print(stderr, "verbatim ipoib up: {} has no carrier yet: {}\n", interface,
               status->value("why", "the subnet administrator does not answer"));
  }
  return 0;
}

std::string not_there(const Place& place) {
  const std::string there = names_that_run(kKind.kind);
  return fmt::format(
      "no interface {} of host {} is up{}", interface_of(place), *host_name(place.choice),
      there.empty() ? ": 'verbatim ipoib up' makes one" : " (there is " + there + ")");
}

int down(const Place& place) {
  const auto name = name_of(place);
  if (!name) return fail("down", no_host(place));
  const auto ended = service::end(*name);
  if (ended) return 0;
  return fail("down", ended.error().code == ENOENT ? not_there(place) : ended.error().text);
}

int show(const char* command, const ShowForm& form, std::string (*text)(const nlohmann::json&)) {
  const auto name = name_of(form.place);
  const auto running = running_services(kKind.kind);
  if (!name && running.empty()) return fail(command, no_host(form.place));
  if (!name) return show_services(kKind, running, form.json, text);
  const auto status = service::ask(*name, {{"ask", "status"}});
  if (!status) {
    return fail(command,
                status.error().code == ENOENT ? not_there(form.place) : status.error().text);
  }
  fmt::print("{}", form.json ? status->dump(2) + "\n" : text(*status));
  return 0;
}

void add_place_options(CLI::App& command, Place& place) {
  add_service_options(command, place.choice);
  command.add_option("--port", place.port, "Of the host; default: 1")
      ->type_name("NUMBER")
      ->check(CLI::Range(1, 2));
  command.add_option("--name", place.name, "The interface's name; default: ib0, or ib1 of port 2")
      ->type_name("NAME");
  command.add_option("--names", place.names, "Rules for names, as in 70-persistent-ipoib.rules")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
}

void add_up(CLI::App& ipoib, int& exit_status) {
  auto* command = ipoib.add_subcommand("up", "Make an interface");
  auto form = std::make_shared<UpForm>();
  add_place_options(*command, form->place);
  command->add_option("--mode", form->mode, "datagram (default) or connected")->type_name("MODE");
  command->add_option("--pkey", form->pkey, "Its partition; default: 0xffff")->type_name("P_KEY");
  command
      ->add_option("--netns", form->netns,
                   "Its network namespace: that of a process, or a file; default: this one")
      ->type_name("PID|FILE");
  command->footer(kExamples);
  command->callback([form, &exit_status] { exit_status = up(*form); });
}

void add_down(CLI::App& ipoib, int& exit_status) {
  auto* command = ipoib.add_subcommand("down", "Remove an interface");
  auto place = std::make_shared<Place>();
  add_place_options(*command, *place);
  command->callback([place, &exit_status] { exit_status = down(*place); });
}

void add_show(CLI::App& ipoib, int& exit_status) {
  auto* command = ipoib.add_subcommand("show", "Show an interface, its groups and counters");
  auto form = std::make_shared<ShowForm>();
  add_place_options(*command, form->place);
  command->add_flag("--json", form->json, "Print JSON");
  command->callback([form, &exit_status] { exit_status = show("show", *form, ipoib_text); });
}

void add_neigh(CLI::App& ipoib, int& exit_status) {
  auto* command = ipoib.add_subcommand("neigh", "Show neighbours, which 'ip neigh' cannot");
  auto form = std::make_shared<ShowForm>();
  add_place_options(*command, form->place);
  command->callback([form, &exit_status] { exit_status = show("neigh", *form, neighbours_text); });
}

}  // namespace

void add_ipoib(CLI::App& app, int& exit_status) {
  auto* ipoib = app.add_subcommand("ipoib", "IP over InfiniBand: interfaces of hosts");
  ipoib->require_subcommand(1);
  ipoib->footer(kExamples);
  add_up(*ipoib, exit_status);
  add_down(*ipoib, exit_status);
  add_show(*ipoib, exit_status);
  add_neigh(*ipoib, exit_status);
}

}  // namespace verbatim::cli
