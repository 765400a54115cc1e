#pragma once

#include <cstdint>

#include "region/region_table.h"
#include "wire/error.h"
#include "wire/iwarp/rdmap.h"

/// Faults, which end a stream. iWARP does not recover: the side that finds a fault sends a
/// Terminate message, and both sides close.
namespace verbatim::transport::iwarp {

/// The fields of a Terminate message: layer, type and code (RFC 5040, section 4.8, figure 10; RFC
/// 5041, section 7; RFC 5044, section 8).
struct Fault {
  wire::RdmapTerminate::Layer layer{};
  std::uint8_t type = 0;
  std::uint8_t code = 0;
  friend bool operator==(const Fault&, const Fault&) = default;
};

namespace faults {

using Layer = wire::RdmapTerminate::Layer;

// RDMAP: local catastrophic errors, protection errors, operation errors.
inline constexpr Fault kLocalCatastrophe{Layer::rdma, 0, 0x00};
inline constexpr Fault kInvalidStag{Layer::rdma, 1, 0x00};
inline constexpr Fault kBounds{Layer::rdma, 1, 0x01};
inline constexpr Fault kAccessRights{Layer::rdma, 1, 0x02};
inline constexpr Fault kForeignStag{Layer::rdma, 1, 0x03};
inline constexpr Fault kOffsetWraps{Layer::rdma, 1, 0x04};
inline constexpr Fault kNotInvalidated{Layer::rdma, 1, 0x09};
inline constexpr Fault kProtection{Layer::rdma, 1, 0xff};
inline constexpr Fault kRdmapVersion{Layer::rdma, 2, 0x05};
inline constexpr Fault kUnexpectedOpcode{Layer::rdma, 2, 0x06};
inline constexpr Fault kOperation{Layer::rdma, 2, 0xff};
// DDP: faults in tagged segments, then in untagged ones.
inline constexpr Fault kTaggedInvalidStag{Layer::ddp, 1, 0x00};
inline constexpr Fault kTaggedBounds{Layer::ddp, 1, 0x01};
inline constexpr Fault kTaggedForeignStag{Layer::ddp, 1, 0x02};
inline constexpr Fault kTaggedOffsetWraps{Layer::ddp, 1, 0x03};
inline constexpr Fault kTaggedDdpVersion{Layer::ddp, 1, 0x04};
inline constexpr Fault kInvalidQueue{Layer::ddp, 2, 0x01};
inline constexpr Fault kNoBuffer{Layer::ddp, 2, 0x02};
inline constexpr Fault kMessageNumber{Layer::ddp, 2, 0x03};
inline constexpr Fault kMessageOffset{Layer::ddp, 2, 0x04};
inline constexpr Fault kMessageTooLong{Layer::ddp, 2, 0x05};
inline constexpr Fault kUntaggedDdpVersion{Layer::ddp, 2, 0x06};
// MPA.
inline constexpr Fault kCrc{Layer::llp, 0, 0x02};
inline constexpr Fault kMarker{Layer::llp, 0, 0x03};

}  // namespace faults

/// Returns the fault for a key that a READ, atomic or invalidation may not use.
constexpr Fault fault_of(region::KeyError error) {
  switch (error) {
    case region::KeyError::unknown_key:
      return faults::kInvalidStag;
    case region::KeyError::wrong_domain:
      return faults::kForeignStag;
    case region::KeyError::missing_right:
      return faults::kAccessRights;
    case region::KeyError::out_of_bounds:
      return faults::kBounds;
    case region::KeyError::not_mapped:
      return faults::kProtection;
  }
  return faults::kProtection;
}

/// Returns the fault for a key that a tagged segment may not use: DDP's, except for access rights,
/// which RDMAP checks.
constexpr Fault tagged_fault_of(region::KeyError error) {
  switch (error) {
    case region::KeyError::unknown_key:
      return faults::kTaggedInvalidStag;
    case region::KeyError::wrong_domain:
      return faults::kTaggedForeignStag;
    case region::KeyError::out_of_bounds:
      return faults::kTaggedBounds;
    default:
      return fault_of(error);
  }
}

/// Returns the fault for bytes that are no valid segment.
constexpr Fault fault_of(wire::WireError error, bool tagged) {
  switch (error) {
    case wire::WireError::ddp_version:
      return tagged ? faults::kTaggedDdpVersion : faults::kUntaggedDdpVersion;
    case wire::WireError::rdmap_version:
      return faults::kRdmapVersion;
    case wire::WireError::rdmap_queue:
      return tagged ? faults::kUnexpectedOpcode : faults::kInvalidQueue;
    case wire::WireError::unknown_opcode:
      return faults::kUnexpectedOpcode;
    case wire::WireError::mpa_crc:
      return faults::kCrc;
    case wire::WireError::mpa_marker:
      return faults::kMarker;
    default:
      return faults::kOperation;
  }
}

}  // namespace verbatim::transport::iwarp
