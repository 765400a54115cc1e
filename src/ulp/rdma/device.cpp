#include "ulp/rdma/device.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <rdma/rdma_cma.h>

#include "base/net/address.h"

namespace verbatim::ulp::rdma {
namespace {

struct EventKind {
  ibv_event_type type;
  DeviceEvent event;
};
constexpr EventKind kEvents[] = {
    {IBV_EVENT_PORT_ACTIVE, DeviceEvent::port_active},
    {IBV_EVENT_PORT_ERR, DeviceEvent::port_down},
    {IBV_EVENT_LID_CHANGE, DeviceEvent::lid_change},
    {IBV_EVENT_PKEY_CHANGE, DeviceEvent::pkey_change},
    {IBV_EVENT_GID_CHANGE, DeviceEvent::gid_change},
    {IBV_EVENT_SM_CHANGE, DeviceEvent::sm_change},
    {IBV_EVENT_CLIENT_REREGISTER, DeviceEvent::client_reregister},
    {IBV_EVENT_QP_FATAL, DeviceEvent::queue_pair_failed},
    {IBV_EVENT_QP_LAST_WQE_REACHED, DeviceEvent::last_receive},
    {IBV_EVENT_DEVICE_FATAL, DeviceEvent::device_gone},
};

std::optional<DeviceNotice> notice_of(const ibv_async_event& event) {
  const auto* const kind = std::ranges::find(kEvents, event.event_type, &EventKind::type);
  if (kind == std::end(kEvents)) return std::nullopt;
  DeviceNotice notice{.event = kind->event};
  if (notice.event == DeviceEvent::queue_pair_failed || notice.event == DeviceEvent::last_receive)
    notice.queue_pair = Qpn(event.element.qp->qp_num);
  else if (notice.event != DeviceEvent::device_gone)
    notice.port = static_cast<std::uint8_t>(event.element.port_num);
  return notice;
}

bool has_active_port(ibv_context* context) {
  ibv_port_attr port{};
  return ibv_query_port(context, 1, &port) == 0 && port.state == IBV_PORT_ACTIVE;
}

/// The context of the device that has the address; null if none has.
ibv_context* device_at(const SocketAddress& address) {
  rdma_event_channel* const channel = rdma_create_event_channel();
  if (channel == nullptr) return nullptr;
  rdma_cm_id* id = nullptr;
  ibv_context* found = nullptr;
  if (rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0) {
    if (rdma_bind_addr(id, const_cast<sockaddr*>(address.data())) == 0) found = id->verbs;
    rdma_destroy_id(id);
  }
  rdma_destroy_event_channel(channel);
  return found;
}

/// Adapters do not say it: the largest that a queue pair is made with.
std::uint32_t inline_bytes_of(ibv_pd* domain) {
  ibv_cq* const queue = ibv_create_cq(domain->context, 1, nullptr, nullptr, 0);
  if (queue == nullptr) return 0;
  std::uint32_t found = 0;
  for (const std::uint32_t bytes : {256u, 128u, 64u, 32u}) {
    ibv_qp_init_attr wanted{.send_cq = queue,
                            .recv_cq = queue,
                            .cap = {.max_send_wr = 1,
                                    .max_recv_wr = 1,
                                    .max_send_sge = 1,
                                    .max_recv_sge = 1,
                                    .max_inline_data = bytes},
                            .qp_type = IBV_QPT_RC};
    ibv_qp* const trial = ibv_create_qp(domain, &wanted);
    if (trial == nullptr) continue;
    ibv_destroy_qp(trial);
    found = bytes;
    break;
  }
  ibv_destroy_cq(queue);
  return found;
}

template <typename To>
To at_most(int value) {
  constexpr int kMost = std::numeric_limits<To>::max() < 0x7fffffff
                            ? static_cast<int>(std::numeric_limits<To>::max())
                            : 0x7fffffff;
  return static_cast<To>(std::clamp(value, 0, kMost));
}

}  // namespace

Slice Region::slice(std::size_t offset, std::uint32_t bytes) const {
  return {bytes_.data() + offset, bytes, local_key()};
}

void Device::FreeList::operator()(ibv_context** list) const { rdma_free_devices(list); }

Result<ibv_context*> Device::choose(const List& list, const std::string& choice) {
  std::string there;
  if (const auto address = SocketAddress::parse(choice); address) {
    if (ibv_context* const found = device_at(*address)) return found;
    return refuse(ENODEV, fmt::format("no RDMA device has the address {}", choice));
  }
  for (std::size_t i = 0; list[i] != nullptr; ++i) {
    const char* const name = ibv_get_device_name(list[i]->device);
    if (choice.empty() ? has_active_port(list[i]) : choice == name) return list[i];
    there += there.empty() ? name : fmt::format(", {}", name);
  }
  if (choice.empty())
    return refuse(ENODEV,
                  fmt::format("no RDMA device is active ({}): on a fabric, its subnet manager "
                              "makes it so ('verbatim fabric up --manager opensm')",
                              there));
  return refuse(ENODEV, fmt::format("no RDMA device is named {} (there is {})", choice, there));
}

Result<std::unique_ptr<Device>> Device::open(const std::string& choice) {
  auto device = std::make_unique<Device>();
  int count = 0;
  device->devices_.reset(rdma_get_devices(&count));
  if (device->devices_ == nullptr) return refuse_errno("rdma_get_devices");
  if (count == 0) return refuse(ENODEV, "there is no RDMA device: run it by `verbatim run`");
  const auto context = choose(device->devices_, choice);
  if (!context) return std::unexpected(context.error());
  device->context_ = *context;
  device->domain_.reset(ibv_alloc_pd(*context));
  if (device->domain_ == nullptr) return refuse_errno("ibv_alloc_pd");
  const int flags = fcntl((*context)->async_fd, F_GETFL);
  if (fcntl((*context)->async_fd, F_SETFL, flags | O_NONBLOCK) != 0) return refuse_errno("fcntl");
  if (auto read = device->read_limits(); !read) return std::unexpected(read.error());
  return device;
}

Result<void> Device::read_limits() {
  ibv_device_attr_ex all{};
  if (const int error = ibv_query_device_ex(context_, nullptr, &all))
    return refuse(error, fmt::format("ibv_query_device: {}", std::strerror(error)));
  const ibv_device_attr& has = all.orig_attr;
  constexpr unsigned kOnDemand =
      IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
  guid_ = be64toh(has.node_guid);
  constexpr unsigned kWindows = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  limits_ = {
      .send_depth = at_most<std::uint32_t>(has.max_qp_wr),
      .shared_receives = at_most<std::uint32_t>(has.max_srq_wr),
      .slices = at_most<std::uint32_t>(has.max_sge),
      .inline_bytes = inline_bytes_of(domain_.get()),
      .completions = at_most<std::uint32_t>(has.max_cqe),
      .reads_as_initiator = at_most<std::uint8_t>(has.max_qp_init_rd_atom),
      .reads_as_responder = at_most<std::uint8_t>(has.max_qp_rd_atom),
      .has_windows = (has.device_cap_flags & kWindows) != 0,
      .has_on_demand = (all.odp_caps.per_transport_caps.rc_odp_caps & kOnDemand) == kOnDemand,
      .is_iwarp = context_->device->transport_type == IBV_TRANSPORT_IWARP,
      .vendor = has.vendor_id,
      .part = has.vendor_part_id};
  return {};
}

PortFacts Device::port(std::uint8_t number) const {
  PortFacts facts{.number = number};
  ibv_port_attr port{};
  if (ibv_query_port(context_, number, &port) != 0) return facts;
  facts.is_active = port.state == IBV_PORT_ACTIVE;
  facts.is_infiniband = port.link_layer == IBV_LINK_LAYER_INFINIBAND && !limits_.is_iwarp;
  facts.lid = Lid{port.lid};
  facts.sm_lid = Lid{port.sm_lid};
  facts.mtu = static_cast<Mtu>(port.active_mtu);
  for (int i = 0; i < port.gid_tbl_len; ++i) {
    ibv_gid gid{};
    if (ibv_query_gid(context_, number, i, &gid) != 0) break;
    Gid own;
    std::memcpy(own.bytes.data(), gid.raw, sizeof gid.raw);
    facts.gids.push_back(own);
  }
  for (int i = 0; i < port.pkey_tbl_len; ++i) {
    __be16 pkey = 0;
    if (ibv_query_pkey(context_, number, i, &pkey) != 0) break;
    facts.pkeys.push_back(PKey{ntohs(pkey)});
  }
  return facts;
}

int Device::rights_here(int rights) const {
  // Over iWARP a READ's answer is written like a peer's WRITE.
  const bool is_sink = limits_.is_iwarp && (rights & IBV_ACCESS_LOCAL_WRITE) != 0;
  return is_sink ? rights | IBV_ACCESS_REMOTE_WRITE : rights;
}

Result<Region> Device::register_memory(std::span<std::byte> memory, int rights) const {
  Region region;
  region.bytes_ = memory;
  region.region_.reset(ibv_reg_mr(domain(), memory.data(), memory.size(), rights_here(rights)));
  if (region.region_ == nullptr)
    return refuse_errno(fmt::format("ibv_reg_mr of {} bytes", memory.size()));
  return region;
}

Result<Region> Device::register_at(std::span<std::byte> memory, std::uint64_t at,
                                   int rights) const {
  Region region;
  region.bytes_ = memory;
  region.region_.reset(
      ibv_reg_mr_iova(domain(), memory.data(), memory.size(), at, rights_here(rights)));
  if (region.region_ == nullptr)
    return refuse_errno(fmt::format("ibv_reg_mr_iova of {} bytes", memory.size()));
  return region;
}

std::optional<DeviceNotice> Device::take_event() {
  ibv_async_event event{};
  while (ibv_get_async_event(context_, &event) == 0) {
    const auto notice = notice_of(event);
    ibv_ack_async_event(&event);
    if (notice) return notice;
  }
  return std::nullopt;
}

}  // namespace verbatim::ulp::rdma
