#pragma once

#include <stdint.h>

namespace infinity {
namespace utils {

class Address {
 public:
  /// Returns the interface's first IPv4 address as text; the caller frees it with free(). Throws
  /// `Error` if there is no such interface, except for Configuration::DEFAULT_IB_DEVICE: if no
  /// interface has this name, it means the first RDMA device's IPv4 address.
  static char* getIpAddressOfInterface(const char* interfaceName);

  /// Returns "1.2.3.4" as 0x01020304. Throws `Error` for other texts.
  static uint32_t getIpAddressAsUint32(const char* ipAddress);
};

}  // namespace utils
}  // namespace infinity
