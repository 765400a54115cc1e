#include "infinity/device.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include <infinity/core/Configuration.h>

#include "infinity/failure.h"

namespace infinity::detail {
namespace {

using core::Configuration;

bool is_mapped(const ibv_gid& gid) {
  constexpr std::uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, kPrefix, sizeof kPrefix) == 0;
}
bool is_link_local(const ibv_gid& gid) { return gid.raw[0] == 0xfe && gid.raw[1] == 0x80; }

/// Returns the wanted queue length, or the device's limit.
int length(std::uint32_t wanted, int most) {
  return static_cast<int>(std::min(wanted, static_cast<std::uint32_t>(std::max(most, 1))));
}

}  // namespace

in6_addr mapped(const sockaddr_storage& address) {
  in6_addr result{};
  if (address.ss_family == AF_INET6) {
    result = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  } else if (address.ss_family == AF_INET) {
    result.s6_addr[10] = result.s6_addr[11] = 0xff;
    std::memcpy(&result.s6_addr[12], &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
  }
  return result;
}

Device::Device(std::uint16_t index, std::uint16_t number) {
  open(index);
  const char* const name = ibv_get_device_name(context->device);
  is_iwarp = context->device->transport_type == IBV_TRANSPORT_IWARP;
  if (const int code = ibv_query_device(context, &limits); code != 0)
    fail(code, "Context: the device ", name, " does not tell its limits");
  if (number == 0 || number > limits.phys_port_cnt) {
    refuse("Context: the device ", name, " has ports 1 to ", unsigned{limits.phys_port_cnt},
           ", not ", number);
  }
  port_number = static_cast<std::uint8_t>(number);
  if (const int code = ibv_query_port(context, port_number, &port); code != 0)
    fail(code, "Context: port ", number, " of ", name, " cannot be asked for its state");
  is_ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;

  domain.reset(ibv_alloc_pd(context));
  if (!domain) fail(errno, "Context: no protection domain of ", name);
  send_completions.reset(
      ibv_create_cq(context, length(Configuration::SEND_COMPLETION_QUEUE_LENGTH, limits.max_cqe),
                    nullptr, nullptr, 0));
  if (!send_completions) fail(errno, "Context: no completion queue of ", name);
  receive_completions.reset(
      ibv_create_cq(context, length(Configuration::RECV_COMPLETION_QUEUE_LENGTH, limits.max_cqe),
                    nullptr, nullptr, 0));
  if (!receive_completions) fail(errno, "Context: no second completion queue of ", name);
  ibv_srq_init_attr wanted{};
  wanted.attr.max_wr = static_cast<std::uint32_t>(
      length(Configuration::SHARED_RECV_QUEUE_LENGTH, limits.max_srq_wr));
  wanted.attr.max_sge = 1;
  receives.reset(ibv_create_srq(domain.get(), &wanted));
  if (!receives) fail(errno, "Context: no shared receive queue of ", name);
}

/// Over iWARP only rdma_cm connects, and only queue pairs of a context that it has opened itself.
void Device::open(std::uint16_t index) {
  int count = 0;
  const Owned<ibv_device*, ibv_free_device_list> list(ibv_get_device_list(&count));
  // ENOSYS: the system's library, on a kernel without RDMA.
  if (!list && errno != ENOSYS) fail(errno, "Context: the list of RDMA devices cannot be had");
  if (!list || count == 0) {
    refuse(
        "Context: there is no RDMA device: is the program started with `verbatim run`, or is a "
        "card's driver loaded?");
  }
  if (index >= count)
    refuse("Context: there is no device ", index, ": ", count, " found, counted from 0");
  ibv_device* const device = list.get()[index];
  const std::string_view name = ibv_get_device_name(device);
  if (device->transport_type == IBV_TRANSPORT_IWARP) {
    int opened = 0;
    manager_devices_.reset(rdma_get_devices(&opened));
    for (int i = 0; manager_devices_ && i < opened; ++i) {
      if (name == ibv_get_device_name(manager_devices_.get()[i]->device))
        context = manager_devices_.get()[i];
    }
    if (context == nullptr)
      refuse("Context: rdma_cm, which alone connects over iWARP, does not know ", name);
    return;
  }
  own_context_.reset(ibv_open_device(device));
  if (!own_context_) fail(errno, "Context: the device ", name, " cannot be opened");
  context = own_context_.get();
}

unsigned Device::atomic_access() const {
  return limits.atomic_cap == IBV_ATOMIC_NONE ? 0u : unsigned{IBV_ACCESS_REMOTE_ATOMIC};
}

std::optional<SourceGid> Device::gid_for(const in6_addr& local, const SourceGid* peer) const {
  std::vector<ibv_gid_entry> table(static_cast<std::size_t>(std::max(limits.phys_port_cnt, {1})) *
                                   static_cast<std::size_t>(std::max(port.gid_tbl_len, 1)));
  const ssize_t count = ibv_query_gid_table(context, table.data(), table.size(), 0);
  const ibv_gid_entry* best = nullptr;
  int best_rank = -1;
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& entry = table[static_cast<std::size_t>(i)];
    if (entry.port_num != port_number) continue;
    if (peer != nullptr &&
        (entry.gid_type != peer->type || is_mapped(entry.gid) != is_mapped(peer->gid)))
      continue;
    const bool is_local = std::memcmp(entry.gid.raw, &local, sizeof local) == 0;
    const int rank = (entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? 8 : 0) + (is_local ? 4 : 0) +
                     (is_mapped(entry.gid) ? 2 : 0) + (is_link_local(entry.gid) ? 0 : 1);
    if (rank <= best_rank) continue;
    best = &entry;
    best_rank = rank;
  }
  if (best == nullptr) return std::nullopt;
  return SourceGid{.gid = best->gid,
                   .index = static_cast<std::uint8_t>(best->gid_index),
                   .type = static_cast<std::uint8_t>(best->gid_type)};
}

}  // namespace infinity::detail
