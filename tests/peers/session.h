#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>

#include "tests/peers/connections.h"
#include "tests/peers/meeting.h"
#include "tests/programs/endpoint.h"

/// The common part of the two programs of a test between two hosts. Both run the same steps; in a
/// step with two roles, each takes both roles in turn.
namespace peers {

using endpoint::Buffer;
using endpoint::Device;

inline constexpr std::size_t kBytesMax = 8 << 20;
/// Half a second each (4.1 us times 2^17), because an emulated peer may be slow. Linux's rxe treats
/// a count of 7 as "without limit".
inline constexpr endpoint::Retries kPatient{.timeout = 17, .count = 6};

inline const char* name_of(ibv_qp_type type) {
  return type == IBV_QPT_RC ? "RC" : type == IBV_QPT_UC ? "UC" : "UD";
}

/// What one side tells the other about a queue pair and its memory.
struct RemoteBuffer {
  ibv_gid gid{};
  std::uint32_t number = 0;
  std::uint32_t key = 0;
  std::uint64_t address = 0;
};

struct Session {
  Device& device;
  ControlConnection line;
  bool is_client;
  std::unique_ptr<Buffer>
      memory;  // For all queue pairs; one byte more than any message, and a GRH.
  ibv_mtu smallest_mtu;
  ibv_mtu mtu;  // The MTU that both ports support.
  Stack own, theirs;
  /// Over iWARP there is only RC, no MTU, and rdma_cm connects.
  std::unique_ptr<Connections> connections;

  bool is_stream() const { return connections != nullptr; }
  bool is_between(Stack stack) const { return own == stack || theirs == stack; }
  /// First the client requests, then the server.
  template <typename Request, typename Respond>
  void each_way(Request request, Respond respond) const {
    if (is_client) request();
    respond();
    if (!is_client) request();
  }
  /// Both sides have passed.
  void report(const char* service, std::size_t mtu_bytes, const char* what) const {
    if (is_client && is_stream()) std::printf("passed: %s %s\n", service, what);
    if (is_client && !is_stream()) std::printf("passed: %s %zu %s\n", service, mtu_bytes, what);
    std::fflush(stdout);
  }
};

/// This side's end of a connection between the two programs.
struct Pair {
  rdma_cm_id* id;  // If rdma_cm connects.
  ibv_qp* qp;
  Buffer* memory;
  RemoteBuffer there;
  ibv_ah* handle = nullptr;  // UD only.

  Pair(const Session& session, ibv_qp_type type, ibv_mtu mtu,
       const endpoint::Retries& retries = kPatient)
      : id(session.is_stream() ? session.connections->next(session.device, kDepth, kDepth)
                               : nullptr),
        qp(id != nullptr ? id->qp : session.device.create_queue_pair(type, kDepth, kDepth)),
        memory(session.memory.get()) {
    session.line.send_value(
        RemoteBuffer{session.device.gid, qp->qp_num, memory->region->rkey, memory->address()});
    there = session.line.receive_value<RemoteBuffer>();
    if (id == nullptr) connect(session.device, mtu, retries);
    session.line.barrier();  // Neither side sends before both can receive.
  }
  ~Pair() {
    if (id != nullptr) {
      Manager::destroy(id);
    } else {
      ibv_destroy_qp(qp);
    }
    if (handle != nullptr) ibv_destroy_ah(handle);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

 private:
  static constexpr std::uint32_t kDepth = 64;

  void connect(const Device& device, ibv_mtu mtu, const endpoint::Retries& retries) {
    ibv_ah_attr path = device.path_to(there.gid);
    device.initialise(qp);
    Device::connect_along(path, qp, there.number, mtu, retries);
    if (qp->qp_type != IBV_QPT_UD) return;
    handle = ibv_create_ah(device.pd, &path);
    check(handle != nullptr, "ibv_create_ah");
  }
};

/// Returns the next completion, whatever its status.
inline ibv_wc next_completion(const Session& session) {
  ibv_wc completion{};
  int polled = 0;
  while (polled == 0) polled = ibv_poll_cq(session.device.cq, 1, &completion);
  check(polled == 1, "ibv_poll_cq");
  return completion;
}

inline void expect_status(const Session& session, ibv_wc_status expected, const char* what) {
  const ibv_wc_status found = next_completion(session).status;
  if (found == expected) return;
  std::fprintf(stderr, "%s: %s, expected %s\n", what, ibv_wc_status_str(found),
               ibv_wc_status_str(expected));
  std::exit(1);
}

/// Expects the failure of a READ or atomic that the peer refuses. Linux's siw does not read
/// Terminate messages, so the status of its requests is undefined.
inline void expect_failure(const Session& session, ibv_wc_status expected, const char* what) {
  if (session.own != Stack::siw) return expect_status(session, expected, what);
  check(next_completion(session).status != IBV_WC_SUCCESS, what);
}

void run_transfers(const Session& session);
void run_streams(const Session& session);
void run_windows(const Session& session);
void run_errors(const Session& session);

}  // namespace peers
