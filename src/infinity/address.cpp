#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <infinity/core/Configuration.h>
#include <infinity/utils/Address.h>
#include <strings.h>

#include "infinity/device.h"
#include "infinity/failure.h"
#include "infinity/meeting/manager.h"

namespace infinity::utils {

using detail::fail;
using detail::refuse;

namespace {

/// Returns the address of the RDMA device, which Infinity's programs know as interface "ib0".
std::string address_of_device() {
  try {
    const detail::Device device(0, 1);
    in_addr address{};
    if (device.is_iwarp) {
      const auto found = detail::Manager::address_of(device);
      if (!found) return "";
      address = reinterpret_cast<const sockaddr_in&>(*found).sin_addr;
    } else {
      const auto gid = device.gid_for(in6_addr{}, nullptr);
      if (!gid || !IN6_IS_ADDR_V4MAPPED(reinterpret_cast<const in6_addr*>(gid->gid.raw))) return "";
      std::memcpy(&address, &gid->gid.raw[12], sizeof address);
    }
    char text[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, &address, text, sizeof text);
    return text;
  } catch (const Error&) {
    return "";
  }
}

char* copy_of(const std::string& text) {
  char* const copy = strdup(text.c_str());
  if (copy == nullptr) fail(ENOMEM, "Address: no memory");
  return copy;
}

}  // namespace

char* Address::getIpAddressOfInterface(const char* interfaceName) {
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) fail(errno, "Address: the interfaces cannot be listed");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> list(found, freeifaddrs);
  for (const ifaddrs* one = list.get(); one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET ||
        strcasecmp(one->ifa_name, interfaceName) != 0)
      continue;
    char text[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, text,
              sizeof text);
    return copy_of(text);
  }
  if (strcasecmp(interfaceName, core::Configuration::DEFAULT_IB_DEVICE) == 0) {
    if (const std::string text = address_of_device(); !text.empty()) return copy_of(text);
  }
  refuse("Address::getIpAddressOfInterface: no interface ", interfaceName, " with an IPv4 address");
}

uint32_t Address::getIpAddressAsUint32(const char* ipAddress) {
  in_addr address{};
  if (inet_pton(AF_INET, ipAddress, &address) != 1)
    refuse("Address::getIpAddressAsUint32: ", ipAddress, " is no IPv4 address");
  return ntohl(address.s_addr);
}

}  // namespace infinity::utils
