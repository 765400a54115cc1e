#include "infinity/memory.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <infinity/core/Configuration.h>
#include <infinity/memory/Atomic.h>
#include <infinity/memory/Region.h>
#include <infinity/memory/RegionToken.h>
#include <infinity/memory/RegisteredMemory.h>

#include "infinity/device.h"
#include "infinity/failure.h"

namespace infinity {
namespace detail {

void* allocate(const char* of, std::uint64_t bytes) {
  void* data = nullptr;
  if (const int code = posix_memalign(&data, core::Configuration::PAGE_SIZE, bytes); code != 0)
    fail(code, of, ": ", bytes, " bytes cannot be allocated");
  std::memset(data, 0, bytes);
  return data;
}

ibv_mr* register_memory(const char* of, ibv_pd* domain, void* data, std::uint64_t bytes,
                        unsigned access) {
  // Calls the function, not the macro of that name, which hides a flag that older libraries lack.
  ibv_mr* const region = (ibv_reg_mr)(domain, data, bytes, static_cast<int>(access));
  if (region == nullptr) {
    fail(errno, of, ": ", bytes, " bytes at ", data,
         " cannot be registered: they are not the program's, or more than `ulimit -l` allows");
  }
  return region;
}

}  // namespace detail

namespace memory {

using detail::kBufferAccess;
using detail::refuse;

Region::~Region() = default;

RegionToken* Region::createRegionToken() { return createRegionToken(0, sizeInBytes); }

RegionToken* Region::createRegionToken(uint64_t offset) {
  return createRegionToken(offset, getRemainingSizeInBytes(offset));
}

RegionToken* Region::createRegionToken(uint64_t offset, uint64_t size) {
  if (offset > sizeInBytes || size > sizeInBytes - offset) {
    refuse("Region::createRegionToken: ", size, " bytes from ", offset,
           " on are not within the region's ", sizeInBytes);
  }
  return new RegionToken(this, memoryRegionType, size, getAddressWithOffset(offset), getLocalKey(),
                         getRemoteKey());
}

RegionType Region::getMemoryRegionType() { return memoryRegionType; }
uint64_t Region::getSizeInBytes() { return sizeInBytes; }
uint64_t Region::getRemainingSizeInBytes(uint64_t offset) {
  return offset < sizeInBytes ? sizeInBytes - offset : 0;
}
uint64_t Region::getAddress() { return reinterpret_cast<uintptr_t>(data); }
uint64_t Region::getAddressWithOffset(uint64_t offset) { return getAddress() + offset; }
uint32_t Region::getLocalKey() { return ibvMemoryRegion->lkey; }
uint32_t Region::getRemoteKey() { return ibvMemoryRegion->rkey; }

RegionToken::RegionToken() : RegionToken(nullptr, UNKNOWN, 0, 0, 0, 0) {}
RegionToken::RegionToken(Region* region, RegionType type, uint64_t size, uint64_t start,
                         uint32_t ownKey, uint32_t peersKey)
    : memoryRegion(region),
      memoryRegionType(type),
      sizeInBytes(size),
      address(start),
      localKey(ownKey),
      remoteKey(peersKey) {}

Region* RegionToken::getMemoryRegion() { return memoryRegion; }
RegionType RegionToken::getMemoryRegionType() { return memoryRegionType; }
uint64_t RegionToken::getSizeInBytes() { return sizeInBytes; }
uint64_t RegionToken::getRemainingSizeInBytes(uint64_t offset) {
  return offset < sizeInBytes ? sizeInBytes - offset : 0;
}
uint64_t RegionToken::getAddress() { return address; }
uint64_t RegionToken::getAddressWithOffset(uint64_t offset) { return address + offset; }
uint32_t RegionToken::getLocalKey() { return localKey; }
uint32_t RegionToken::getRemoteKey() { return remoteKey; }

RegisteredMemory::RegisteredMemory(core::Context* of, uint64_t size)
    : context(of),
      data(detail::allocate("RegisteredMemory", size)),
      sizeInBytes(size),
      memoryAllocated(true) {
  try {
    ibvMemoryRegion = detail::register_memory("RegisteredMemory", of->getProtectionDomain(), data,
                                              size, kBufferAccess);
  } catch (...) {
    std::free(data);
    throw;
  }
}

RegisteredMemory::RegisteredMemory(core::Context* of, void* memory, uint64_t size)
    : context(of),
      data(memory),
      sizeInBytes(size),
      ibvMemoryRegion(detail::register_memory("RegisteredMemory", of->getProtectionDomain(), memory,
                                              size, kBufferAccess)),
      memoryAllocated(false) {}

RegisteredMemory::~RegisteredMemory() {
  ibv_dereg_mr(ibvMemoryRegion);
  if (memoryAllocated) std::free(data);
}

void* RegisteredMemory::getData() { return data; }
uint64_t RegisteredMemory::getSizeInBytes() { return sizeInBytes; }
ibv_mr* RegisteredMemory::getRegion() { return ibvMemoryRegion; }

Atomic::Atomic(core::Context* of) : value(0) {
  context = of;
  memoryRegionType = ATOMIC;
  data = &value;
  sizeInBytes = sizeof value;
  ibvMemoryRegion = detail::register_memory("Atomic", of->getProtectionDomain(), data, sizeInBytes,
                                            kBufferAccess | of->device_->atomic_access());
}

Atomic::~Atomic() { ibv_dereg_mr(ibvMemoryRegion); }

// Peers change the value.
uint64_t Atomic::getValue() { return __atomic_load_n(&value, __ATOMIC_ACQUIRE); }
void Atomic::setValueNonAtomic(uint64_t to) { __atomic_store_n(&value, to, __ATOMIC_RELEASE); }

}  // namespace memory
}  // namespace infinity
