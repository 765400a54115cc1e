#include <cstddef>

#include "dropin/ibverbs/verbs.h"

/// Texts for numbers, the same as rdma-core's: programs print them, and scripts search for them.
namespace {

constexpr const char* kNodeTypes[] = {
    nullptr,
    "InfiniBand channel adapter",
    "InfiniBand switch",
    "InfiniBand router",
    "iWARP NIC",
    "usNIC",
    "usNIC UDP",
    "unspecified",
};

constexpr const char* kPortStates[] = {
    "no state change (NOP)", "down", "init", "armed", "active", "active defer",
};

constexpr const char* kEventTypes[] = {
    "CQ error",
    "local work queue catastrophic error",
    "invalid request local work queue error",
    "local access violation work queue error",
    "communication established",
    "send queue drained",
    "path migrated",
    "path migration request error",
    "local catastrophic error",
    "port active",
    "port error",
    "LID change",
    "P_Key change",
    "SM change",
    "SRQ catastrophic error",
    "SRQ limit reached",
    "last WQE reached",
    "client reregistration",
    "GID table change",
    "WQ fatal",
    "Device link speed change",
};

constexpr const char* kStatuses[] = {
    "success",
    "local length error",
    "local QP operation error",
    "local EE context operation error",
    "local protection error",
    "Work Request Flushed Error",
    "memory management operation error",
    "bad response error",
    "local access error",
    "remote invalid request error",
    "remote access error",
    "remote operation error",
    "transport retry counter exceeded",
    "RNR retry counter exceeded",
    "local RDD violation error",
    "remote invalid RD request",
    "aborted error",
    "invalid EE context number",
    "invalid EE context state",
    "fatal error",
    "response timeout error",
    "general error",
    "TM error",
    "TM software rendezvous",
};

constexpr const char* kOpcodes[] = {
    "IBV_WR_RDMA_WRITE",
    "IBV_WR_RDMA_WRITE_WITH_IMM",
    "IBV_WR_SEND",
    "IBV_WR_SEND_WITH_IMM",
    "IBV_WR_RDMA_READ",
    "IBV_WR_ATOMIC_CMP_AND_SWP",
    "IBV_WR_ATOMIC_FETCH_AND_ADD",
    "IBV_WR_LOCAL_INV",
    "IBV_WR_BIND_MW",
    "IBV_WR_SEND_WITH_INV",
    "IBV_WR_TSO",
    "IBV_WR_DRIVER1",
    nullptr,
    nullptr,
    "IBV_WR_FLUSH",
    "IBV_WR_ATOMIC_WRITE",
};

template <std::size_t size>
const char* find(const char* const (&names)[size], int number) {
  const bool known =
      number >= 0 && static_cast<std::size_t>(number) < size && names[number] != nullptr;
  return known ? names[number] : "unknown";
}

}  // namespace

const char* ibv_node_type_str(ibv_node_type node_type) { return find(kNodeTypes, node_type); }

const char* ibv_port_state_str(ibv_port_state port_state) { return find(kPortStates, port_state); }

const char* ibv_event_type_str(ibv_event_type event) { return find(kEventTypes, event); }

const char* ibv_wc_status_str(ibv_wc_status status) { return find(kStatuses, status); }

const char* ibv_wr_opcode_str(ibv_wr_opcode opcode) { return find(kOpcodes, opcode); }
