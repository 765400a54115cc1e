#pragma once

#include <cstdint>
#include <ctime>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "agent/protocol/node.h"

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

std::string status_text(const NodeDescription& node, std::span<const ProgramEntry> programs);

/// Adds the port's counters and the queue pairs in a program's arena. Adds nothing if the arena is
/// of another release.
void append_program_details(nlohmann::ordered_json& program, int arena_fd);

}  // namespace verbatim::agent
