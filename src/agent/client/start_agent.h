#pragma once

#include <array>
#include <cstdint>

#include "agent/client/options.h"
#include "base/error.h"

/// Starts verbatimd from inside any program.
namespace verbatim::agent {

/// Written to the ready pipe by an agent that cannot serve. An agent that can closes the pipe and
/// writes nothing.
struct StartFailure {
  std::int32_t code = 0;
  std::array<char, 508> text{};
};

/// The ready pipe's descriptor in the new process.
inline constexpr int kReadyFd = 3;

/// Returns the path of verbatimd: from the options, else beside the library or program with this
/// code, else in PATH. ENOENT with the places that were searched.
Result<std::string> find_agent_program(const AgentOptions& options);

/// Starts the agent and waits until it listens or reports why it cannot. Requires the start lock.
///
/// The agent is no child of this program: it has a new session, inherits no descriptor, and this
/// program gets neither a SIGCHLD nor an unknown child. If this program gets orphans as its
/// children (process 1 of a container, a subreaper), a process "verbatim-keeper" is in between.
Result<void> start_agent(const AgentOptions& options);

}  // namespace verbatim::agent
