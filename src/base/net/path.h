#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "base/net/address.h"
#include "base/types.h"

namespace verbatim {

/// Local identifier of a port in an InfiniBand subnet (IBA 4.1.3): 1 to 0xbfff unicast, 0xc000 to
/// 0xfffe multicast, 0xffff permissive.
enum class Lid : std::uint16_t {};

/// The fields of a GRH that an address vector sets (IBA 8.3).
struct GlobalRoute {
  Gid source{};
  Gid destination{};
  std::uint32_t flow_label = 0;  // 20 bits.
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  bool operator==(const GlobalRoute&) const = default;
};
inline constexpr std::uint8_t kHopLimitMax = 255;
/// With a lower one no packet leaves its InfiniBand subnet (IBA 8.3.6).
constexpr bool may_leave_subnet(std::uint8_t hop_limit) { return hop_limit > 1; }

/// The way to a RoCE peer. v1 (annex A16): the destination's port is 0, and the link resolves the
/// MAC, which may change. v2 (annex A17): the destination's port is the peer's UDP port.
template <RoceVersion version>
struct RocePath {
  SocketAddress destination;
  GlobalRoute grh;
  bool operator==(const RocePath&) const = default;
};
using RoceV1Path = RocePath<RoceVersion::v1>;
using RoceV2Path = RocePath<RoceVersion::v2>;

/// The way to a peer in an InfiniBand subnet.
struct InfinibandPath {
  Lid dlid{};
  Lid slid{};                      // This port's own LID, with its path bits.
  std::uint8_t service_level = 0;  // 0 to 15.
  std::uint8_t static_rate = 0;    // As `ibv_rate`; 0: the port's rate.
  std::uint8_t port = 1;           // The adapter's own, by which packets leave or have come.
  std::optional<GlobalRoute> grh;
  bool operator==(const InfinibandPath&) const = default;
};

/// A multicast group, as one port of the adapter is in it. RoCE has no LIDs. A fabric's switches
/// forward by LID, which groups may share, so members compare the GID, too (IBA 10.5.2).
struct MulticastGroup {
  Gid gid;
  Lid lid{};
  std::uint8_t port = 1;
  bool operator==(const MulticastGroup&) const = default;
};

/// iWARP: the peer of a TCP connection.
struct StreamPath {
  SocketAddress destination;
  bool operator==(const StreamPath&) const = default;
};

/// The way to a peer, as one port sees it. A value.
using Path = std::variant<RoceV2Path, RoceV1Path, InfinibandPath, StreamPath>;

/// Returns the RoCE path to an address: v1 if the port is 0, else v2.
Path roce_path(const SocketAddress& destination);
/// Returns the destination address of a RoCE or iWARP path; an empty one for InfiniBand.
SocketAddress address_of(const Path& path);
/// Returns true if both lead from the same own port to the same port of the same node over the same
/// kind of link, whatever the UDP port, flow label and hop limit. A packet is accepted from a peer
/// by this (IBA 9.6.1.1.2).
bool same_source(const Path& a, const Path& b);
/// Returns "10.0.0.1:4791", "10.0.0.1 (RoCE v1)", "LID 3" or "10.0.0.1:5000 (TCP)".
std::string path_text(const Path& path);

}  // namespace verbatim
