#pragma once

#include <infiniband/verbs.h>
#include <infinity/core/Context.h>
#include <stdint.h>

namespace infinity {
namespace memory {

/// Memory that is registered once, for several `Buffer`s.
class RegisteredMemory {
 public:
  /// Allocates zeroed memory, aligned to Configuration::PAGE_SIZE.
  RegisteredMemory(infinity::core::Context* context, uint64_t sizeInBytes);
  /// Registers the caller's memory.
  RegisteredMemory(infinity::core::Context* context, void* data, uint64_t sizeInBytes);
  ~RegisteredMemory();
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;

  void* getData();
  uint64_t getSizeInBytes();
  ibv_mr* getRegion();

 protected:
  infinity::core::Context* context;
  void* data;
  uint64_t sizeInBytes;
  ibv_mr* ibvMemoryRegion;
  bool memoryAllocated;
};

}  // namespace memory
}  // namespace infinity
