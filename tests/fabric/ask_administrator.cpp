#include <algorithm>
#include <cstring>
#include <string>

#include <endian.h>
#include <poll.h>

#include "tests/programs/endpoint.h"

/// ask_administrator METHOD Q_KEY: asks the subnet administrator for the paths from this port by a
/// queue pair of its own, which talks to queue pair 1 of the manager's LID; srp_daemon, Open MPI
/// and MVAPICH do so. METHOD is get or get-table. Prints the status, and the destination LID of the
/// first path; or "no answer" after two seconds.
namespace {

using namespace endpoint;

constexpr std::size_t kGrhBytes = 40;
constexpr std::size_t kMadBytes = 256;
constexpr std::uint32_t kWellKnownQKey = 0x80010000;
constexpr std::uint64_t kSourceGid = 1 << 3;
constexpr std::uint64_t kDestinationGid = 1 << 2;
constexpr std::uint64_t kPathCount = 1 << 12;
constexpr std::size_t kRecordAt = 56;

template <typename T>
void put(std::vector<std::uint8_t>& bytes, std::size_t at, T value) {
  std::memcpy(&bytes[at], &value, sizeof value);
}

void write_question(std::vector<std::uint8_t>& bytes, bool is_table, const ibv_gid& own) {
  bytes = {1, 3, 2, static_cast<std::uint8_t>(is_table ? 0x12 : 0x01)};
  bytes.resize(kMadBytes);
  put(bytes, 8, htobe64(0x1234'5678'9abc'def0));
  put(bytes, 16, htobe16(0x0035));  // PathRecord.
  put(bytes, 48, htobe64(is_table ? kSourceGid : kSourceGid | kDestinationGid | kPathCount));
  std::memcpy(&bytes[kRecordAt + 8], &own, sizeof own);
  std::memcpy(&bytes[kRecordAt + 24], &own, sizeof own);
  bytes[kRecordAt + 49] = 1;
}

ibv_qp* make_queue_pair(const Device& device, std::uint32_t qkey) {
  ibv_qp* qp = device.create_queue_pair(IBV_QPT_UD, 4, 4);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  attributes.qkey = qkey;
  check(ibv_modify_qp(qp, &attributes,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0,
        "INIT");
  Device::connect_along({}, qp, 0, IBV_MTU_1024, {});
  return qp;
}

/// Whether the datagram that was posted for has come, or comes within two seconds.
bool await(ibv_comp_channel* channel, ibv_cq* cq) {
  for (;;) {
    check(ibv_req_notify_cq(cq, 0) == 0, "ibv_req_notify_cq");
    ibv_wc completion{};
    while (ibv_poll_cq(cq, 1, &completion) == 1) {
      if (completion.opcode != IBV_WC_RECV) continue;
      check(completion.status == IBV_WC_SUCCESS && completion.src_qp == 1, "the answer");
      return true;
    }
    pollfd events{.fd = channel->fd, .events = POLLIN, .revents = 0};
    if (poll(&events, 1, 2'000) == 0) return false;
    ibv_cq* source = nullptr;
    void* context = nullptr;
    check(ibv_get_cq_event(channel, &source, &context) == 0, "ibv_get_cq_event");
    ibv_ack_cq_events(source, 1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  check(argc == 3, "ask_administrator METHOD Q_KEY");
  const bool is_table = std::string(argv[1]) == "get-table";
  Device device(16);
  ibv_comp_channel* channel = ibv_create_comp_channel(device.context);
  check(channel != nullptr, "ibv_create_comp_channel");
  device.cq = ibv_create_cq(device.context, 16, nullptr, channel, 0);
  check(device.cq != nullptr, "ibv_create_cq");
  ibv_qp* qp = make_queue_pair(device, static_cast<std::uint32_t>(std::stoul(argv[2], nullptr, 0)));
  Buffer question(device, kMadBytes);
  std::vector<std::uint8_t> bytes;
  write_question(bytes, is_table, device.gid);
  std::ranges::copy(bytes, question.bytes.begin());
  Buffer answer(device, kGrhBytes + kMadBytes);
  post_receive(qp, answer.segment(answer.bytes.size()), 1);

  const ibv_port_attr port = Device::first_port(device.context);
  ibv_ah_attr path{.dlid = port.sm_lid, .sl = port.sm_sl, .port_num = 1};
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  request.wr.ud = {
      .ah = ibv_create_ah(device.pd, &path), .remote_qpn = 1, .remote_qkey = kWellKnownQKey};
  check(request.wr.ud.ah != nullptr, "ibv_create_ah");
  post_send(qp, request, question.segment(kMadBytes));
  if (!await(channel, device.cq)) {
    std::puts("no answer");
    return 0;
  }
  const std::uint8_t* mad = &answer.bytes[kGrhBytes];
  check(std::memcmp(mad + 8, &bytes[8], 8) == 0, "the transaction");
  std::printf("status %u, a path to LID %u\n", mad[4] << 8 | mad[5],
              mad[kRecordAt + 40] << 8 | mad[kRecordAt + 41]);
  return 0;
}
