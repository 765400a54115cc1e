#pragma once

#include <infiniband/verbs.h>
#include <infinity/core/Context.h>
#include <infinity/memory/RegionType.h>
#include <stdint.h>

namespace infinity {
namespace memory {

class RegionToken;

/// Registered memory: a `Buffer` or an `Atomic`.
class Region {
 public:
  virtual ~Region();

  /// Creates a token by which a peer can access the region from the offset on; the caller deletes
  /// it. Throws `Error` if the offset is not within the region.
  RegionToken* createRegionToken();
  RegionToken* createRegionToken(uint64_t offset);
  RegionToken* createRegionToken(uint64_t offset, uint64_t size);

  RegionType getMemoryRegionType();
  uint64_t getSizeInBytes();
  /// Returns 0 if the offset is beyond the region.
  uint64_t getRemainingSizeInBytes(uint64_t offset);
  uint64_t getAddress();
  uint64_t getAddressWithOffset(uint64_t offset);
  uint32_t getLocalKey();
  uint32_t getRemoteKey();

 protected:
  Region() = default;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  infinity::core::Context* context = nullptr;
  RegionType memoryRegionType = UNKNOWN;
  ibv_mr* ibvMemoryRegion = nullptr;

  void* data = nullptr;
  uint64_t sizeInBytes = 0;
};

}  // namespace memory
}  // namespace infinity
