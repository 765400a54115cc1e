#include "ulp/ipoib/wire/connected_peer.h"

namespace verbatim::ulp::ipoib {

std::optional<ConnectedPeer> decode_connected_peer(ByteSpan private_data) {
  if (private_data.size() < ConnectedPeer::kSize) return std::nullopt;
  const ConnectedPeer peer{.datagrams = Qpn(load_be24(&private_data[1])),
                           .receive_bytes = load_be<std::uint32_t>(&private_data[4])};
  if (peer.receive_bytes <= kEncapsulationBytes) return std::nullopt;
  return peer;
}

std::array<std::byte, ConnectedPeer::kSize> encode(const ConnectedPeer& peer) {
  std::array<std::byte, ConnectedPeer::kSize> bytes{};
  store_be24(&bytes[1], peer.datagrams.value());
  store_be(&bytes[4], peer.receive_bytes);
  return bytes;
}

}  // namespace verbatim::ulp::ipoib
