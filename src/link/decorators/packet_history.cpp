#include "link/decorators/packet_history.h"

#include <cstring>

namespace verbatim::link {

std::size_t PacketHistory::Hash::operator()(const Key& key) const {
  std::array<std::uint64_t, 2> peer{};
  std::memcpy(peer.data(), key.peer.data(), sizeof peer);
  std::uint64_t hash = peer[0] * 31 + peer[1];
  hash = hash * 31 + key.dest_qp.value();
  return hash * 31 + (static_cast<unsigned>(key.direction) << 1 | (key.is_response ? 1u : 0u));
}

PacketIdentity PacketHistory::note(Direction direction, const SocketAddress& peer,
                                   const wire::Bth& bth) {
  const wire::OpcodeInfo& info = wire::info(bth.opcode);
  Key key{.peer = peer.ipv6_bytes(),
          .dest_qp = bth.dest_qp,
          .direction = direction,
          .is_response = info.known && !info.is_request};
  auto found = flows_.find(key);
  if (found == flows_.end()) {
    if (flows_.size() == kFlowsMax) {
      found = flows_.begin();
    } else {
      auto flow = std::make_unique<Flow>();
      flow->number = static_cast<std::uint32_t>(flows_.size());
      flow->first = bth.psn;
      found = flows_.emplace(key, std::move(flow)).first;
    }
  }
  Flow& flow = *found->second;
  Attempts& attempts = flow.packets[bth.psn.value() % kPacketsMax];
  const auto psn_high = static_cast<std::uint16_t>(bth.psn.value() / kPacketsMax);
  if (attempts.psn_high != psn_high) attempts = {.psn_high = psn_high};
  ++attempts.count;
  return {.flow = flow.number,
          .offset = distance(flow.first, bth.psn),
          .attempt = attempts.count,
          .opcode = bth.opcode,
          .direction = direction};
}

}  // namespace verbatim::link
