#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <infiniband/verbs.h>

/// The first steps of each verbs program, for test programs that use only libibverbs: they also run
/// on a real card.
namespace endpoint {

[[noreturn]] inline void fail(const std::string& what) {
  std::perror(what.c_str());
  std::exit(1);
}

inline void check(bool good, const std::string& what) {
  if (!good) fail(what);
}

inline constexpr std::uint32_t kQKey = 0x11111111;
inline constexpr std::uint8_t kGidIndex = 1;
inline constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                               IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/// Queues with this many requests, of one segment each.
inline ibv_qp_cap capacity(std::uint32_t sends, std::uint32_t receives) {
  return {.max_send_wr = sends,
          .max_recv_wr = receives,
          .max_send_sge = 1,
          .max_recv_sge = 1,
          .max_inline_data = 0};
}

/// How long a requester retries; see ibv_modify_qp(3).
struct Retries {
  std::uint8_t timeout = 14, count = 7, not_ready = 7;
};

/// An open RDMA device with a protection domain and a completion queue.
struct Device {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  std::uint8_t gid_index;
  ibv_gid gid{};
  std::uint16_t lid = 0;  // 0: the port is no InfiniBand port.

  /// Opens the first device.
  explicit Device(int completions) : Device(open_first(), completions) {}
  Device(ibv_context* opened, int completions) : Device(opened, completions, first_index(opened)) {}
  Device(ibv_context* opened, int completions, std::uint8_t index)
      : context(opened), gid_index(index) {
    pd = ibv_alloc_pd(context);
    check(pd != nullptr, "ibv_alloc_pd");
    cq = ibv_create_cq(context, completions, nullptr, nullptr, 0);
    check(cq != nullptr, "ibv_create_cq");
    check(ibv_query_gid(context, 1, gid_index, &gid) == 0, "ibv_query_gid");
    lid = first_port(context).lid;
  }

  static ibv_port_attr first_port(ibv_context* opened) {
    ibv_port_attr port{};
    check(ibv_query_port(opened, 1, &port) == 0, "ibv_query_port");
    return port;
  }
  /// RoCE v2's; a port of iWARP or InfiniBand may have one GID.
  static std::uint8_t first_index(ibv_context* opened) {
    return first_port(opened).gid_tbl_len > kGidIndex ? kGidIndex : 0;
  }
  static ibv_context* open_first() {
    int count = 0;
    ibv_device** devices = ibv_get_device_list(&count);
    check(devices != nullptr && count > 0, "no RDMA device");
    ibv_context* opened = ibv_open_device(devices[0]);
    check(opened != nullptr, "ibv_open_device");
    ibv_free_device_list(devices);
    return opened;
  }

  ibv_qp* create_queue_pair(ibv_qp_type type, std::uint32_t sends, std::uint32_t receives,
                            std::uint32_t inline_bytes = 0) const {
    ibv_qp_init_attr options{};
    options.send_cq = cq;
    options.recv_cq = cq;
    options.qp_type = type;
    options.cap = capacity(sends, receives);
    options.cap.max_inline_data = inline_bytes;
    ibv_qp* qp = ibv_create_qp(pd, &options);
    check(qp != nullptr, "ibv_create_qp");
    return qp;
  }

  ibv_ah_attr path_to_self() const {
    ibv_ah_attr path = path_to(gid);
    path.dlid = lid;
    path.is_global = lid == 0 ? 1 : 0;
    return path;
  }
  ibv_ah_attr path_to(const ibv_gid& destination) const {
    ibv_ah_attr path{};
    path.is_global = 1;
    path.grh.dgid = destination;
    path.grh.sgid_index = gid_index;
    path.grh.hop_limit = 64;
    path.port_num = 1;
    return path;
  }

  /// Moves `qp` from RESET to INIT, so that receives can be posted.
  void initialise(ibv_qp* qp) const {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = kAccess;
    attr.qkey = kQKey;
    const bool datagram = qp->qp_type == IBV_QPT_UD;
    check(ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                            (datagram ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)) == 0,
          "modify_qp to INIT");
  }

  /// Moves it from INIT to RTS (an XRC target to RTR); RC, UC and XRC: connected to `peer` of the
  /// same node.
  void connect_initialised(ibv_qp* qp, std::uint32_t peer, ibv_mtu mtu,
                           std::uint8_t timeout = 14) const {
    connect_along(path_to_self(), qp, peer, mtu, {.timeout = timeout});
  }
  /// The same, with `peer` at the end of a given path.
  static void connect_along(const ibv_ah_attr& path, ibv_qp* qp, std::uint32_t peer, ibv_mtu mtu,
                            const Retries& retries) {
    const bool datagram = qp->qp_type == IBV_QPT_UD;
    const bool target = qp->qp_type == IBV_QPT_XRC_RECV;
    const bool reliable = target || qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_SEND;
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.ah_attr = path;
    attr.path_mtu = mtu;
    attr.dest_qp_num = peer;
    attr.rq_psn = 0xfffff0;  // Wraps after a few packets.
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 12;
    int mask = IBV_QP_STATE;
    if (!datagram) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (reliable) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    check(ibv_modify_qp(qp, &attr, mask) == 0, "modify_qp to RTR");
    if (target) return;

    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = 0xfffff0;
    attr.max_rd_atomic = 4;
    attr.timeout = retries.timeout;
    attr.retry_cnt = retries.count;
    attr.rnr_retry = retries.not_ready;
    mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (reliable) {
      mask |= IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
    }
    check(ibv_modify_qp(qp, &attr, mask) == 0, "modify_qp to RTS");
  }

  /// From RESET to RTS.
  void connect(ibv_qp* qp, std::uint32_t peer, ibv_mtu mtu) const {
    initialise(qp);
    connect_initialised(qp, peer, mtu);
  }

  /// Returns the next `count` completions, in any order; ends the program if one has failed.
  std::vector<ibv_wc> completions(std::size_t count) const {
    std::vector<ibv_wc> found;
    while (found.size() < count) {
      ibv_wc completion{};
      const int polled = ibv_poll_cq(cq, 1, &completion);
      check(polled >= 0, "ibv_poll_cq");
      if (polled == 0) continue;
      if (completion.status != IBV_WC_SUCCESS) {
        std::fprintf(stderr, "completion of request %llu: %s\n",
                     static_cast<unsigned long long>(completion.wr_id),
                     ibv_wc_status_str(completion.status));
        std::exit(1);
      }
      found.push_back(completion);
    }
    return found;
  }
};

/// Registered memory.
struct Buffer {
  std::vector<std::uint8_t> bytes;
  ibv_mr* region = nullptr;

  Buffer(const Device& device, std::size_t size) : bytes(size) {
    region = ibv_reg_mr(device.pd, bytes.data(), size, kAccess);
    check(region != nullptr, "ibv_reg_mr");
  }
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(bytes.data()); }
  ibv_sge segment(std::size_t length) const {
    return {address(), static_cast<std::uint32_t>(length), region->lkey};
  }
};

/// Posts a signaled request of one segment; `request` has its other fields.
inline void post_send(ibv_qp* qp, ibv_send_wr request, ibv_sge segment) {
  request.sg_list = &segment;
  request.num_sge = 1;
  request.send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  check(ibv_post_send(qp, &request, &bad) == 0, "ibv_post_send");
}

inline void post_receive(ibv_qp* qp, ibv_sge segment, std::uint64_t id) {
  ibv_recv_wr request{};
  request.wr_id = id;
  request.sg_list = &segment;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  check(ibv_post_recv(qp, &request, &bad) == 0, "ibv_post_recv");
}

}  // namespace endpoint
