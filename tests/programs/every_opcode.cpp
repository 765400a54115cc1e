// Sends each operation of each service (RC, UC, UD) between two queue pairs of one node, in
// messages of one packet and of several, and compares every byte that arrives. A capture of it has
// packets of every opcode.
#include <cstring>

#include <arpa/inet.h>

#include "tests/programs/endpoint.h"
#include "tests/programs/operations.h"

namespace {

using namespace endpoint;

constexpr std::uint32_t kImmediate = 0x01020304;
constexpr std::size_t kGrhBytes = 40;
constexpr std::uint64_t kReceiveId = 1;
constexpr std::uint64_t kSendId = 2;

/// Two connected queue pairs, and a buffer for each.
struct Pair {
  Device& device;
  ibv_qp* here;
  ibv_qp* there;
  Buffer local;
  Buffer remote;
  ibv_ah* handle = nullptr;  // UD only.

  Pair(Device& on, ibv_qp_type type, ibv_mtu mtu)
      : device(on),
        here(on.create_queue_pair(type, 16, 16)),
        there(on.create_queue_pair(type, 16, 16)),
        local(on, 65536),
        remote(on, 65536) {
    device.connect(here, there->qp_num, mtu);
    device.connect(there, here->qp_num, mtu);
    if (type == IBV_QPT_UD) {
      ibv_ah_attr path = device.path_to_self();
      handle = ibv_create_ah(device.pd, &path);
      check(handle != nullptr, "ibv_create_ah");
    }
  }

  void post(const Operation& operation, std::size_t length) {
    ibv_send_wr request{};
    request.wr_id = kSendId;
    request.opcode = operation.opcode;
    request.imm_data = htonl(kImmediate);
    if (handle != nullptr) {
      request.wr.ud = {handle, there->qp_num, kQKey};
    } else if (is_atomic(operation.opcode)) {
      request.wr.atomic = {remote.address(), 5, 7, remote.region->rkey};
    } else {
      request.wr.rdma = {remote.address(), remote.region->rkey};
    }
    endpoint::post_send(here, request, local.segment(length));
  }
};

void expect(bool good, const Operation& operation, std::size_t length, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s of %zu bytes: %s\n", operation.name, length, what);
  std::exit(1);
}

void check_receive(const ibv_wc& completion, const Operation& operation, std::size_t length,
                   std::size_t headroom) {
  expect(completion.byte_len == length + headroom, operation, length, "wrong length");
  const bool immediate = has_immediate(operation.opcode);
  expect(((completion.wc_flags & IBV_WC_WITH_IMM) != 0) == immediate, operation, length,
         "immediate data announced wrongly");
  if (immediate) {
    expect(ntohl(completion.imm_data) == kImmediate, operation, length, "wrong immediate data");
  }
}

void run_atomic(Pair& pair, const Operation& operation) {
  const std::uint64_t before = 5;  // The value that the comparison expects.
  std::memcpy(pair.remote.bytes.data(), &before, sizeof(before));
  pair.post(operation, sizeof(before));
  pair.device.completions(1);
  std::uint64_t returned = 0;
  std::uint64_t after = 0;
  std::memcpy(&returned, pair.local.bytes.data(), sizeof(returned));
  std::memcpy(&after, pair.remote.bytes.data(), sizeof(after));
  const std::uint64_t expected = operation.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? 7 : 10;
  expect(returned == before, operation, sizeof(before), "wrong value returned");
  expect(after == expected, operation, sizeof(before), "wrong value left");
}

void run_message(Pair& pair, const Operation& operation, std::size_t length) {
  const bool is_read = operation.opcode == IBV_WR_RDMA_READ;
  const std::size_t headroom = pair.handle != nullptr ? kGrhBytes : 0;
  auto& source = is_read ? pair.remote.bytes : pair.local.bytes;
  auto& target = is_read ? pair.local.bytes : pair.remote.bytes;
  for (std::size_t i = 0; i < source.size(); ++i) {
    source[i] = static_cast<std::uint8_t>(i * 7 + length);
  }
  std::fill(target.begin(), target.end(), std::uint8_t{0xee});
  if (operation.consumes_receive) {
    post_receive(pair.there, pair.remote.segment(length + headroom), kReceiveId);
  }
  pair.post(operation, length);
  for (const auto& completion : pair.device.completions(operation.consumes_receive ? 2 : 1)) {
    if (completion.wr_id == kReceiveId) check_receive(completion, operation, length, headroom);
  }
  // An unreliable WRITE has no completion at its target, which must wait for the bytes.
  const volatile std::uint8_t* last = length == 0 ? nullptr : &target[headroom + length - 1];
  while (last != nullptr && *last != source[length - 1]) ibv_poll_cq(pair.device.cq, 0, nullptr);
  expect(std::memcmp(target.data() + headroom, source.data(), length) == 0, operation, length,
         "content differs");
  expect(target[headroom + length] == 0xee, operation, length, "wrote beyond the message");
}

void run_service(Device& device, ibv_qp_type type, ibv_mtu mtu) {
  Pair pair(device, type, mtu);
  const std::size_t mtu_bytes = std::size_t{128} << mtu;
  for (const auto& operation : kOperations) {
    if (!is_served(operation, type)) continue;
    if (is_atomic(operation.opcode)) {
      run_atomic(pair, operation);
      continue;
    }
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, mtu_bytes - 1, mtu_bytes,
                                     mtu_bytes + 1, 2 * mtu_bytes + 2, 5 * mtu_bytes}) {
      if (type == IBV_QPT_UD && length > mtu_bytes) continue;
      run_message(pair, operation, length);
    }
  }
}

}  // namespace

int main() {
  Device device(64);
  for (const auto mtu : {IBV_MTU_256, IBV_MTU_1024, IBV_MTU_4096}) {
    run_service(device, IBV_QPT_RC, mtu);
    run_service(device, IBV_QPT_UC, mtu);
  }
  ibv_port_attr port{};
  check(ibv_query_port(device.context, 1, &port) == 0, "ibv_query_port");
  run_service(device, IBV_QPT_UD, port.active_mtu);
  std::puts("every operation of RC, UC and UD arrived as it was sent");
  return 0;
}
