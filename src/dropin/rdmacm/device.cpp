#include <cerrno>

#include <endian.h>
#include <fcntl.h>
#include <fmt/format.h>

#include "connect/queue_pair_plan.h"
#include "dropin/rdmacm/manager.h"

/// The device of all ids: opened once, with one protection domain while an id uses it.
namespace verbatim::rdmacm {

Result<ibv_context*> Manager::device() {
  const std::lock_guard guard(device_lock_);
  if (context_ != nullptr) return context_;
  ibv_device** const list = ibv_get_device_list(nullptr);
  if (list == nullptr || list[0] == nullptr) {
    if (list != nullptr) ibv_free_device_list(list);
    return refuse(ENODEV, "there is no device");
  }
  context_ = ibv_open_device(list[0]);
  const int error = errno;
  ibv_free_device_list(list);
  if (context_ == nullptr) return refuse(error, "the device cannot be opened");
  return context_;
}

Result<std::uint16_t> Manager::pkey_index(PKey pkey, std::uint8_t number) {
  if (!node_.is_infiniband || pkey == PKey{}) return std::uint16_t{0};
  const auto context = device();
  if (!context) return std::unexpected(context.error());
  ibv_port_attr port{};
  if (const int error = ibv_query_port(*context, number, &port)) return refuse(error, "no port");
  std::vector<std::uint16_t> table;
  for (int i = 0; i < port.pkey_tbl_len; ++i) {
    __be16 entry = 0;
    if (ibv_query_pkey(*context, number, i, &entry) != 0) break;
    table.push_back(be16toh(entry));
  }
  const auto found = connect::partition_entry(table, pkey);
  if (!found) {
    return refuse(EINVAL, fmt::format("the port is not in the partition {:#06x}", raw(pkey)));
  }
  return static_cast<std::uint16_t>(*found);
}

Result<void> Manager::attach_device(Id& id) {
  if (id.has_device) return {};
  const auto context = device();
  if (!context) return std::unexpected(context.error());
  ibv_pd* pd = nullptr;
  {
    const std::lock_guard guard(device_lock_);
    if (pd_ == nullptr) pd_ = ibv_alloc_pd(*context);
    if (pd_ == nullptr) return refuse(errno, "no protection domain for the device's ids");
    ++device_users_;
    pd = pd_;
  }
  id.has_device = true;
  id.verbs.verbs = *context;
  id.verbs.pd = pd;
  id.verbs.port_num = id.connection.plan.port;
  const std::lock_guard guard(lock);
  ids_of_device_.insert(&id);
  return {};
}

void Manager::detach_device(Id& id) {
  if (!id.has_device) return;
  id.has_device = false;
  {
    const std::lock_guard guard(lock);
    forget_changes(id);
  }
  const std::lock_guard guard(device_lock_);
  if (--device_users_ > 0) return;
  // The program may still have objects in it; then it stays, and the next id uses it.
  if (ibv_dealloc_pd(pd_) == 0) pd_ = nullptr;
  if (xrcd_ != nullptr && ibv_close_xrcd(xrcd_) == 0) xrcd_ = nullptr;
}

Result<ibv_xrcd*> Manager::domain_of_xrc() {
  const auto context = device();
  if (!context) return std::unexpected(context.error());
  const std::lock_guard guard(device_lock_);
  if (xrcd_ != nullptr) return xrcd_;
  ibv_xrcd_init_attr attributes{
      .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
  xrcd_ = ibv_open_xrcd(*context, &attributes);
  if (xrcd_ == nullptr) return refuse(errno, "no XRC domain");
  return xrcd_;
}

}  // namespace verbatim::rdmacm
