#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "base/net/address.h"
#include "base/types.h"

namespace verbatim {

/// Local identifier of a port in an InfiniBand subnet (IBA 4.1.3): 1 to 0xbfff of one port, 0xc000
/// to 0xfffe of a multicast group, 0xffff the permissive one.
enum class Lid : std::uint16_t {};

/// What a GRH says (IBA 8.3).
struct GlobalRoute {
  Gid source{};
  Gid destination{};
  std::uint32_t flow_label = 0;  // 20 bits.
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  bool operator==(const GlobalRoute&) const = default;
};

/// Where a peer is in RoCE. Version 1 (annex A16): the destination's port is 0; its MAC is the
/// link's to know, for it may move. Version 2 (annex A17): the port is the peer's UDP port.
template <RoceVersion version>
struct RocePath {
  SocketAddress destination;
  GlobalRoute grh;
  bool operator==(const RocePath&) const = default;
};
using RoceV1Path = RocePath<RoceVersion::v1>;
using RoceV2Path = RocePath<RoceVersion::v2>;

/// Where a peer is in an InfiniBand subnet.
struct InfinibandPath {
  Lid dlid{};
  Lid slid{};                      // The port's own, path bits included.
  std::uint8_t service_level = 0;  // 0 to 15.
  std::uint8_t static_rate = 0;    // As `ibv_rate`; 0: the port's.
  std::optional<GlobalRoute> grh;
  bool operator==(const InfinibandPath&) const = default;
};

/// iWARP: the peer of a TCP connection.
struct StreamPath {
  SocketAddress destination;
  bool operator==(const StreamPath&) const = default;
};

/// Where a peer is, seen from one port. A value.
using Path = std::variant<RoceV2Path, RoceV1Path, InfinibandPath, StreamPath>;

/// The RoCE path to an address: version 1 where its port is 0.
Path roce_path(const SocketAddress& destination);
/// The address that a path of RoCE or iWARP leads to; an empty one for InfiniBand.
SocketAddress address_of(const Path& path);
/// True where both lead to one port of one node over the same kind of link, whatever the UDP port,
/// flow label and hop limit: by this a packet counts as its peer's (IBA 9.6.1.1.2).
bool same_source(const Path& a, const Path& b);
/// "10.0.0.1:4791", "10.0.0.1 (RoCE v1)", "LID 3", "10.0.0.1:5000 (TCP)".
std::string path_text(const Path& path);

}  // namespace verbatim
