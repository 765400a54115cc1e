#pragma once

#include <infinity/memory/Region.h>
#include <infinity/memory/RegionType.h>
#include <stdint.h>

namespace infinity {
namespace memory {

/// Names a region of another process. Its 40 bytes may be sent as they are, as in Infinity: the
/// pointer (of the process that made it), the type, 4 unused bytes, size, address, both keys.
class RegionToken {
 public:
  RegionToken();
  RegionToken(Region* memoryRegion, RegionType memoryRegionType, uint64_t sizeInBytes,
              uint64_t address, uint32_t localKey, uint32_t remoteKey);

  /// Returns a pointer that is valid only in the process that made the token.
  Region* getMemoryRegion();
  RegionType getMemoryRegionType();
  uint64_t getSizeInBytes();
  /// Returns 0 if the offset is beyond the region.
  uint64_t getRemainingSizeInBytes(uint64_t offset);
  uint64_t getAddress();
  uint64_t getAddressWithOffset(uint64_t offset);
  uint32_t getLocalKey();
  uint32_t getRemoteKey();

 protected:
  Region* memoryRegion;
  RegionType memoryRegionType;
  uint64_t sizeInBytes;
  uint64_t address;
  uint32_t localKey;
  uint32_t remoteKey;
};

static_assert(sizeof(RegionToken) == 40, "programs send region tokens as raw bytes");

}  // namespace memory
}  // namespace infinity
