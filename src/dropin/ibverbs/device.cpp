#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "base/bytes.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/refusal.h"
#include "dropin/ibverbs/sysfs.h"

/// The device list. A process sees one device, its node's.
namespace verbatim::dropin {
namespace {

/// Only its address matters: no provider has this table.
constexpr char kOurOperations = 0;

void copy_name(std::span<char> to, std::string_view name) {
  const auto length = std::min(name.size(), to.size() - 1);
  std::copy_n(name.begin(), length, to.begin());
  to[length] = '\0';
}

Device* make_device(const arena::Node& node) {
  auto* device = new Device{};
  device->verbs.node_type = node.is_iwarp() ? IBV_NODE_RNIC : IBV_NODE_CA;
  device->verbs.transport_type = node.is_iwarp() ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
  copy_name(device->verbs.name, node.device);
  copy_name(device->verbs.dev_name, kCharacterDeviceName);
  copy_name(device->verbs.dev_path, kCharacterDeviceFolder);
  copy_name(device->verbs.ibdev_path, device_folder(node.device));
  device->provider_operations = &kOurOperations;
  device->node = node;
  return device;
}

/// Programs use devices after they have freed the list, so devices are kept. A process that changes
/// its node (a forked child, before it opens the device) gets another device.
Device* device_of(const arena::Node& node) {
  static std::mutex lock;
  static auto* const devices = new std::vector<Device*>;
  const std::lock_guard guard(lock);
  for (Device* device : *devices) {
    if (device->node.name == node.name && device->node.guid == node.guid &&
        device->verbs.name == node.device)
      return device;
  }
  devices->push_back(make_device(node));
  return devices->back();
}

}  // namespace
}  // namespace verbatim::dropin

using namespace verbatim;
using namespace verbatim::dropin;

ibv_device** ibv_get_device_list(int* num_devices) {
  if (num_devices != nullptr) *num_devices = 0;
  auto** list = static_cast<ibv_device**>(std::calloc(2, sizeof(ibv_device*)));
  if (list == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  const auto described = agent_node();
  if (!described) {
    // An empty list is what a machine without a card returns; null would mean a failure of the
    // library.
    refused("get_device_list", described.error());
    return list;
  }
  list[0] = &device_of(*described)->verbs;
  if (num_devices != nullptr) *num_devices = 1;
  return list;
}

void ibv_free_device_list(ibv_device** list) { std::free(list); }

const char* ibv_get_device_name(ibv_device* device) { return device->name; }

/// Programs ask RDMA netlink about this index, so only those that have a view, and with it netlink,
/// get one.
int ibv_get_device_index(ibv_device*) {
  const char* const view = std::getenv("VERBATIM_VIEW");
  return view != nullptr && *view == '/' ? kDeviceIndex : -1;
}

__be64 ibv_get_device_guid(ibv_device* device) { return to_big_endian(from(device).node.guid); }
