// Each error that a requester can cause, with the status on both sides (IBA 9.9.2, 9.9.3). Over
// iWARP (RFC 5040, 4.8) each ends the stream, and a WRITE or SEND has completed before.
#include <cerrno>
#include <optional>

#include "tests/peers/session.h"

namespace peers {
namespace {

constexpr std::uint32_t kBytes = 4096;
/// Half a second each; count 0: a missing receive is an error at once.
constexpr endpoint::Retries kImpatient{.timeout = 17, .count = 2, .not_ready = 0};
constexpr int kNoRights = IBV_ACCESS_LOCAL_WRITE;

struct Misuse {
  const char* name;
  ibv_wr_opcode opcode;
  ibv_wc_status status;
  std::uint64_t beyond = 0;     // Bytes beyond the buffer.
  std::uint32_t wrong_key = 0;  // Added to the key.
  bool region_has_no_rights = false;
  std::uint32_t receive_bytes = 0;  // Size of the receive that the responder posts.
  ibv_wc_status receives = IBV_WC_SUCCESS;
  bool is_destroyed = false;  // The responder's queue pair is destroyed.
  std::optional<ibv_wc_status> rxe_status,
      rxe_receives;          // With Linux's rxe as responder, if different.
  bool rxe_refuses = false;  // With EINVAL in the post.
  bool siw_serves = false;   // It checks no right to read.
};
constexpr Misuse kMisuses[] = {
    {.name = "WRITE with a wrong key",
     .opcode = IBV_WR_RDMA_WRITE,
     .status = IBV_WC_REM_ACCESS_ERR,
     .wrong_key = 0x5500},
    {.name = "READ with a wrong key",
     .opcode = IBV_WR_RDMA_READ,
     .status = IBV_WC_REM_ACCESS_ERR,
     .wrong_key = 0x5500},
    {.name = "WRITE beyond the region",
     .opcode = IBV_WR_RDMA_WRITE,
     .status = IBV_WC_REM_ACCESS_ERR,
     .beyond = kBytes},
    {.name = "READ beyond the region",
     .opcode = IBV_WR_RDMA_READ,
     .status = IBV_WC_REM_ACCESS_ERR,
     .beyond = 1},
    {.name = "WRITE without the region's right",
     .opcode = IBV_WR_RDMA_WRITE,
     .status = IBV_WC_REM_ACCESS_ERR,
     .region_has_no_rights = true},
    {.name = "READ without the region's right",
     .opcode = IBV_WR_RDMA_READ,
     .status = IBV_WC_REM_ACCESS_ERR,
     .region_has_no_rights = true,
     .siw_serves = true},
    {.name = "atomic without the region's right",
     .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
     .status = IBV_WC_REM_ACCESS_ERR,
     .region_has_no_rights = true},
    {.name = "atomic of a misaligned address",
     .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
     .status = IBV_WC_REM_INV_REQ_ERR,
     .beyond = 4,
     .rxe_refuses = true},
    {.name = "SEND longer than its receive",
     .opcode = IBV_WR_SEND,
     .status = IBV_WC_REM_INV_REQ_ERR,
     .receive_bytes = kBytes / 2,
     .receives = IBV_WC_LOC_LEN_ERR,
     .rxe_status = IBV_WC_REM_OP_ERR,
     .rxe_receives = IBV_WC_LOC_QP_OP_ERR},
    {.name = "SEND without a receive", .opcode = IBV_WR_SEND, .status = IBV_WC_RNR_RETRY_EXC_ERR},
    {.name = "WRITE to a queue pair that is gone",
     .opcode = IBV_WR_RDMA_WRITE,
     .status = IBV_WC_RETRY_EXC_ERR,
     .is_destroyed = true},
};

/// Returns true if the requester gets a response.
bool has_response(const Misuse& misuse) {
  return misuse.opcode == IBV_WR_RDMA_READ || misuse.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

bool is_tried(const Session& session, const Misuse& misuse) {
  if (!session.is_stream()) return true;
  if (misuse.is_destroyed) return false;  // The stream was ended before.
  return misuse.opcode != IBV_WR_ATOMIC_FETCH_AND_ADD || !session.is_between(Stack::siw);
}

ibv_wc_status expected_status(const Session& session, const Misuse& misuse) {
  if (session.is_stream() && !has_response(misuse)) return IBV_WC_SUCCESS;
  if (session.theirs == Stack::rxe) return misuse.rxe_status.value_or(misuse.status);
  return misuse.status;
}

void expect_outcome(const Session& session, const Pair& pair, const Misuse& misuse) {
  const bool is_stream = session.is_stream();
  if (!is_stream) endpoint::post_send(pair.qp, {.opcode = IBV_WR_SEND}, pair.memory->segment(1));
  const ibv_wc_status expected = expected_status(session, misuse);
  if (expected != IBV_WC_SUCCESS) {
    expect_failure(session, expected, misuse.name);
  } else if (session.own == Stack::siw) {
    next_completion(session);  // The end may come first.
  } else {
    expect_status(session, expected, misuse.name);
  }
  expect_status(session, IBV_WC_WR_FLUSH_ERR,
                is_stream ? "a receive of a stream that has ended" : "the request behind");
  // siw flushes requests that are posted later only when the queue pair is destroyed.
  if (!is_stream || session.own == Stack::siw) return;
  endpoint::post_send(pair.qp, {.opcode = IBV_WR_SEND}, pair.memory->segment(1));
  expect_status(session, IBV_WC_WR_FLUSH_ERR, "a request to a stream that has ended");
}

void request(const Session& session, const Misuse& misuse) {
  if (session.theirs == Stack::siw && misuse.siw_serves) return;
  const Pair pair(session, IBV_QPT_RC, session.mtu, kImpatient);
  if (session.is_stream()) endpoint::post_receive(pair.qp, pair.memory->segment(1), 1);
  const auto there = session.line.receive_value<RemoteBuffer>();
  ibv_send_wr wanted{};
  wanted.opcode = misuse.opcode;
  const std::uint64_t address = there.address + misuse.beyond;
  const std::uint32_t key = there.key ^ misuse.wrong_key;
  std::uint32_t length = kBytes;
  if (misuse.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    wanted.wr.atomic = {address, 1, 0, key};
    length = 8;
  } else {
    wanted.wr.rdma = {address, key};
  }
  ibv_sge segment = pair.memory->segment(length);
  wanted.sg_list = &segment;
  wanted.num_sge = 1;
  wanted.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(pair.qp, &wanted, &bad);
  const bool is_refused = session.own == Stack::rxe && misuse.rxe_refuses;
  check(error == (is_refused ? EINVAL : 0), misuse.name);
  if (!is_refused) expect_outcome(session, pair, misuse);
  session.line.barrier();
}

void respond(const Session& session, const Misuse& misuse) {
  if (session.own == Stack::siw && misuse.siw_serves) return;
  auto pair = std::make_unique<Pair>(session, IBV_QPT_RC, session.mtu, kImpatient);
  auto& bytes = session.memory->bytes;
  ibv_mr* const region = ibv_reg_mr(session.device.pd, bytes.data(), kBytes,
                                    misuse.region_has_no_rights ? kNoRights : endpoint::kAccess);
  check(region != nullptr, "ibv_reg_mr");
  if (misuse.receive_bytes > 0) {
    endpoint::post_receive(pair->qp, session.memory->segment(misuse.receive_bytes), 1);
  }
  if (misuse.is_destroyed) pair.reset();
  session.line.send_value(
      RemoteBuffer{.key = region->rkey, .address = reinterpret_cast<std::uint64_t>(bytes.data())});
  if (misuse.receive_bytes > 0) {
    const auto status = session.own == Stack::rxe ? misuse.rxe_receives : std::nullopt;
    expect_status(session, status.value_or(misuse.receives), misuse.name);
  }
  session.line.barrier();
  ibv_dereg_mr(region);
}

}  // namespace

void run_errors(const Session& session) {
  for (const Misuse& misuse : kMisuses) {
    if (!is_tried(session, misuse)) continue;
    session.each_way([&] { request(session, misuse); }, [&] { respond(session, misuse); });
    session.report("RC", std::size_t{128} << session.mtu, misuse.name);
  }
}

}  // namespace peers
