#include "cli/rds/rds.h"

#include <memory>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

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

constexpr ServiceKind kKind{.kind = "rds", .what = "RDS broker"};

int fail(const char* command, const std::string& text, int status = kExitFailure) {
  return fail_service(kKind, command, text, status);
}

/// Returns an exit status if this process cannot be put on the node.
std::optional<int> enter(const char* command, const ServiceChoice& place) {
  const auto entered = cli::enter(place);
  if (!entered) return fail(command, entered.error().text, entered.error().exit_status);
  return std::nullopt;
}

int up(const ServiceChoice& place, bool until_idle) {
  if (const auto status = enter("up", place)) return *status;
  const auto broker = find_rds_broker(!until_idle);
  return broker ? 0 : fail("up", broker.error().text);
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
      ->type_name("N")
      ->check(CLI::PositiveNumber);
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
  auto* command = rds->add_subcommand("up", "Keep a broker");
  auto place = std::make_shared<ServiceChoice>();
  add_service_options(*command, *place);
  auto until_idle = std::make_shared<bool>(false);
  command->add_flag("--until-idle", *until_idle, "It ends when nobody uses it, as one of 'run'");
  command->callback([place, until_idle, &exit_status] { exit_status = up(*place, *until_idle); });
  command->footer(kExamples);
  add_service_down(*rds, kKind, "End the broker", exit_status);
  add_service_show(*rds, kKind, "Show peers, sockets and counters", rds_text, exit_status);
  add_ping(*rds, exit_status);
}

}  // namespace verbatim::cli
