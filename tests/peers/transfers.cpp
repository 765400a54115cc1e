// Each operation of RC, UC and UD in both directions, with each MTU, or over iWARP, in messages of
// 0 bytes to 8 MiB.
#include <cstring>

#include <arpa/inet.h>

#include "tests/peers/session.h"
#include "tests/programs/operations.h"

namespace peers {
namespace {

constexpr std::uint32_t kImmediate = 0x01020304;
constexpr std::size_t kGrhBytes = 40;
constexpr std::uint8_t kUntouched = 0xee;

using endpoint::is_atomic;
using endpoint::Operation;

/// A message of one operation, seen from both sides.
struct Message {
  const Session& session;
  const Pair& pair;
  const Operation& operation;
  std::size_t length;

  std::size_t headroom() const { return pair.qp->qp_type == IBV_QPT_UD ? kGrhBytes : 0; }
  void expect(bool good, const char* what) const {
    if (good) return;
    std::fprintf(stderr, "%s of %zu bytes: %s\n", operation.name, length, what);
    std::exit(1);
  }
  void fill(Buffer& buffer) const {
    for (std::size_t i = 0; i < length; ++i) buffer.bytes[i] = byte_at(i);
  }
  /// Each packet's bytes differ from those of its neighbours.
  std::uint8_t byte_at(std::size_t i) const {
    return static_cast<std::uint8_t>((i * 2654435761U + length) >> 11);
  }
  void clear(Buffer& buffer) const {
    std::memset(buffer.bytes.data(), kUntouched, headroom() + length + 1);
  }
  void compare(const Buffer& buffer) const {
    const std::uint8_t* found = buffer.bytes.data() + headroom();
    for (std::size_t i = 0; i < length; ++i) expect(found[i] == byte_at(i), "content differs");
    expect(found[length] == kUntouched, "bytes beyond the message");
  }

  void request() const {
    Buffer& memory = *pair.memory;
    const bool reads = operation.opcode == IBV_WR_RDMA_READ || is_atomic(operation.opcode);
    if (reads) {
      clear(memory);
    } else {
      fill(memory);
    }
    session.line.barrier();
    post();
    session.device.completions(1);
    if (is_atomic(operation.opcode)) {
      expect(first_word(memory) == 5, "wrong value returned");
    } else if (reads) {
      compare(memory);
    }
    session.line.barrier();
    session.line.barrier();  // The peer has checked.
  }
  void post() const {
    ibv_send_wr request{};
    request.opcode = operation.opcode;
    request.imm_data = htonl(kImmediate);
    const RemoteBuffer& there = pair.there;
    if (pair.handle != nullptr) {
      request.wr.ud = {pair.handle, there.number, endpoint::kQKey};
    } else if (is_atomic(operation.opcode)) {
      request.wr.atomic = {there.address, 5, 7, there.key};
    } else {
      request.wr.rdma = {there.address, there.key};
    }
    endpoint::post_send(pair.qp, request, pair.memory->segment(length));
  }

  void respond() const {
    Buffer& memory = *pair.memory;
    if (is_atomic(operation.opcode)) {
      const std::uint64_t before = 5;  // The value that the comparison expects.
      std::memcpy(memory.bytes.data(), &before, sizeof before);
    } else if (operation.opcode == IBV_WR_RDMA_READ) {
      fill(memory);
    } else {
      clear(memory);
    }
    if (operation.consumes_receive) {
      endpoint::post_receive(pair.qp, memory.segment(length + headroom()), 1);
    }
    session.line.barrier();
    if (operation.consumes_receive) check_receive(session.device.completions(1)[0]);
    session.line.barrier();
    if (is_atomic(operation.opcode)) {
      const std::uint64_t after = operation.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? 7 : 10;
      expect(first_word(memory) == after, "wrong value left");
    } else if (operation.opcode != IBV_WR_RDMA_READ) {
      wait_for_last_byte(memory);
      compare(memory);
    }
    session.line.barrier();
  }
  void check_receive(const ibv_wc& completion) const {
    expect(completion.byte_len == length + headroom(), "wrong length");
    const bool announced = (completion.wc_flags & IBV_WC_WITH_IMM) != 0;
    expect(announced == endpoint::has_immediate(operation.opcode),
           "immediate data announced wrongly");
    expect(!announced || ntohl(completion.imm_data) == kImmediate, "wrong immediate data");
  }
  /// An unreliable WRITE has no completion at its target, which must wait for the bytes.
  void wait_for_last_byte(const Buffer& memory) const {
    if (length == 0) return;
    const volatile std::uint8_t* last = &memory.bytes[headroom() + length - 1];
    while (*last != byte_at(length - 1)) ibv_poll_cq(session.device.cq, 0, nullptr);
  }
  static std::uint64_t first_word(const Buffer& memory) {
    std::uint64_t word = 0;
    std::memcpy(&word, memory.bytes.data(), sizeof word);
    return word;
  }
};

std::vector<std::size_t> lengths(const Operation& operation, ibv_qp_type type, std::size_t mtu) {
  if (is_atomic(operation.opcode)) return {8};
  if (type == IBV_QPT_UD) return {0, 1, 64, mtu - 1, mtu};
  std::vector<std::size_t> all = {0, 1, 64, mtu - 1, mtu, mtu + 1, 2 * mtu + 2, 5 * mtu, 65536};
  if (type == IBV_QPT_RC) all.insert(all.end(), {(1 << 20) - 3, kBytesMax});
  return all;
}

/// RFC 5040, and 7306, which siw does not support.
bool goes_over_stream(const Session& session, ibv_wr_opcode opcode) {
  if (opcode == IBV_WR_SEND_WITH_IMM) return false;
  const bool is_old =
      opcode == IBV_WR_SEND || opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_READ;
  return is_old || !session.is_between(Stack::siw);
}

void run_service(const Session& session, ibv_qp_type type, ibv_mtu mtu) {
  const Pair pair(session, type, mtu);
  const std::size_t mtu_bytes = std::size_t{128} << mtu;
  for (const auto& operation : endpoint::kOperations) {
    if (!is_served(operation, type)) continue;
    if (session.is_stream() && !goes_over_stream(session, operation.opcode)) continue;
    for (const std::size_t length : lengths(operation, type, mtu_bytes)) {
      const Message message{session, pair, operation, length};
      session.each_way([&] { message.request(); }, [&] { message.respond(); });
    }
    session.report(name_of(type), mtu_bytes, operation.name);
  }
}

}  // namespace

void run_transfers(const Session& session) {
  if (session.is_stream()) return run_service(session, IBV_QPT_RC, session.mtu);
  for (int mtu = session.smallest_mtu; mtu <= session.mtu; ++mtu) {
    run_service(session, IBV_QPT_RC, static_cast<ibv_mtu>(mtu));
    run_service(session, IBV_QPT_UC, static_cast<ibv_mtu>(mtu));
  }
  run_service(session, IBV_QPT_UD, session.mtu);
}

}  // namespace peers
