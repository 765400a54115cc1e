#pragma once

#include "tests/peers/manager.h"

namespace peers {

/// This side's ends of connections made by rdma_cm, which iWARP requires: the client connects, the
/// server accepts.
class Connections {
 public:
  /// The server, if `host` is null, listens from now on.
  Connections(const char* host, int port) : host_(host), port_(port) {
    if (host_ == nullptr) manager_.listen(port_);
  }

  /// Returns the next connection, established. The caller owns it and its queue pair.
  rdma_cm_id* next(const endpoint::Device& device, std::uint32_t sends,
                   std::uint32_t receives) const {
    rdma_cm_id* const id = host_ == nullptr ? manager_.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id
                                            : manager_.resolve(host_, port_);
    ibv_qp_init_attr options{};
    options.send_cq = options.recv_cq = device.cq;
    options.qp_type = IBV_QPT_RC;
    options.cap = endpoint::capacity(sends, receives);
    check(rdma_create_qp(id, device.pd, &options) == 0, "rdma_create_qp");
    rdma_conn_param parameters{};
    parameters.responder_resources = parameters.initiator_depth = 4;
    if (host_ == nullptr) {
      check(rdma_accept(id, &parameters) == 0, "rdma_accept");
    } else {
      check(rdma_connect(id, &parameters) == 0, "rdma_connect");
    }
    manager_.expect(RDMA_CM_EVENT_ESTABLISHED);
    return id;
  }

 private:
  const char* host_;
  int port_;
  Manager manager_;
};

}  // namespace peers
