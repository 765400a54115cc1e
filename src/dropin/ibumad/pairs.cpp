#include <algorithm>
#include <cerrno>
#include <span>

#include <fmt/format.h>

#include "dropin/ibumad/host.h"
#include "dropin/ibumad/umad.h"
#include "dropin/ibverbs/refusal.h"

/// Which device carries subnet management (SMI), and which the other management classes (GSI). Some
/// cards have two devices for that; a host of a fabric has one for both.
namespace verbatim::ibumad {
namespace {

constexpr std::uint32_t kSmDisabled = 1u << 10;  // Of CapabilityMask (IBA 14.2.5.6).
constexpr std::uint8_t kDown = 1;

/// Its ports are not chosen yet. The SMI has no name if the first port does not do subnet
/// management.
umad_ca_pair pair_of(const protocol::HostDescription& host) {
  umad_ca_pair pair{};
  protocol::put_text(pair.gsi_name, protocol::text_of(host.device));
  if ((host.ports[0].capabilities & kSmDisabled) == 0) {
    protocol::put_text(pair.smi_name, protocol::text_of(host.device));
  }
  return pair;
}

/// `number` 0: the only port, or else the first that is not down. One that is down is chosen only
/// if the caller names it and its device.
Result<unsigned> preferred_port(const protocol::HostDescription& host, bool device_named,
                                unsigned number) {
  const auto ports =
      std::span(host.ports).first(std::min<std::size_t>(host.port_count, host.ports.size()));
  const auto is_up = [](const protocol::PortDescription& port) { return port.state > kDown; };
  if (number == 0 && ports.size() == 1) number = 1;
  if (number == 0) {
    const auto found = std::ranges::find_if(ports, is_up);
    if (found == ports.end()) return refuse(ENODEV, "all ports are down");
    return static_cast<unsigned>(found - ports.begin()) + 1;
  }
  if (number > ports.size()) return refuse(ENODEV, fmt::format("there is no port {}", number));
  if (device_named || is_up(ports[number - 1])) return number;
  return refuse(ENODEV, fmt::format("port {} is down; to open it, name its device, too", number));
}

Result<umad_ca_pair> find_pair(const char* device, unsigned number, bool needs_smi) {
  const auto host = describe_host();
  if (!host) return std::unexpected(host.error());
  if (auto ours = check_device(*host, device); !ours) return std::unexpected(ours.error());
  umad_ca_pair pair = pair_of(*host);
  if (needs_smi && pair.smi_name[0] == '\0') {
    return refuse(ENODEV, "subnet management is disabled on the device's port");
  }
  const auto port = preferred_port(*host, device != nullptr, number);
  if (!port) return std::unexpected(port.error());
  pair.smi_preferred_port = pair.gsi_preferred_port = *port;
  return pair;
}

}  // namespace
}  // namespace verbatim::ibumad

using namespace verbatim;

extern "C" {

/// Leaves the preferred ports 0.
int umad_get_smi_gsi_pairs(umad_ca_pair cas[], size_t max) {
  std::fill_n(cas, max, umad_ca_pair{});
  const auto host = ibumad::describe_host();
  if (!host) {
    dropin::refused("umad_get_smi_gsi_pairs", host.error());
    return 0;
  }
  if (max < 1) return 0;
  cas[0] = ibumad::pair_of(*host);
  return 1;
}

/// Returns 0 or a negative errno value. `enforce_smi`: only a device that carries subnet
/// management.
int umad_get_smi_gsi_pair_by_ca_name(const char* devname, uint8_t portnum, umad_ca_pair* ca_pair,
                                     unsigned enforce_smi) {
  if (ca_pair == nullptr) return -1;
  const auto pair = ibumad::find_pair(devname, portnum, enforce_smi != 0);
  *ca_pair = pair.value_or(umad_ca_pair{});
  if (pair) return 0;
  errno = dropin::refused("umad_get_smi_gsi_pair_by_ca_name", pair.error());
  return -errno;
}

}  // extern "C"
