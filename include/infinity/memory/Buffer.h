#pragma once

#include <infinity/core/Context.h>
#include <infinity/memory/Region.h>
#include <infinity/memory/RegisteredMemory.h>
#include <stdint.h>

namespace infinity {
namespace memory {

class Buffer : public Region {
 public:
  /// Allocates zeroed memory, aligned to Configuration::PAGE_SIZE, and registers it.
  Buffer(infinity::core::Context* context, uint64_t sizeInBytes);
  /// A part of registered memory. Throws `Error` if it is outside.
  Buffer(infinity::core::Context* context, infinity::memory::RegisteredMemory* memory,
         uint64_t offset, uint64_t sizeInBytes);
  /// Registers the caller's memory.
  Buffer(infinity::core::Context* context, void* memory, uint64_t sizeInBytes);
  ~Buffer() override;

  void* getData();

  /// Changes the size. With `newData` also the place: the content is copied there, the old memory
  /// belongs to the caller, and `newData` is freed with the buffer if the buffer allocated the old
  /// memory. Without `newData`, memory that the buffer allocated may move in order to grow. Earlier
  /// tokens and requests are invalid. Throws `Error` for a part of a `RegisteredMemory`.
  void resize(uint64_t newSize, void* newData = nullptr);

 protected:
  bool memoryRegistered;
  bool memoryAllocated;

 private:
  uint64_t allocatedBytes_ = 0;
};

}  // namespace memory
}  // namespace infinity
