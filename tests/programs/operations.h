#pragma once

#include <infiniband/verbs.h>

/// The operations of RC, and which other services have them (IBA table 38).
namespace endpoint {

struct Operation {
  ibv_wr_opcode opcode;
  const char* name;
  bool consumes_receive;
  bool in_uc;
  bool in_ud;
};

inline constexpr Operation kOperations[] = {
    {IBV_WR_SEND, "SEND", true, true, true},
    {IBV_WR_SEND_WITH_IMM, "SEND with immediate", true, true, true},
    {IBV_WR_RDMA_WRITE, "WRITE", false, true, false},
    {IBV_WR_RDMA_WRITE_WITH_IMM, "WRITE with immediate", true, true, false},
    {IBV_WR_RDMA_READ, "READ", false, false, false},
    {IBV_WR_ATOMIC_CMP_AND_SWP, "compare and swap", false, false, false},
    {IBV_WR_ATOMIC_FETCH_AND_ADD, "fetch and add", false, false, false},
};

constexpr bool is_served(const Operation& operation, ibv_qp_type type) {
  return type == IBV_QPT_RC || (type == IBV_QPT_UC ? operation.in_uc : operation.in_ud);
}

constexpr bool is_atomic(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

constexpr bool has_immediate(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

}  // namespace endpoint
