#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <infinity/memory/Buffer.h>

#include "infinity/failure.h"
#include "infinity/memory.h"

namespace infinity::memory {

using detail::kBufferAccess;
using detail::refuse;
using detail::register_memory;

Buffer::Buffer(core::Context* of, uint64_t size)
    : memoryRegistered(true), memoryAllocated(true), allocatedBytes_(size) {
  context = of;
  memoryRegionType = BUFFER;
  sizeInBytes = size;
  data = detail::allocate("Buffer", size);
  try {
    ibvMemoryRegion =
        register_memory("Buffer", of->getProtectionDomain(), data, size, kBufferAccess);
  } catch (...) {
    std::free(data);
    throw;
  }
}

Buffer::Buffer(core::Context* of, RegisteredMemory* memory, uint64_t offset, uint64_t size)
    : memoryRegistered(false), memoryAllocated(false) {
  const uint64_t whole = memory->getSizeInBytes();
  if (offset > whole || size > whole - offset) {
    refuse("Buffer: ", size, " bytes from ", offset, " on are not within the registered memory's ",
           whole);
  }
  context = of;
  memoryRegionType = BUFFER;
  sizeInBytes = size;
  data = static_cast<char*>(memory->getData()) + offset;
  ibvMemoryRegion = memory->getRegion();
}

Buffer::Buffer(core::Context* of, void* memory, uint64_t size)
    : memoryRegistered(true), memoryAllocated(false) {
  context = of;
  memoryRegionType = BUFFER;
  sizeInBytes = size;
  data = memory;
  ibvMemoryRegion =
      register_memory("Buffer", of->getProtectionDomain(), memory, size, kBufferAccess);
}

Buffer::~Buffer() {
  if (memoryRegistered) ibv_dereg_mr(ibvMemoryRegion);
  if (memoryAllocated) std::free(data);
}

void* Buffer::getData() { return data; }

void Buffer::resize(uint64_t newSize, void* newData) {
  if (!memoryRegistered) {
    refuse(
        "Buffer::resize: the buffer is a part of a RegisteredMemory: make another Buffer of it "
        "instead");
  }
  void* const old = data;
  void* place = newData == nullptr ? old : newData;
  const bool moves = place == old && memoryAllocated && newSize > allocatedBytes_;
  if (moves) place = detail::allocate("Buffer::resize", newSize);
  ibv_mr* region = nullptr;
  try {
    region = register_memory("Buffer::resize", context->getProtectionDomain(), place, newSize,
                             kBufferAccess);
  } catch (...) {
    if (moves) std::free(place);
    throw;
  }
  if (place != old) std::memcpy(place, old, std::min(sizeInBytes, newSize));
  ibv_dereg_mr(ibvMemoryRegion);
  if (moves) std::free(old);
  if (place != old) allocatedBytes_ = newSize;
  ibvMemoryRegion = region;
  data = place;
  sizeInBytes = newSize;
}

}  // namespace infinity::memory
