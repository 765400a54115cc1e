#pragma once

#include "dropin/ibverbs/verbs.h"

/// Calls that programs reach through a context's operations, not by symbol.
namespace verbatim::dropin {

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes,
               std::size_t size);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attributes, std::size_t size);

int poll_cq(ibv_cq* cq, int entries, ibv_wc* completions);
int request_notification(ibv_cq* cq, int solicited_only);
int post_send(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad);
int post_receive(ibv_qp* qp, ibv_recv_wr* request, ibv_recv_wr** bad);
int post_shared_receive(ibv_srq* srq, ibv_recv_wr* request, ibv_recv_wr** bad);

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* wanted);
int post_srq_ops(ibv_srq* srq, ibv_ops_wr* operation, ibv_ops_wr** bad);
int get_srq_num(ibv_srq* srq, std::uint32_t* number);
ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* wanted);
int close_xrcd(ibv_xrcd* xrcd);

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* wanted);
int dealloc_td(ibv_td* td);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* wanted);
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* wanted);
int query_rt_values(ibv_context* context, ibv_values_ex* values);
ibv_counters* create_counters(ibv_context* context, ibv_counters_init_attr* wanted);
int destroy_counters(ibv_counters* counters);
int attach_counters_point_flow(ibv_counters* counters, ibv_counter_attach_attr* wanted,
                               ibv_flow* flow);
int read_counters(ibv_counters* counters, std::uint64_t* values, std::uint32_t count,
                  std::uint32_t flags);
int modify_qp_rate_limit(ibv_qp* qp, ibv_qp_rate_limit_attr* wanted);
ibv_wq* create_wq(ibv_context* context, ibv_wq_init_attr* wanted);
int modify_wq(ibv_wq* wq, ibv_wq_attr* wanted);
int destroy_wq(ibv_wq* wq);
ibv_rwq_ind_table* create_rwq_ind_table(ibv_context* context, ibv_rwq_ind_table_init_attr* wanted);
int destroy_rwq_ind_table(ibv_rwq_ind_table* table);

ibv_flow* create_flow(ibv_qp* qp, ibv_flow_attr* attributes);
int destroy_flow(ibv_flow* flow);

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* wanted);
ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* wanted);

ibv_mr* alloc_null_mr(ibv_pd* pd);
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list,
              std::uint32_t count);
ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* wanted);
int free_dm(ibv_dm* dm);
ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, std::uint64_t offset, std::size_t length,
                  unsigned int access);
ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int dealloc_mw(ibv_mw* mw);
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* wanted);

/// Creates the verbs object of existing device memory.
ibv_dm* wrap_device_memory(ibv_context* context, std::uint32_t handle);

/// Sets each operation that is still null to a function that logs its name and fails with
/// EOPNOTSUPP.
void refuse_the_rest(verbs_context& context);

}  // namespace verbatim::dropin
