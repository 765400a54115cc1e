#pragma once

#include <string>
#include <string_view>

namespace verbatim {

/// Where a view has uDAPL's registry of providers, which DAT_OVERRIDE names to programs.
inline constexpr std::string_view kDaplRegistry = "/etc/dat.conf";

/// Writes uDAPL's registry into a view (`root`), with the names that OFED's has: for each port of
/// the device `ofa-v2-DEVICE-PORT` (connections by sockets) and `ofa-v2-DEVICE-PORTu` (by datagrams
/// of verbs), and `ofa-v2-DEVICE` (by rdma_cm) if the node has an IP `address`. `has_datagrams`:
/// the device has UD queue pairs and unconnected RC ones, which iWARP's have not. Returns false if
/// it cannot be written.
bool write_dapl_registry(const std::string& root, std::string_view device, unsigned ports,
                         const std::string& address, bool has_datagrams);

}  // namespace verbatim
