#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/time.h"
#include "dropin/ibverbs/calls.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/refusal.h"

/// Attributes of the device and its ports.
namespace verbatim::dropin {
namespace {

using adapter::Limits;

/// The clock of completions counts nanoseconds, which is this frequency.
constexpr std::uint64_t kClockKhz = 1'000'000;

/// Restricts the attributes to those of RC queue pairs over TCP.
void keep_iwarp(ibv_device_attr& attributes) {
  attributes.device_cap_flags &= IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID |
                                 IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_MEM_WINDOW |
                                 IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS;
  attributes.max_raw_ethy_qp = attributes.max_ah = 0;
  attributes.max_mcast_grp = attributes.max_mcast_qp_attach = 0;
  attributes.max_total_mcast_qp_attach = 0;
}

void keep_iwarp(ibv_device_attr_ex& attributes) {
  attributes.device_cap_flags_ex = attributes.orig_attr.device_cap_flags;
  attributes.packet_pacing_caps = {};
  attributes.rss_caps = {};
  attributes.max_wq_type_rq = 0;
  attributes.tm_caps = {};
  attributes.raw_packet_caps = 0;
  attributes.odp_caps.per_transport_caps.uc_odp_caps = 0;
  attributes.odp_caps.per_transport_caps.ud_odp_caps = 0;
  attributes.xrc_odp_caps = 0;
}

/// Takes out what an Ethernet port alone has.
void keep_infiniband(ibv_device_attr& attributes) {
  attributes.device_cap_flags &=
      ~(IBV_DEVICE_RAW_MULTI | IBV_DEVICE_RAW_IP_CSUM | IBV_DEVICE_MANAGED_FLOW_STEERING);
  attributes.device_cap_flags |= IBV_DEVICE_AUTO_PATH_MIG;
  attributes.max_raw_ethy_qp = 0;
  attributes.max_pkeys = arena::kPKeysMax;
}

void keep_infiniband(ibv_device_attr_ex& attributes) {
  attributes.packet_pacing_caps.supported_qpts &= ~(1u << IBV_QPT_RAW_PACKET);
  attributes.rss_caps = {};
  attributes.max_wq_type_rq = 0;
  attributes.raw_packet_caps = 0;
}

/// Requires a number below 2^31, as all our limits are.
int to_int(std::uint32_t limit) { return static_cast<int>(limit); }

ibv_device_attr device_attributes(const Program& program) {
  const arena::Node& node = program.adapter->node();
  ibv_device_attr attributes{};
  std::strncpy(attributes.fw_ver, program.firmware.c_str(), sizeof attributes.fw_ver - 1);
  attributes.node_guid = to_big_endian(node.guid);
  attributes.sys_image_guid = attributes.node_guid;
  attributes.max_mr_size = Limits::region_bytes;
  attributes.page_size_cap = 0xfffff000;
  const config::DeviceLimits& limits = program.usage->limits();
  attributes.vendor_id = limits.vendor_id;
  attributes.vendor_part_id = limits.vendor_part_id;
  attributes.hw_ver = limits.hw_ver;
  attributes.max_qp = to_int(limits.max_qp);
  attributes.max_qp_wr = to_int(limits.max_qp_wr);
  attributes.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID |
                                IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC |
                                IBV_DEVICE_RAW_MULTI | IBV_DEVICE_RAW_IP_CSUM |
                                IBV_DEVICE_MANAGED_FLOW_STEERING | IBV_DEVICE_MEM_WINDOW |
                                IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS;
  attributes.max_sge = to_int(limits.max_sge);
  attributes.max_sge_rd = to_int(limits.max_sge);
  attributes.max_cq = to_int(limits.max_cq);
  attributes.max_cqe = to_int(limits.max_cqe);
  attributes.max_mr = to_int(limits.max_mr);
  attributes.max_mw = to_int(limits.max_mw);
  attributes.max_pd = to_int(limits.max_pd);
  attributes.max_qp_rd_atom = to_int(limits.max_qp_rd_atom);
  attributes.max_res_rd_atom = to_int(limits.max_qp_rd_atom * limits.max_qp);
  attributes.max_qp_init_rd_atom = to_int(limits.max_qp_init_rd_atom);
  attributes.atomic_cap = static_cast<ibv_atomic_cap>(limits.atomic);
  attributes.max_raw_ethy_qp = to_int(limits.max_qp);
  attributes.max_mcast_grp = Limits::multicast_groups;
  attributes.max_mcast_qp_attach = Limits::multicast_attachments;
  attributes.max_total_mcast_qp_attach = Limits::multicast_groups * Limits::multicast_attachments;
  attributes.max_ah = to_int(limits.max_ah);
  attributes.max_srq = to_int(limits.max_srq);
  attributes.max_srq_wr = to_int(limits.max_srq_wr);
  attributes.max_srq_sge = to_int(limits.max_srq_sge);
  attributes.max_pkeys = static_cast<std::uint16_t>(program.adapter->port().pkeys().size());
  attributes.local_ca_ack_delay =
      15;  // 4.096 us << 15: a busy machine may delay a thread this long.
  attributes.phys_port_cnt = static_cast<std::uint8_t>(program.adapter->ports().size());
  if (node.is_iwarp()) keep_iwarp(attributes);
  if (node.is_infiniband()) keep_infiniband(attributes);
  return attributes;
}

// Missing in older headers.
constexpr std::uint64_t kDeviceFlushGlobal = std::uint64_t{1} << 38;
constexpr std::uint64_t kDeviceAtomicWrite = std::uint64_t{1} << 40;

/// On-demand memory works with every operation that a service has: the adapter runs on the
/// program's CPU.
void add_on_demand_paging(ibv_device_attr_ex& attributes) {
  constexpr std::uint32_t kMessages = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV;
  constexpr std::uint32_t kFlushAndAtomicWrite = 1 << 6 | 1 << 7;  // Missing in older headers.
  constexpr std::uint32_t kReliable = kMessages | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
                                      IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV |
                                      kFlushAndAtomicWrite;
  attributes.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  attributes.odp_caps.per_transport_caps.rc_odp_caps = kReliable;
  attributes.odp_caps.per_transport_caps.uc_odp_caps = kMessages | IBV_ODP_SUPPORT_WRITE;
  attributes.odp_caps.per_transport_caps.ud_odp_caps = kMessages;
  attributes.xrc_odp_caps = kReliable;
}

/// Size of `struct ibv_port_attr`. Since rdma-core 56 it ends with active_speed_ex, which the
/// installed header may lack.
constexpr std::size_t kActiveSpeedExAt = 52;
using PortAttributes = std::array<std::byte, std::max(sizeof(ibv_port_attr),
                                                      kActiveSpeedExAt + sizeof(std::uint32_t))>;
static_assert(sizeof(ibv_port_attr) >= kActiveSpeedExAt);

constexpr std::uint8_t kWidth4x = 2;
constexpr std::uint8_t kSpeedEdr = 32;
constexpr std::uint8_t kSpeedNdr = 128;
constexpr std::uint64_t kUnitsOf4xEdr = 1000;  // Of 100 Mbit/s.
constexpr std::uint8_t kPhysicalStateDisabled = 3;
constexpr std::uint8_t kPhysicalStateLinkUp = 5;

ibv_mtu max_mtu(const config::DeviceLimits& limits) {
  int mtu = IBV_MTU_256;
  while (mtu < IBV_MTU_4096 && (128u << (mtu + 1)) <= limits.max_mtu) ++mtu;
  return static_cast<ibv_mtu>(mtu);
}

/// As `ibv_port_attr` ends since rdma-core 56.
PortAttributes with_speed(const ibv_port_attr& port, std::uint32_t active_speed_ex) {
  PortAttributes attributes{};
  std::memcpy(attributes.data(), &port, sizeof port);
  std::memcpy(attributes.data() + kActiveSpeedExAt, &active_speed_ex, sizeof active_speed_ex);
  return attributes;
}

/// As the fabric's manager has set it.
PortAttributes infiniband_attributes(const arena::InfinibandPort& from) {
  ibv_port_attr port{};
  port.state = static_cast<ibv_port_state>(from.state);
  port.max_mtu = static_cast<ibv_mtu>(from.mtu_max);
  port.active_mtu = static_cast<ibv_mtu>(from.mtu);
  port.gid_tbl_len = 1;
  port.port_cap_flags = from.capabilities;
  port.max_msg_sz = Limits::message_bytes;
  port.pkey_tbl_len = static_cast<std::uint16_t>(from.pkeys.size());
  port.lid = raw(from.lid);
  port.sm_lid = raw(from.sm_lid);
  port.lmc = from.lmc;
  port.max_vl_num = from.virtual_lanes;
  port.sm_sl = from.sm_service_level;
  port.subnet_timeout = from.subnet_timeout;
  port.init_type_reply = from.init_type_reply;
  port.active_width = from.width;
  // XDR does not fit; its drivers say NDR there.
  port.active_speed = static_cast<std::uint8_t>(std::min<unsigned>(from.speed, kSpeedNdr));
  port.phys_state = from.physical_state;
  port.link_layer = IBV_LINK_LAYER_INFINIBAND;
  return with_speed(port, from.speed);
}

PortAttributes port_attributes(const Program& program, std::uint32_t number) {
  const port::PortState state = program.adapter->port(number).state();
  const arena::Node& node = program.adapter->node();
  if (node.is_infiniband()) return infiniband_attributes(infiniband_port(program, number));
  const config::DeviceLimits& limits = program.usage->limits();
  ibv_port_attr port{};
  port.state = state.is_active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  port.max_mtu = max_mtu(limits);
  port.active_mtu = static_cast<ibv_mtu>(raw(state.active_mtu));
  port.gid_tbl_len = static_cast<int>(gid_table_length(node));
  port.port_cap_flags = IBV_PORT_CM_SUP;
  if (!node.is_iwarp()) port.port_cap_flags |= IBV_PORT_IP_BASED_GIDS;
  port.max_msg_sz = Limits::message_bytes;
  port.pkey_tbl_len = static_cast<std::uint16_t>(program.adapter->port(number).pkeys().size());
  port.max_vl_num = 1;
  port.active_width = kWidth4x;
  port.active_speed = kSpeedEdr;
  port.phys_state = state.is_active ? kPhysicalStateLinkUp : kPhysicalStateDisabled;
  port.link_layer = IBV_LINK_LAYER_ETHERNET;
  port.flags = node.is_iwarp() ? std::uint8_t{0} : std::uint8_t{IBV_QPF_GRH_REQUIRED};
  return with_speed(port, kSpeedEdr);
}

/// Fills as much of the structure as the caller has; fields that we do not know are set to zero.
template <typename T>
void copy_attributes(const T& from, void* to, std::size_t size) {
  std::memset(to, 0, size);
  std::memcpy(to, &from, std::min(size, sizeof from));
}

}  // namespace

arena::InfinibandPort infiniband_port(const Program& program, std::uint32_t number) {
  return program.client->node().network.infiniband[number - 1];
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes,
               std::size_t size) {
  const Program& program = *from(context).program;
  if (auto exists = program.adapter->ports().check(port); !exists) {
    return refused("query_port", exists.error());
  }
  copy_attributes(port_attributes(program, port), attributes, size);
  return 0;
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attributes, std::size_t size) {
  if (input != nullptr && input->comp_mask != 0) {
    return refused(
        "query_device_ex",
        {EINVAL, fmt::format("comp_mask {:#x} of the input is unknown", input->comp_mask)});
  }
  if (size < sizeof attributes->orig_attr) {
    return refused("query_device_ex", {EINVAL, fmt::format("{} bytes are too few", size)});
  }
  ibv_device_attr_ex all{};
  all.orig_attr = device_attributes(*from(context).program);
  all.device_cap_flags_ex = all.orig_attr.device_cap_flags;
  all.completion_timestamp_mask = ~std::uint64_t{0};
  all.hca_core_clock = kClockKhz;
  all.packet_pacing_caps = {.qp_rate_limit_min = 1,
                            .qp_rate_limit_max = Limits::rate_kbps,
                            .supported_qpts = 1u << IBV_QPT_RC | 1u << IBV_QPT_UC |
                                              1u << IBV_QPT_UD | 1u << IBV_QPT_RAW_PACKET};
  all.device_cap_flags_ex |= kDeviceFlushGlobal | kDeviceAtomicWrite;
  all.phys_port_cnt_ex = all.orig_attr.phys_port_cnt;
  all.rss_caps = {.supported_qpts = 1u << IBV_QPT_RAW_PACKET,
                  .max_rwq_indirection_tables = Limits::indirection_tables,
                  .max_rwq_indirection_table_size = adapter::kIndirectionTableMax,
                  .rx_hash_fields_mask = adapter::kHashFieldsAll,
                  .rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ};
  all.max_wq_type_rq = Limits::work_queues;
  all.tm_caps = {.max_rndv_hdr_size = adapter::kRendezvousHeaderBytes,
                 .max_num_tags = adapter::kTagsMax,
                 .flags = IBV_TM_CAP_RC,
                 .max_ops = adapter::kTagOperationsMax,
                 .max_sge = Limits::segments};
  all.raw_packet_caps = IBV_RAW_PACKET_CAP_IP_CSUM;
  all.max_dm_size = adapter::DeviceMemory::kBytesMax;
  add_on_demand_paging(all);
  const arena::Node& node = from(context).adapter().node();
  if (node.is_iwarp()) keep_iwarp(all);
  if (node.is_infiniband()) keep_infiniband(all);
  copy_attributes(all, attributes, size);
  return 0;
}

/// Completions are stamped with the raw clock. As with other adapters, `tv_nsec` has the whole
/// value.
int query_rt_values(ibv_context*, ibv_values_ex* values) {
  if (values->comp_mask & ~std::uint32_t{IBV_VALUES_MASK_RAW_CLOCK}) {
    return refused("query_rt_values_ex",
                   {EINVAL, fmt::format("comp_mask {:#x} is unknown", values->comp_mask)});
  }
  if (values->comp_mask != 0) {
    values->raw_clock = {.tv_sec = 0, .tv_nsec = static_cast<long>(monotonic_now())};
  }
  return 0;
}

}  // namespace verbatim::dropin

using namespace verbatim;
using namespace verbatim::dropin;

int ibv_query_device(ibv_context* context, ibv_device_attr* device_attr) {
  *device_attr = device_attributes(*from(context).program);
  return 0;
}

/// The old symbol; programs built today call `query_port` above.
int ibv_query_port(ibv_context* context, std::uint8_t port_num, _compat_ibv_port_attr* port_attr) {
  constexpr std::size_t kOldSize = 48;
  return query_port(context, port_num, reinterpret_cast<ibv_port_attr*>(port_attr), kOldSize);
}

/// Since rdma-core 62; in units of 100 Mbit/s.
int ibv_query_port_speed(ibv_context* context, std::uint32_t port_num, std::uint64_t* port_speed) {
  const Program& program = *from(context).program;
  if (auto exists = program.adapter->ports().check(port_num); !exists) {
    return refused("query_port_speed", exists.error());
  }
  constexpr std::uint32_t kMbpsPerUnit = 100;
  *port_speed = program.adapter->node().is_infiniband()
                    ? infiniband_port(program, port_num).rate_mbps / kMbpsPerUnit
                    : kUnitsOf4xEdr;
  return 0;
}

int ibv_query_pkey(ibv_context* context, std::uint8_t port_num, int index, __be16* pkey) {
  const port::Ports& ports = from(context).adapter().ports();
  if (auto exists = ports.check(port_num); !exists) {
    return refused_minus_one("query_pkey", exists.error());
  }
  const port::PKeyTable& table = ports.at(port_num).pkeys();
  if (index < 0 || static_cast<std::size_t>(index) >= table.size()) {
    // Programs look for the end of the table so (srp_daemon). As rdma-core, which reads a file.
    log(LogLevel::debug, "query_pkey: index {} does not exist: the table has {} entries", index,
        table.size());
    errno = ENOENT;
    return -1;
  }
  *pkey = to_big_endian(raw(table.at(static_cast<std::size_t>(index))));
  return 0;
}

int ibv_get_pkey_index(ibv_context* context, std::uint8_t port_num, __be16 pkey) {
  const port::Ports& ports = from(context).adapter().ports();
  if (auto exists = ports.check(port_num); !exists) {
    return refused_minus_one("get_pkey_index", exists.error());
  }
  const port::PKeyTable& table = ports.at(port_num).pkeys();
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (pkey == to_big_endian(raw(table.at(i)))) return static_cast<int>(i);
  }
  return refused_minus_one(
      "get_pkey_index",
      {ENOENT, fmt::format("P_Key {:#06x} is not in the table", to_big_endian(pkey))});
}
