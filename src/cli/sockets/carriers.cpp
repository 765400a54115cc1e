#include "cli/sockets/carriers.h"

#include <cstdlib>

#include <fmt/format.h>

#include "cli/environment.h"
#include "cli/rds/broker.h"
#include "cli/sockets/preload.h"

namespace verbatim::cli {
namespace {

Result<void> named(const char* option, Result<void> done) {
  if (done) return done;
  return refuse(done.error().code, fmt::format("{}: {}", option, done.error().text));
}

}  // namespace

void add_carrier_options(CLI::App& command, CarrierChoice& choice) {
  command.add_flag("--rsockets", choice.uses_rsockets, "Its TCP and UDP sockets become rsockets");
  command.add_flag("--sdp", choice.uses_sdp, "Its TCP sockets use SDP; rules: LIBSDP_CONFIG_FILE");
  command.add_flag("--rds", choice.uses_rds, "It has AF_RDS sockets (Reliable Datagram Sockets)");
}

Result<void> use_carriers(const CarrierChoice& choice, bool stays) {
  if (choice.uses_rsockets || choice.uses_sdp) {
    const char* const option = choice.uses_sdp ? "--sdp" : "--rsockets";
    if (auto set = named(option, add_preload(std::string(kSocketsLibrary))); !set) return set;
    if (choice.uses_sdp) setenv("VERBATIM_SDP", "on", 1);
    // Sockets connect by TCP first, so that programs may fork: both ends must do so.
    setenv("RDMAV_FORK_SAFE", "1", 0);
  }
  return choice.uses_rds ? named("--rds", use_rds_library(stays)) : Result<void>();
}

}  // namespace verbatim::cli
