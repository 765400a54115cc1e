#pragma once

#include <cstdint>
#include <ctime>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "agent/protocol/node.h"
#include "agent/server/port_totals.h"

/// The content of `verbatim status` as JSON. README.md lists the fields.
namespace verbatim::agent {

/// A program, as the agent knows it.
struct ProgramEntry {
  pid_t pid = 0;  // 0: it is in another process namespace.
  std::string name;
  std::uint32_t slot = 0;
  std::time_t since = 0;  // Unix time.
  int arena_fd = -1;      // -1: it has none.
  std::vector<PortBinding> bindings;
  std::uint64_t datagrams_dropped = 0;  // Management datagrams that it did not read in time.
};

/// `faults_of_the_gone`: of programs that have ended.
std::string status_text(const Node& node, std::span<const ProgramEntry> programs,
                        const FaultTotals& faults_of_the_gone);

/// Adds the port's counters, faults (where there are any) and the queue pairs that a program's
/// arena holds. Adds nothing where the arena is not one of this release's.
void append_program_details(nlohmann::ordered_json& program, int arena_fd);

}  // namespace verbatim::agent
