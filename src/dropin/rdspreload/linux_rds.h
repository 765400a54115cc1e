#pragma once

#include <cstdint>

/// linux/rds.h, as far as memory is concerned; that file is no C++.
namespace verbatim::rdspreload {

enum ControlMessage : int {
  kRdmaArguments = 1,
  kRdmaDestination = 2,
  kRdmaMap = 3,
  kRdmaStatus = 4,
  kCongestionUpdate = 5,
  kFetchAndAdd = 6,
  kCompareAndSwap = 7,
  kMaskedFetchAndAdd = 8,
  kMaskedCompareAndSwap = 9,
};
enum SocketOption : int { kGetMemory = 2, kFreeMemory = 3, kGetMemoryForDestination = 7 };
enum RdmaFlag : std::uint64_t {
  kReadWrite = 1,
  kFence = 2,
  kUseOnce = 8,
  kNotifyMe = 32,
  kSilent = 64,
};

struct RdsIovec {
  std::uint64_t address, bytes;
};
struct GetMemory {
  RdsIovec memory;
  std::uint64_t cookie_address, flags;
};
struct GetMemoryForDestination {
  std::uint8_t destination[128];
  GetMemory memory;
};
struct FreeMemory {
  std::uint64_t cookie, flags;
};
struct RdmaArguments {
  std::uint64_t cookie;
  RdsIovec remote;
  std::uint64_t local_address, local_count, flags, token;
};
struct AtomicArguments {
  std::uint64_t cookie, local_address, remote_address;
  /// compare, swap; add; compare, swap, compare_mask, swap_mask; add, nocarry_mask
  std::uint64_t operands[4];
  std::uint64_t flags, token;
};
struct RdmaNotice {
  std::uint64_t token;
  std::int32_t status;
};

}  // namespace verbatim::rdspreload
