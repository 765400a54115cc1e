/// A program that is not linked with an RDMA library and loads it late, by name and version, as
/// NCCL does. It then does RC WRITE with immediate, READ and fetch-and-add through the context's
/// operations, between its two queue pairs. It exits with status 0 if every byte is as expected.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <dlfcn.h>
#include <infiniband/verbs.h>

#undef ibv_query_port
#undef ibv_reg_mr

namespace {

void* library;

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "loads_late: %s\n", what);
  std::exit(1);
}

/// The function `NAME` at a version, with the type in the header.
#define LOAD(NAME, VERSION) reinterpret_cast<decltype(&(NAME))>(load(#NAME, VERSION))

void* load(const char* name, const char* version) {
  void* found = dlvsym(library, name, version);
  if (found == nullptr) die(dlerror());
  return found;
}

constexpr std::size_t kBytes = 100'000;

struct Side {
  std::array<char, 2 * kBytes> memory{};
  ibv_mr* mr = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
};
Side left;
Side right;

void prepare(Side& side, ibv_context* context, ibv_pd* pd) {
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                          IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  side.mr = LOAD(ibv_reg_mr, "IBVERBS_1.1")(pd, side.memory.data(), side.memory.size(), kAccess);
  side.cq = LOAD(ibv_create_cq, "IBVERBS_1.1")(context, 16, nullptr, nullptr, 0);
  if (side.mr == nullptr || side.cq == nullptr) die("no region or completion queue");
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = side.cq;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {.max_send_wr = 8,
                .max_recv_wr = 8,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
  side.qp = LOAD(ibv_create_qp, "IBVERBS_1.1")(pd, &wanted);
  if (side.qp == nullptr) die("no queue pair");
  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.port_num = 1;
  init.qp_access_flags = kAccess;
  if (LOAD(ibv_modify_qp, "IBVERBS_1.1")(
          side.qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) !=
      0) {
    die("INIT");
  }
}

void connect(Side& side, const Side& peer, const ibv_gid& gid) {
  const auto modify = LOAD(ibv_modify_qp, "IBVERBS_1.1");
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_1024;
  attributes.dest_qp_num = peer.qp->qp_num;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = 12;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.grh = {
      .dgid = gid, .flow_label = 0, .sgid_index = 1, .hop_limit = 255, .traffic_class = 0};
  attributes.ah_attr.port_num = 1;
  if (modify(side.qp, &attributes,
             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
    die("RTR");
  }
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = 14;
  attributes.retry_cnt = attributes.rnr_retry = 7;
  attributes.max_rd_atomic = 1;
  if (modify(side.qp, &attributes,
             IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                 IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
    die("RTS");
  }
}

/// As NCCL does: through the context's operations, without a function of the library.
ibv_wc wait(Side& side) {
  ibv_wc completion{};
  while (side.cq->context->ops.poll_cq(side.cq, 1, &completion) == 0) {
  }
  if (completion.status != IBV_WC_SUCCESS) die("a request has failed");
  return completion;
}

void post(Side& side, ibv_send_wr request, std::size_t offset, std::uint32_t length) {
  ibv_sge segment{.addr = reinterpret_cast<std::uintptr_t>(&side.memory[offset]),
                  .length = length,
                  .lkey = side.mr->lkey};
  request.sg_list = &segment;
  request.num_sge = 1;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (side.qp->context->ops.post_send(side.qp, &request, &bad) != 0) die("post_send");
}

void exchange() {
  ibv_recv_wr receive{};
  ibv_recv_wr* bad = nullptr;
  if (right.qp->context->ops.post_recv(right.qp, &receive, &bad) != 0) die("post_recv");
  for (std::size_t i = 0; i < kBytes; ++i) left.memory[i] = static_cast<char>(i * 7 + i / 256);

  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.imm_data = 0x12345678;
  request.wr.rdma = {.remote_addr = reinterpret_cast<std::uintptr_t>(right.memory.data()),
                     .rkey = right.mr->rkey};
  post(left, request, 0, kBytes);
  if (const ibv_wc arrived = wait(right); arrived.imm_data != 0x12345678) die("another immediate");
  wait(left);
  if (std::memcmp(left.memory.data(), right.memory.data(), kBytes) != 0) die("WRITE: other bytes");

  request.opcode = IBV_WR_RDMA_READ;
  post(left, request, kBytes, kBytes);
  wait(left);
  if (std::memcmp(&left.memory[kBytes], left.memory.data(), kBytes) != 0) die("READ: other bytes");

  std::uint64_t before = 0;
  std::memcpy(&before, right.memory.data(), sizeof before);
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.wr.atomic = {.remote_addr = request.wr.rdma.remote_addr,
                       .compare_add = 5,
                       .swap = 0,
                       .rkey = right.mr->rkey};
  post(left, request, 0, sizeof before);
  wait(left);
  std::uint64_t after = 0;
  std::memcpy(&after, right.memory.data(), sizeof after);
  if (after != before + 5 || std::memcmp(left.memory.data(), &before, sizeof before) != 0) {
    die("fetch-and-add: another sum");
  }
}

}  // namespace

int main() {
  const char* name = std::getenv("NCCL_IBVERBS_LIB");
  library = dlopen(name != nullptr ? name : "libibverbs.so.1", RTLD_NOW);
  if (library == nullptr) die(dlerror());
  for (const auto& [optional, version] : {std::pair{"ibv_reg_mr_iova2", "IBVERBS_1.8"},
                                          {"ibv_query_ece", "IBVERBS_1.10"},
                                          {"ibv_set_ece", "IBVERBS_1.10"},
                                          {"ibv_reg_dmabuf_mr", "IBVERBS_1.12"}}) {
    load(optional, version);
  }
  if (LOAD(ibv_fork_init, "IBVERBS_1.1")() != 0) die("ibv_fork_init");
  int count = 0;
  ibv_device** devices = LOAD(ibv_get_device_list, "IBVERBS_1.1")(&count);
  if (devices == nullptr || count != 1) die("not one device");
  std::printf("%s\n", LOAD(ibv_get_device_name, "IBVERBS_1.1")(devices[0]));
  ibv_context* context = LOAD(ibv_open_device, "IBVERBS_1.1")(devices[0]);
  LOAD(ibv_free_device_list, "IBVERBS_1.1")(devices);
  if (context == nullptr) die("the device does not open");
  ibv_device_attr device{};
  if (LOAD(ibv_query_device, "IBVERBS_1.1")(context, &device) != 0) die("ibv_query_device");
  ibv_gid gid{};
  if (LOAD(ibv_query_gid, "IBVERBS_1.1")(context, 1, 1, &gid) != 0) die("ibv_query_gid");
  ibv_pd* pd = LOAD(ibv_alloc_pd, "IBVERBS_1.1")(context);
  prepare(left, context, pd);
  prepare(right, context, pd);
  connect(left, right, gid);
  connect(right, left, gid);
  exchange();
  for (Side* side : {&left, &right}) {
    if (LOAD(ibv_destroy_qp, "IBVERBS_1.1")(side->qp) != 0 ||
        LOAD(ibv_destroy_cq, "IBVERBS_1.1")(side->cq) != 0 ||
        LOAD(ibv_dereg_mr, "IBVERBS_1.1")(side->mr) != 0) {
      die("an object is still in use");
    }
  }
  if (LOAD(ibv_dealloc_pd, "IBVERBS_1.1")(pd) != 0) die("the domain is still in use");
  return LOAD(ibv_close_device, "IBVERBS_1.1")(context);
}
