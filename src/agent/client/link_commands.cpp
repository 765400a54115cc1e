#include <sys/socket.h>

#include "agent/client/agent_request.h"
#include "agent/client/client.h"

/// `verbatim capture` and `verbatim fault`, towards the agent.
namespace verbatim::agent {

Result<UniqueFd> start_capture(const AgentOptions& options) {
  const auto wanted = wanted_node(options);
  if (!wanted) return std::unexpected(wanted.error());
  return with_agent(options, [&](UniqueFd connection) -> Result<UniqueFd> {
    auto started = ask<CaptureStarted>(connection.get(), CaptureRequest{.wanted = *wanted});
    if (!started) return std::unexpected(started.error());
    return connection;
  });
}

namespace {

Result<CapturedProgram> captured_program(Incoming& incoming) {
  const auto message = incoming.as<CapturedProgramMessage>();
  if (!message) return std::unexpected(message.error());
  CapturedProgram program{.pid = message->pid,
                          .slot = message->slot,
                          .name = get_text(message->name),
                          .is_direct = message->is_direct != 0,
                          .failure = get_text(message->failure),
                          .ring = {}};
  if (!incoming.descriptors.empty()) program.ring = std::move(incoming.descriptors.front());
  return program;
}

}  // namespace

Result<CapturedProgram> next_captured(int connection) {
  auto incoming = receive(connection, MSG_DONTWAIT);
  if (!incoming) return std::unexpected(incoming.error());
  return captured_program(*incoming);
}

Result<std::vector<CapturedProgram>> rest_captured(int connection) {
  if (auto sent = send(connection, CaptureSync{}); !sent) return std::unexpected(sent.error());
  std::vector<CapturedProgram> programs;
  for (;;) {
    auto incoming = await_answer(connection);
    if (!incoming) return std::unexpected(incoming.error());
    if (incoming->type() == MessageType::capture_synced) return programs;
    auto program = captured_program(*incoming);
    if (!program) return std::unexpected(program.error());
    programs.push_back(std::move(*program));
  }
}

Result<NodeFaults> set_faults(const std::string& node, std::string_view plan) {
  FaultRequest request;
  if (plan.size() >= request.faults.size()) {
    return refuse(E2BIG, fmt::format("faults of {} characters: write them in at most {}",
                                     plan.size(), request.faults.size() - 1));
  }
  put_text(request.faults, plan);
  auto connection = connect_to_running(node);
  if (!connection) return std::unexpected(connection.error());
  auto answered = ask<NodeFaultsMessage>(connection->get(), request);
  if (!answered) return std::unexpected(answered.error());
  return NodeFaults{get_text(answered->message.faults), answered->message.programs};
}

}  // namespace verbatim::agent
