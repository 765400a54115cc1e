// Checks a device's limits: each is reached, and one more is refused with the errno of a card's
// driver. Must run alone on a node. "counts" also creates objects up to their number, which needs a
// small device; INLINE is the device's max_inline_data, which no call returns. Usage: device_limits
// INLINE [counts]

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include <infiniband/verbs.h>

namespace {

int faults = 0;

void expect(bool holds, const char* what, long value) {
  if (holds) return;
  std::printf("%s: not so with %ld (errno %d: %s)\n", what, value, errno, std::strerror(errno));
  ++faults;
}

struct Device {
  ibv_context* context = nullptr;
  ibv_device_attr attributes{};
  ibv_port_attr port{};
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;

  Device() {
    ibv_device** const list = ibv_get_device_list(nullptr);
    if (list == nullptr || list[0] == nullptr) std::exit(1);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    if (context == nullptr || ibv_query_device(context, &attributes) != 0 ||
        ibv_query_port(context, 1, &port) != 0) {
      std::exit(1);
    }
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 1, nullptr, nullptr, 0);
    if (pd == nullptr || cq == nullptr) std::exit(1);
  }

  ibv_qp* queue_pair(const ibv_qp_cap& capacity, ibv_qp_type type = IBV_QPT_RC) const {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = cq;
    wanted.cap = capacity;
    wanted.qp_type = type;
    return ibv_create_qp(pd, &wanted);
  }

  ibv_srq* shared_queue(std::uint32_t requests, std::uint32_t segments) const {
    ibv_srq_init_attr wanted{};
    wanted.attr = {.max_wr = requests, .max_sge = segments, .srq_limit = 0};
    return ibv_create_srq(pd, &wanted);
  }
};

/// Creates objects up to `limit`, then one more, which is refused, and again one after another was
/// destroyed. A factory returns null with errno.
template <typename Object>
void check_count(const char* what, long limit, long there, const std::function<Object*()>& make,
                 const std::function<int(Object*)>& destroy) {
  std::vector<Object*> objects;
  for (long i = there; i < limit; ++i) {
    Object* const object = make();
    expect(object != nullptr, what, i);
    if (object == nullptr) break;
    objects.push_back(object);
  }
  errno = 0;
  Object* const surplus = make();
  expect(surplus == nullptr && errno == ENOMEM, what, limit + 1);
  if (!objects.empty()) {
    expect(destroy(objects.back()) == 0, what, -1);
    objects.back() = make();
    expect(objects.back() != nullptr, what, limit);
  }
  for (Object* const object : objects) expect(object == nullptr || destroy(object) == 0, what, 0);
}

void check_counts(const Device& device) {
  const ibv_device_attr& has = device.attributes;
  ibv_pd* const pd = device.pd;
  static std::array<char, 4096> bytes;
  check_count<ibv_pd>(
      "max_pd", has.max_pd, 1, [&] { return ibv_alloc_pd(device.context); }, ibv_dealloc_pd);
  check_count<ibv_cq>(
      "max_cq", has.max_cq, 1,
      [&] { return ibv_create_cq(device.context, 1, nullptr, nullptr, 0); }, ibv_destroy_cq);
  check_count<ibv_mr>(
      "max_mr", has.max_mr, 0, [&] { return ibv_reg_mr(pd, bytes.data(), bytes.size(), 0); },
      ibv_dereg_mr);
  check_count<ibv_mw>(
      "max_mw", has.max_mw, 0, [&] { return ibv_alloc_mw(pd, IBV_MW_TYPE_1); }, ibv_dealloc_mw);
  check_count<ibv_qp>(
      "max_qp", has.max_qp, 0, [&] { return device.queue_pair({1, 1, 1, 1, 0}); }, ibv_destroy_qp);
  check_count<ibv_srq>(
      "max_srq", has.max_srq, 0, [&] { return device.shared_queue(1, 1); }, ibv_destroy_srq);
  ibv_ah_attr address{};
  address.port_num = 1;
  address.is_global = 1;
  address.grh.sgid_index = 1;
  ibv_query_gid(device.context, 1, 1, &address.grh.dgid);
  check_count<ibv_ah>(
      "max_ah", has.max_ah, 0, [&] { return ibv_create_ah(pd, &address); }, ibv_destroy_ah);
}

/// `limit` is accepted, one more is refused with EINVAL.
template <typename Object>
void check_size(const char* what, long limit, const std::function<Object*(std::uint32_t)>& make,
                const std::function<int(Object*)>& destroy) {
  Object* const largest = make(static_cast<std::uint32_t>(limit));
  expect(largest != nullptr, what, limit);
  if (largest != nullptr) expect(destroy(largest) == 0, what, 0);
  errno = 0;
  Object* const larger = make(static_cast<std::uint32_t>(limit) + 1);
  expect(larger == nullptr && errno == EINVAL, what, limit + 1);
}

void check_sizes(const Device& device, std::uint32_t inline_bytes) {
  const ibv_device_attr& has = device.attributes;
  const auto pair = [&](auto member) {
    return [&device, member](std::uint32_t value) {
      ibv_qp_cap capacity{1, 1, 1, 1, 0};
      capacity.*member = value;
      return device.queue_pair(capacity);
    };
  };
  check_size<ibv_qp>("max_send_wr", has.max_qp_wr, pair(&ibv_qp_cap::max_send_wr), ibv_destroy_qp);
  check_size<ibv_qp>("max_recv_wr", has.max_qp_wr, pair(&ibv_qp_cap::max_recv_wr), ibv_destroy_qp);
  check_size<ibv_qp>("max_send_sge", has.max_sge, pair(&ibv_qp_cap::max_send_sge), ibv_destroy_qp);
  check_size<ibv_qp>("max_recv_sge", has.max_sge, pair(&ibv_qp_cap::max_recv_sge), ibv_destroy_qp);
  check_size<ibv_qp>("max_inline_data", inline_bytes, pair(&ibv_qp_cap::max_inline_data),
                     ibv_destroy_qp);
  check_size<ibv_srq>(
      "max_srq_wr", has.max_srq_wr,
      [&](std::uint32_t value) { return device.shared_queue(value, 1); }, ibv_destroy_srq);
  check_size<ibv_srq>(
      "max_srq_sge", has.max_srq_sge,
      [&](std::uint32_t value) { return device.shared_queue(1, value); }, ibv_destroy_srq);
  check_size<ibv_cq>(
      "max_cqe", has.max_cqe,
      [&](std::uint32_t value) {
        return ibv_create_cq(device.context, static_cast<int>(value), nullptr, nullptr, 0);
      },
      ibv_destroy_cq);
  ibv_cq* const cq = ibv_create_cq(device.context, 1, nullptr, nullptr, 0);
  expect(ibv_resize_cq(cq, has.max_cqe) == 0, "resize", has.max_cqe);
  expect(ibv_resize_cq(cq, has.max_cqe + 1) == EINVAL, "resize", has.max_cqe + 1L);
  ibv_destroy_cq(cq);
}

/// Attributes in modify_qp. Refused ones do not change it.
void check_attributes(const Device& device) {
  const ibv_device_attr& has = device.attributes;
  ibv_qp* const qp = device.queue_pair({1, 1, 1, 1, 0});
  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.port_num = 1;
  init.qp_access_flags = IBV_ACCESS_REMOTE_ATOMIC;
  constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  expect(ibv_modify_qp(qp, &init, kInit) == 0, "to INIT", 0);
  ibv_qp_init_attr ignored{};
  ibv_qp_attr granted{};
  ibv_query_qp(qp, &granted, IBV_QP_ACCESS_FLAGS, &ignored);
  const bool has_right = (granted.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC) != 0;
  expect(has_right == (has.atomic_cap != IBV_ATOMIC_NONE), "remote atomics", has.atomic_cap);

  ibv_qp_attr rtr{};
  rtr.qp_state = IBV_QPS_RTR;
  rtr.ah_attr.is_global = 1;
  rtr.ah_attr.port_num = 1;
  rtr.ah_attr.grh.sgid_index = 1;
  ibv_query_gid(device.context, 1, 1, &rtr.ah_attr.grh.dgid);
  rtr.dest_qp_num = qp->qp_num;
  rtr.path_mtu = device.port.active_mtu;
  rtr.max_dest_rd_atomic = static_cast<std::uint8_t>(has.max_qp_rd_atom);
  constexpr int kRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  ibv_qp_attr wrong = rtr;
  wrong.max_dest_rd_atomic = static_cast<std::uint8_t>(has.max_qp_rd_atom + 1);
  expect(ibv_modify_qp(qp, &wrong, kRtr) == EINVAL, "max_dest_rd_atomic", has.max_qp_rd_atom + 1L);
  wrong = rtr;
  wrong.path_mtu = static_cast<ibv_mtu>(device.port.active_mtu + 1);
  expect(ibv_modify_qp(qp, &wrong, kRtr) == EINVAL, "path_mtu", wrong.path_mtu);
  expect(ibv_modify_qp(qp, &rtr, kRtr) == 0, "to RTR", 0);

  ibv_qp_attr rts{};
  rts.qp_state = IBV_QPS_RTS;
  rts.max_rd_atomic = static_cast<std::uint8_t>(has.max_qp_init_rd_atom);
  constexpr int kRts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  wrong = rts;
  wrong.max_rd_atomic = static_cast<std::uint8_t>(has.max_qp_init_rd_atom + 1);
  expect(ibv_modify_qp(qp, &wrong, kRts) == EINVAL, "max_rd_atomic", has.max_qp_init_rd_atom + 1L);
  expect(ibv_modify_qp(qp, &rts, kRts) == 0, "to RTS", 0);
  expect(device.port.active_mtu <= device.port.max_mtu, "active_mtu", device.port.active_mtu);
  ibv_destroy_qp(qp);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const Device device;
  check_sizes(device, static_cast<std::uint32_t>(std::atoi(argv[1])));
  check_attributes(device);
  if (argc > 2 && std::string_view(argv[2]) == "counts") check_counts(device);
  std::printf("%s\n", faults == 0 ? "every limit holds" : "not every limit holds");
  return faults == 0 ? 0 : 1;
}
