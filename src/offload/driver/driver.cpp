// net_verbatim: a virtual device of DPDK whose ports are those of a card. All of them are made in
// one probe: DPDK probes no virtual device twice.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <rte_kvargs.h>
#include <rte_version.h>

#include "offload/driver/age_alarm.h"
#include "offload/driver/device.h"
#include "offload/driver/queues.h"
#include "offload/driver/recovery.h"

namespace verbatim::offload::driver {
namespace {

struct Arguments {
  std::string socket;
  unsigned insert_delay_ms = 0;
};

/// A device, and who looks after its card.
struct Watched {
  std::unique_ptr<Device> device;
  std::unique_ptr<Recovery> recovery;  // Ends first.
};

std::vector<Watched>& devices() {
  static std::vector<Watched> all;
  return all;
}

int to_text(const char*, const char* value, void* to) {
  *static_cast<std::string*>(to) = value;
  return 0;
}
int to_number(const char*, const char* value, void* to) {
  *static_cast<unsigned*>(to) = static_cast<unsigned>(std::strtoul(value, nullptr, 10));
  return 0;
}

Arguments arguments_of(rte_vdev_device* vdev) {
  Arguments arguments;
  if (rte_kvargs* const words = rte_kvargs_parse(rte_vdev_device_args(vdev), nullptr)) {
    rte_kvargs_process(words, "socket", to_text, &arguments.socket);
    rte_kvargs_process(words, "delay", to_number, &arguments.insert_delay_ms);
    rte_kvargs_free(words);
  }
  return arguments;
}

/// Called by rte_eth_dev_create for each port.
int init_port(rte_eth_dev* ethdev, void* of) {
  auto* const port = static_cast<Port*>(of);
  *static_cast<Port**>(ethdev->data->dev_private) = port;
  port->ethdev = ethdev;
  port->id = ethdev->data->port_id;
  ethdev->dev_ops = &kPortOperations;
  ethdev->rx_pkt_burst = receive_burst;
  ethdev->tx_pkt_burst = send_burst;
  ethdev->data->mac_addrs = &port->mac;
  ethdev->data->dev_flags |= RTE_ETH_DEV_AUTOFILL_QUEUE_XSTATS | RTE_ETH_DEV_FLOW_OPS_THREAD_SAFE;
  if (port->index > 0) {
    ethdev->data->dev_flags |= RTE_ETH_DEV_REPRESENTOR;
    ethdev->data->representor_id = static_cast<std::uint16_t>(port->index - 1);
    ethdev->data->backer_port_id = port->device->ports.front()->id;
  }
  return 0;
}

int show_port(Port& port) {
  std::string name = rte_vdev_device_name(port.device->vdev);
  if (port.index > 0) name += "_representor" + std::to_string(port.index - 1);
  return rte_eth_dev_create(&port.device->vdev->device, name.c_str(), sizeof(Port*), nullptr,
                            nullptr, init_port, &port);
}

int make_port(Device& device, std::uint16_t index) {
  auto& port = *device.ports.emplace_back(std::make_unique<Port>());
  port.device = &device;
  port.index = index;
  std::memcpy(port.mac.addr_bytes, device.card()->mac(index), sizeof port.mac.addr_bytes);
  port.mac_of_card = port.mac;
  return show_port(port);
}

/// DPDK's bus scans before a device is attached. It does not probe ours again, so a port that its
/// user has closed is shown again here: Open vSwitch closes one that it gives back.
void show_closed_ports(void*) {
  for (const auto& [device, recovery] : devices()) {
    for (const auto& port : device->ports) {
      if (port->ethdev != nullptr || show_port(*port) != 0) continue;
      for (const auto& each : device->ports) {  // They name the uplink.
        if (rte_eth_dev* const ethdev = each->ethdev) {
          ethdev->data->backer_port_id = device->ports.front()->id;
        }
      }
    }
  }
}

void release_ports(Device& device) {
  // The uplink last: representors name it.
  while (!device.ports.empty()) {
    rte_eth_dev* const ethdev = device.ports.back()->ethdev;
    if (ethdev != nullptr && ethdev->state != RTE_ETH_DEV_UNUSED) {
      kPortOperations.dev_close(ethdev);
      rte_eth_dev_release_port(ethdev);
    }
    device.ports.pop_back();
  }
}

int probe(rte_vdev_device* vdev) {
  const char* const name = rte_vdev_device_name(vdev);
  if (std::strncmp(rte_version(), "DPDK 22.11", 10) != 0) {
    RTE_LOG(ERR, PMD, "%s: built for DPDK 22.11, this is %s\n", name, rte_version());
    return -ENOTSUP;
  }
  const Arguments arguments = arguments_of(vdev);
  if (arguments.socket.empty()) {
    RTE_LOG(ERR, PMD, "%s: socket=PATH is missing ('verbatim nic show' tells it)\n", name);
    return -EINVAL;
  }
  auto card = Connection::open(arguments.socket);
  if (!card) {
    RTE_LOG(ERR, PMD, "%s: %s\n", name, card.error().text.c_str());
    return -card.error().code;
  }
  const std::uint16_t ports = (*card)->ports();
  auto device = std::make_unique<Device>(vdev, std::move(*card), arguments.insert_delay_ms);
  rte_eth_switch_domain_alloc(&device->domain);
  for (std::uint16_t i = 0; i < ports; ++i) {
    if (const int failed = make_port(*device, i); failed != 0) {
      release_ports(*device);
      rte_eth_switch_domain_free(device->domain);
      return failed;
    }
  }
  auto recovery = std::make_unique<Recovery>(*device, arguments.socket);
  devices().push_back({std::move(device), std::move(recovery)});
  rte_vdev_add_custom_scan(show_closed_ports, nullptr);  // Once, however often it is called.
  return 0;
}

int remove(rte_vdev_device* vdev) {
  const auto found =
      std::ranges::find(devices(), vdev, [](const auto& each) { return each.device->vdev; });
  if (found == devices().end()) return -ENODEV;
  found->recovery.reset();
  stop_looking_for_age(*found->device);
  release_ports(*found->device);
  rte_eth_switch_domain_free(found->device->domain);
  devices().erase(found);
  return 0;
}

// constinit: DPDK's registration runs before C++'s own initializers.
constinit rte_vdev_driver driver{.probe = probe, .remove = remove};

RTE_PMD_REGISTER_VDEV(net_verbatim, driver);
RTE_PMD_REGISTER_PARAM_STRING(net_verbatim, "socket=<path> representor=<range> delay=<ms>");

}  // namespace
}  // namespace verbatim::offload::driver
