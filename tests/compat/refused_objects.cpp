// Devices, completion queues, memory, addresses.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "refused.h"

namespace refused {
namespace {

int create_cq(const Bench& bench, const std::function<void(ibv_cq_init_attr_ex&)>& change) {
  ibv_cq_init_attr_ex wanted{};
  wanted.cqe = 4;
  wanted.wc_flags = IBV_WC_STANDARD_FLAGS;
  change(wanted);
  return errno_of(ibv_create_cq_ex(bench.context, &wanted));
}

int create_handle_without_grh(const Bench& bench) {
  ibv_ah_attr wanted = bench.path_to_self();
  wanted.is_global = 0;
  return errno_of(ibv_create_ah(bench.pd, &wanted));
}

int register_memory(const Bench& bench, int access) {
  static char memory[4096];
  return errno_of(ibv_reg_mr(bench.pd, memory, sizeof memory, access));
}

/// An event descriptor stands for a device's buffer that cannot be mapped.
int register_unmappable(const Bench& bench) {
  const int fd = eventfd(0, EFD_CLOEXEC);
  const int answer = errno_of(ibv_reg_dmabuf_mr(bench.pd, 0, 4096, 0, fd, IBV_ACCESS_LOCAL_WRITE));
  close(fd);
  return answer;
}

/// Imports the other process's context, which takes over the descriptor.
ibv_context* import_context(const Bench& bench) {
  return ibv_import_device(dup(bench.other.cmd_fd));
}

/// Objects imported from another process.
struct Imported {
  explicit Imported(const Bench& bench) : context(import_context(bench)) {
    if (context == nullptr) return;
    pd = ibv_import_pd(context, bench.other.pd);
    mr = pd != nullptr ? ibv_import_mr(pd, bench.other.mr) : nullptr;
    dm = ibv_import_dm(context, bench.other.dm);
  }
  ~Imported() {
    if (dm != nullptr) ibv_unimport_dm(dm);
    if (mr != nullptr) ibv_unimport_mr(mr);
    if (pd != nullptr) ibv_unimport_pd(pd);
    if (context != nullptr) ibv_close_device(context);
  }
  Imported(const Imported&) = delete;
  bool is_good() const { return mr != nullptr && dm != nullptr; }

  ibv_context* context;
  ibv_pd* pd = nullptr;
  ibv_mr* mr = nullptr;
  ibv_dm* dm = nullptr;
};

int open_target_of_another(const Bench& bench) {
  ibv_xrcd* const domain = open_shared_domain(bench);
  if (domain == nullptr) return kNoBench;
  ibv_qp_open_attr wanted{};
  wanted.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  wanted.qp_num = bench.other.target;
  wanted.xrcd = domain;
  wanted.qp_type = IBV_QPT_XRC_RECV;
  const int answer = errno_of(ibv_open_qp(bench.context, &wanted));
  ibv_close_xrcd(domain);
  return answer;
}

int find_neighbour(const Bench& bench) {
  ibv_ah_attr towards = bench.path_to_self();
  std::uint8_t mac[6];
  std::uint16_t vlan = 0;
  return ibv_resolve_eth_l2_from_gid(bench.context, &towards, mac, &vlan);
}

void add_completion_queues(Rows& rows) {
  rows.push_back({"ibv_modify_cq", "", EOPNOTSUPP,
                  "not yet: `cq_mod_caps` are 0, as with rdma_rxe and siw", [](const Bench& bench) {
                    ibv_modify_cq_attr wanted{};
                    wanted.attr_mask = IBV_CQ_ATTR_MODERATE;
                    wanted.moderate = {.cq_count = 8, .cq_period = 16};
                    return ibv_modify_cq(bench.cq, &wanted);
                  }});
  rows.push_back({"ibv_create_cq_ex", "`wc_flags` `IBV_WC_EX_WITH_CVLAN`", EOPNOTSUPP,
                  "not yet: tags stay in the frame, see `IBV_QP_CREATE_CVLAN_STRIPPING`",
                  [](const Bench& bench) {
                    return create_cq(bench, [](ibv_cq_init_attr_ex& wanted) {
                      wanted.wc_flags |= IBV_WC_EX_WITH_CVLAN;
                    });
                  }});
  rows.push_back({"ibv_create_cq_ex", "`flags` that no header has", EOPNOTSUPP, "unknown",
                  [](const Bench& bench) {
                    return create_cq(bench, [](ibv_cq_init_attr_ex& wanted) {
                      wanted.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
                      wanted.flags = 1 << 30;
                    });
                  }});
  rows.push_back({"ibv_create_cq_ex", "`comp_mask` bits that no header has", EOPNOTSUPP, "unknown",
                  [](const Bench& bench) {
                    return create_cq(
                        bench, [](ibv_cq_init_attr_ex& wanted) { wanted.comp_mask = 1 << 30; });
                  }});
}

void add_memory(Rows& rows) {
  rows.push_back({"ibv_reg_mr", "`access` `IBV_ACCESS_FLUSH_PERSISTENT`", EOPNOTSUPP,
                  "ordinary memory does not survive a loss of power; rdma_rxe wants some that does",
                  [](const Bench& bench) {
                    constexpr int kFlushPersistent = 1 << 9;  // From newer headers.
                    return register_memory(bench, IBV_ACCESS_LOCAL_WRITE | kFlushPersistent);
                  }});
  rows.push_back({"ibv_reg_dmabuf_mr", "a buffer that the processor cannot map", EOPNOTSUPP,
                  "the adapter's processor is the program's own", register_unmappable});
  rows.push_back({"ibv_rereg_mr", "a region that `ibv_reg_mr` did not make", EINVAL,
                  "as the kernel has it of device memory", [](const Bench& bench) {
                    ibv_mr* const region = ibv_alloc_null_mr(bench.pd);
                    const int answer = errno_of(
                        ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_PD, bench.pd, nullptr, 0, 0));
                    ibv_dereg_mr(region);
                    return answer;
                  }});
  rows.push_back(
      {"ibv_advise_mr", "`advice` that no header has", ENOTSUP, "unknown", [](const Bench& bench) {
         ibv_sge nothing{};
         return ibv_advise_mr(bench.pd, beyond_the_header<ibv_advise_mr_advice>(3), 0, &nothing, 1);
       }});
}

void add_shared_objects(Rows& rows) {
  const char* const why =
      "the process that made it ends it, also for those who import it; they have "
      "`ibv_unimport_*`";
  rows.push_back(
      {"ibv_dealloc_pd", "imported from another process", EOPNOTSUPP, why, [](const Bench& bench) {
         const Imported imported(bench);
         return imported.is_good() ? ibv_dealloc_pd(imported.pd) : kNoBench;
       }});
  rows.push_back(
      {"ibv_dereg_mr", "imported from another process", EOPNOTSUPP, why, [](const Bench& bench) {
         const Imported imported(bench);
         return imported.is_good() ? ibv_dereg_mr(imported.mr) : kNoBench;
       }});
  rows.push_back(
      {"ibv_free_dm", "imported from another process", EOPNOTSUPP, why, [](const Bench& bench) {
         const Imported imported(bench);
         return imported.is_good() ? ibv_free_dm(imported.dm) : kNoBench;
       }});
  rows.push_back({"ibv_open_qp", "an XRC target of another process", EOPNOTSUPP,
                  "a queue pair ends with the process that made it; its requests reach the "
                  "domain's queues of every process without its being opened",
                  open_target_of_another});
}

}  // namespace

void add_objects(Rows& rows) {
  add_completion_queues(rows);
  add_memory(rows);
  add_shared_objects(rows);
  rows.push_back({"ibv_create_ah", "`is_global` 0", EINVAL,
                  "RoCE addresses by GID: every RoCE device wants a GRH",
                  create_handle_without_grh});
  rows.push_back({"ibv_query_gid_ex", "`flags` other than 0", EOPNOTSUPP, "the headers have none",
                  [](const Bench& bench) {
                    ibv_gid_entry entry;
                    return ibv_query_gid_ex(bench.context, 1, 0, &entry, 1);
                  }});
  rows.push_back({"ibv_query_gid_table", "`flags` other than 0", EOPNOTSUPP,
                  "the headers have none", [](const Bench& bench) {
                    ibv_gid_entry entries[8];
                    return static_cast<int>(-ibv_query_gid_table(bench.context, entries, 8, 1));
                  }});
  rows.push_back({"ibv_resolve_eth_l2_from_gid", "a GID that does not contain its MAC address",
                  EOPNOTSUPP,
                  "for providers; the adapter sends by IP address and finds neighbours itself",
                  find_neighbour});
}

}  // namespace refused
