#pragma once

#include <stdint.h>

namespace infinity {
namespace utils {

class Address {
 public:
  /// The interface's first IPv4 address in text; the caller frees it with free(). Throws `Error` if
  /// there is no such interface, except for Configuration::DEFAULT_IB_DEVICE: that stands for the
  /// first RDMA device's IPv4 address where no interface has the name.
  static char* getIpAddressOfInterface(const char* interfaceName);

  /// "1.2.3.4" as 0x01020304. Throws `Error` if the text is something else.
  static uint32_t getIpAddressAsUint32(const char* ipAddress);
};

}  // namespace utils
}  // namespace infinity
