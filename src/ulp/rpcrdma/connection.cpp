#include "ulp/rpcrdma/connection.h"

#include <algorithm>

namespace verbatim::ulp::rpcrdma {

InlineLimits limits_with(const std::optional<ConnectionFacts>& peer) {
  const ConnectionFacts facts = peer.value_or(ConnectionFacts{});
  return {.send = std::min(kInlineBytes, facts.receive_bytes),
          .receive = std::min(kInlineBytes, facts.send_bytes)};
}

void Connection::on_part(std::span<const Slice>, std::uint32_t, Output&) {}

}  // namespace verbatim::ulp::rpcrdma
