#pragma once

#include <array>
#include <cstdint>

#include "agent/client/options.h"
#include "base/error.h"

/// Starting verbatimd from inside any program.
namespace verbatim::agent {

/// What the new process writes into its ready pipe when it cannot serve. When it can, it closes the
/// pipe and writes nothing.
struct StartFailure {
  std::int32_t code = 0;
  std::array<char, 508> text{};
};

/// The descriptor of the ready pipe in the new process.
inline constexpr int kReadyFd = 3;

/// The path of verbatimd: as the options say, else beside the library or program that holds this
/// code, else in PATH. ENOENT with the places that were looked at.
Result<std::string> find_agent_program(const AgentOptions& options);

/// Starts the agent and waits until it listens or says why it cannot. The caller holds the start
/// lock.
///
/// The agent is no child of this program: it is in a session of its own, inherits no descriptor,
/// and this program never sees a SIGCHLD or an unknown child.
Result<void> start_agent(const AgentOptions& options);

}  // namespace verbatim::agent
