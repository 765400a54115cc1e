#pragma once

#include <cstdint>
#include <type_traits>

#include "base/error.h"
#include "base/net/path.h"
#include "base/types.h"

namespace verbatim::arena {

/// Which kind of `Path` a record holds.
enum class PathKind : std::uint8_t { none, roce_v1, roce_v2, infiniband, stream };
PathKind kind_of(const Path& path);

/// By what one end of the direct path knows the other.
struct PeerName {
  /// RoCE: the GID that the peer sends from. InfiniBand: what its packets would say, see
  /// `infiniband_name`. iWARP: a random number that only the peer has been told.
  Gid name;
  PathKind kind{};
  friend bool operator==(const PeerName&, const PeerName&) = default;
};
/// Source and destination LID and P_Key, behind zeros.
PeerName infiniband_name(Lid source, Lid destination, PKey pkey);
/// The same name with the P_Key of a full member of its partition.
PeerName as_full_member(const PeerName& name);
/// Returns true if both are of InfiniBand and their LIDs are the same.
bool have_same_lids(const PeerName& one, const PeerName& other);
/// IBA 10.9.1.1: the membership bit.
constexpr bool is_full_member(PKey pkey) { return (raw(pkey) & 0x8000) != 0; }

/// A Path without pointers and variants, for shared memory. Its source is the address or the GID
/// that the record beside it names.
struct FlatPath {
  Gid destination;             // RoCE and iWARP: of the address. InfiniBand: of the GRH.
  std::uint32_t scope_id = 0;  // Of a link-local destination.
  std::uint32_t flow_label = 0;
  std::uint16_t port = 0;  // UDP or TCP; InfiniBand: the adapter's.
  std::uint16_t dlid = 0;
  std::uint16_t slid = 0;  // Path bits included.
  PathKind kind{};
  std::uint8_t has_grh = 0;  // InfiniBand: may be 0.
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t service_level = 0;
  std::uint8_t static_rate = 0;
};
static_assert(std::is_standard_layout_v<FlatPath> && sizeof(FlatPath) == 36);

FlatPath flat_path_of(const Path& path);
/// EINVAL if the record has no kind or no destination: another program wrote it.
Result<Path> path_of(const FlatPath& record);

}  // namespace verbatim::arena
