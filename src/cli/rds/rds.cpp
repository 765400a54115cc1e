#include "cli/rds/rds.h"

#include <cerrno>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "cli/rds/broker.h"
#include "cli/rds/ping.h"
#include "cli/rds/rds_text.h"
#include "cli/services/service_command.h"

namespace verbatim::cli {
namespace {

constexpr const char* kExamples =
    "Reliable Datagram Sockets (RDS), as Linux's rds_rdma speaks them. A broker serves all\n"
    "AF_RDS sockets of a node. 'verbatim run --rds' starts it for a program; 'up' keeps it,\n"
    "so that peers are answered.\n"
    "\n"
    "Examples:\n"
    "  verbatim rds up --node a --address 127.0.0.2\n"
    "  verbatim rds ping --node b --address 127.0.0.3 -c 3 127.0.0.2\n"
    "  verbatim run --rds --node b -- rds-stress -r 127.0.0.3 -s 127.0.0.2 -p 4000\n"
    "  verbatim rds show --node b\n"
    "  verbatim rds down --node a";

int fail(const char* command, const std::string& text, int status = kExitFailure) {
  fmt::print(stderr, "verbatim rds {}: {}\n", command, text);
  return status;
}

/// Returns an exit status if this process cannot be put on the node.
std::optional<int> enter(const char* command, const ServiceChoice& place) {
  if (const auto set = set_environment(place.node); !set)
    return fail(command, set.error().text, set.error().exit_status);
  const auto entered = enter_host(place.host);
  if (!entered) return fail(command, entered.error().text);
  return std::nullopt;
}

int up(const ServiceChoice& place) {
  if (const auto status = enter("up", place)) return *status;
  const auto broker = find_rds_broker(true);
  return broker ? 0 : fail("up", broker.error().text);
}

int down(const ServiceChoice& place) {
  if (const auto status = enter("down", place)) return *status;
  const auto name = rds_broker_name();
  const auto ended = service::end(name);
  if (ended) return 0;
  if (ended.error().code != ENOENT) return fail("down", ended.error().text);
  return fail("down", fmt::format("no RDS broker of '{}' runs", name.name));
}

int show(const ServiceChoice& place, bool json) {
  if (const auto status = enter("show", place)) return *status;
  const auto name = rds_broker_name();
  const auto shown = service::ask(name, {{"ask", "status"}});
  if (!shown && shown.error().code == ENOENT)
    return fail("show", fmt::format("no RDS broker of '{}' runs", name.name));
  if (!shown) return fail("show", shown.error().text);
  fmt::print("{}", json ? shown->dump(2) + "\n" : rds_text(*shown));
  return 0;
}

void add_ping(CLI::App& rds, int& exit_status) {
  auto* command = rds.add_subcommand("ping", "Ask a peer's RDS for an answer, as rds-ping does");
  struct Form {
    ServiceChoice place;
    PingForm ping;
  };
  auto form = std::make_shared<Form>();
  add_service_options(*command, form->place);
  command->add_option("-c,--count", form->ping.count, "So many; default: until it is interrupted")
      ->type_name("N");
  command->add_option("-i,--interval", form->ping.interval, "Seconds between two; default: 1")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.001, 3600.0));
  command->add_option("--from", form->ping.from, "An address of the node; default: its first")
      ->type_name("ADDRESS");
  command->add_option("peer", form->ping.peer, "The peer's address or name")->required();
  command->callback([form, &exit_status] {
    const auto status = enter("ping", form->place);
    exit_status = status ? *status : rds_ping(form->ping);
  });
}

}  // namespace

void add_rds(CLI::App& app, int& exit_status) {
  auto* rds = app.add_subcommand("rds", "Reliable Datagram Sockets: a node's broker");
  rds->require_subcommand(1);
  rds->footer(kExamples);
  const auto add = [&](const char* name, const char* summary, int (*run)(const ServiceChoice&)) {
    auto* command = rds->add_subcommand(name, summary);
    auto place = std::make_shared<ServiceChoice>();
    add_service_options(*command, *place);
    command->callback([place, run, &exit_status] { exit_status = run(*place); });
    return command;
  };
  add("up", "Keep a broker", up)->footer(kExamples);
  add("down", "End the broker", down);
  auto* command = rds->add_subcommand("show", "Show peers, sockets and counters");
  auto place = std::make_shared<ServiceChoice>();
  auto json = std::make_shared<bool>(false);
  add_service_options(*command, *place);
  command->add_flag("--json", *json, "Print JSON");
  command->callback([place, json, &exit_status] { exit_status = show(*place, *json); });
  add_ping(*rds, exit_status);
}

}  // namespace verbatim::cli
