#pragma once

#include <span>

#include "agent/client/options.h"
#include "agent/protocol/protocol.h"
#include "base/time.h"

/// The client's side of a request to the agent, for programs and commands.
namespace verbatim::agent {

/// Connects to the agent of `options.node`, which is started if none runs. kClosed if it exited at
/// once.
Result<UniqueFd> connect_or_start(const AgentOptions& options);

/// A connection to a node that runs; ENOENT where it does not. Answers are waited for by
/// `patience`.
Result<UniqueFd> connect_to_running(const std::string& node, TimeNs patience = 8 * kSecond);

/// What the options and the files of this process's environment ask for. EINVAL: too many
/// addresses.
Result<WantedNode> wanted_node(const AgentOptions& options);

/// The next message; the refusal in it, where it is one; kClosed where the agent left before it
/// answered; ETIMEDOUT after some seconds.
Result<Incoming> await_answer(int connection);

template <typename Answer>
struct Answered {
  Answer message;
  std::vector<UniqueFd> descriptors;
};

/// Sends a request and waits for its answer.
template <typename Answer, typename Request>
Result<Answered<Answer>> ask(int connection, const Request& request,
                             std::span<const int> descriptors = {}) {
  if (auto sent = send(connection, request, descriptors); !sent) {
    // EPIPE: the agent exited before it accepted the connection.
    const int code = sent.error().code == EPIPE ? kClosed : sent.error().code;
    return refuse(code, sent.error().text);
  }
  auto incoming = await_answer(connection);
  if (!incoming) return std::unexpected(incoming.error());
  auto answer = incoming->as<Answer>();
  if (!answer) return std::unexpected(answer.error());
  return Answered<Answer>{*answer, std::move(incoming->descriptors)};
}

/// Calls `exchange(connection)` with the agent, which is started if none runs; repeats it with the
/// next agent if one exits (or dies) during it.
template <typename Exchange>
auto with_agent(const AgentOptions& options, Exchange exchange) -> decltype(exchange(UniqueFd())) {
  constexpr int kAttemptsMax = 20;
  for (int attempt = 1;; ++attempt) {
    auto connection = connect_or_start(options);
    auto result = connection ? exchange(std::move(*connection))
                             : decltype(exchange(UniqueFd()))(std::unexpected(connection.error()));
    if (result || result.error().code != kClosed || attempt == kAttemptsMax) return result;
  }
}

}  // namespace verbatim::agent
