// Memory windows of both types, and the ways in which their bindings end: invalidated by the peer's
// SEND, by their owner, or bound again. Requests with an ended key are refused. Linux's siw has no
// windows: there, the peer's SEND invalidates a region.
#include <cstring>

#include "tests/peers/session.h"

namespace peers {
namespace {

constexpr std::size_t kBytes = 4096;

enum class End { by_peer, by_owner };

struct Window {
  ibv_mr* region;
  ibv_mw* window;  // May be null.
  std::uint32_t key = 0;

  Window(const Session& session, ibv_mw_type type)
      : region(ibv_reg_mr(session.device.pd, session.memory->bytes.data(), kBytes,
                          endpoint::kAccess | IBV_ACCESS_MW_BIND)),
        window(session.own == Stack::siw ? nullptr : ibv_alloc_mw(session.device.pd, type)) {
    check(region != nullptr, "ibv_reg_mr with IBV_ACCESS_MW_BIND");
    check(window != nullptr || session.own == Stack::siw, "ibv_alloc_mw");
  }
  ~Window() {
    if (window != nullptr) ibv_dealloc_mw(window);
    ibv_dereg_mr(region);
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  void bind(const Session& session, ibv_qp* qp) {
    if (window == nullptr) {
      key = region->rkey;
      return;
    }
    const ibv_mw_bind_info info{region, reinterpret_cast<std::uint64_t>(region->addr), kBytes,
                                IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    if (window->type == IBV_MW_TYPE_1) {
      ibv_mw_bind request{};
      request.send_flags = IBV_SEND_SIGNALED;
      request.bind_info = info;
      check(ibv_bind_mw(qp, window, &request) == 0, "ibv_bind_mw");
      key = window->rkey;
    } else {
      ibv_send_wr request{};
      request.opcode = IBV_WR_BIND_MW;
      request.send_flags = IBV_SEND_SIGNALED;
      key = ibv_inc_rkey(window->rkey);
      request.bind_mw = {window, key, info};
      ibv_send_wr* bad = nullptr;
      check(ibv_post_send(qp, &request, &bad) == 0, "IBV_WR_BIND_MW");
    }
    session.device.completions(1);
  }
};

void ask(const Session& session, const Pair& pair, ibv_wr_opcode opcode, std::uint32_t key,
         const char* what, ibv_wc_status expected = IBV_WC_SUCCESS) {
  ibv_send_wr request{};
  request.opcode = opcode;
  request.wr.rdma = {pair.there.address, key};
  if (opcode == IBV_WR_SEND_WITH_INV) request.invalidate_rkey = key;
  endpoint::post_send(pair.qp, request,
                      pair.memory->segment(opcode == IBV_WR_SEND_WITH_INV ? 0 : kBytes));
  if (expected == IBV_WC_SUCCESS) {
    expect_status(session, expected, what);
  } else {
    expect_failure(session, expected, what);
  }
}

void request(const Session& session, const Pair& pair, ibv_mw_type type, End end) {
  Buffer& memory = *session.memory;
  const auto key = session.line.receive_value<std::uint32_t>();
  std::memset(memory.bytes.data(), 0x3c, kBytes);
  ask(session, pair, IBV_WR_RDMA_WRITE, key, "WRITE through a window");
  std::memset(memory.bytes.data(), 0, kBytes);
  ask(session, pair, IBV_WR_RDMA_READ, key, "READ through a window");
  check(memory.bytes[0] == 0x3c && memory.bytes[kBytes - 1] == 0x3c,
        "READ through a window: content");
  if (type == IBV_MW_TYPE_2 && end == End::by_peer) {
    ask(session, pair, IBV_WR_SEND_WITH_INV, key, "SEND with invalidate");
  }
  session.line.barrier();
  session.line.barrier();  // The peer has invalidated the window.
  // Over a stream a WRITE has completed before.
  const auto refused = session.is_stream() ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
  ask(session, pair, refused, key, "access through an ended window", IBV_WC_REM_ACCESS_ERR);
  session.line.barrier();
}

void respond(const Session& session, const Pair& pair, ibv_mw_type type, End end) {
  Window window(session, type);
  window.bind(session, pair.qp);
  const bool by_send = type == IBV_MW_TYPE_2 && end == End::by_peer;
  if (by_send) endpoint::post_receive(pair.qp, pair.memory->segment(0), 1);
  session.line.send_value(window.key);
  if (by_send) {
    const ibv_wc completion = session.device.completions(1)[0];
    // Linux's rxe shows programs the kernel's value of the flag, which is bit 2.
    const int flag = session.own == Stack::rxe ? 1 << 2 : static_cast<int>(IBV_WC_WITH_INV);
    const bool is_told = session.own != Stack::siw;  // siw's library does not report it either.
    check(!is_told || (completion.wc_flags & flag) != 0, "IBV_WC_WITH_INV");
    check(!is_told || completion.invalidated_rkey == window.key, "invalidated_rkey");
  }
  session.line.barrier();
  if (type == IBV_MW_TYPE_1) {
    const std::uint32_t before = window.key;
    window.bind(session, pair.qp);
    check(window.key != before, "a window that is bound anew has another key");
  } else if (end == End::by_owner) {
    ibv_send_wr invalidate{};
    invalidate.opcode = IBV_WR_LOCAL_INV;
    invalidate.send_flags = IBV_SEND_SIGNALED;
    invalidate.invalidate_rkey = window.key;
    ibv_send_wr* bad = nullptr;
    check(ibv_post_send(pair.qp, &invalidate, &bad) == 0, "IBV_WR_LOCAL_INV");
    session.device.completions(1);
  }
  session.line.barrier();
  session.line.barrier();
}

struct Case {
  ibv_mw_type type;
  End end;
  const char* name;
};
constexpr Case kCases[] = {{IBV_MW_TYPE_1, End::by_owner, "window of type 1, bound anew"},
                           {IBV_MW_TYPE_2, End::by_peer, "window of type 2, SEND with invalidate"},
                           {IBV_MW_TYPE_2, End::by_owner, "window of type 2, LOCAL_INV"}};

}  // namespace

void run_windows(const Session& session) {
  for (const Case& one : kCases) {
    if (session.is_between(Stack::siw) && one.end != End::by_peer) continue;
    session.each_way(
        [&] {
          const Pair pair(session, IBV_QPT_RC, session.mtu);
          request(session, pair, one.type, one.end);
        },
        [&] {
          const Pair pair(session, IBV_QPT_RC, session.mtu);
          respond(session, pair, one.type, one.end);
        });
    session.report("RC", std::size_t{128} << session.mtu, one.name);
  }
}

}  // namespace peers
