#include <cstring>
#include <string>

#include "tests/programs/endpoint.h"

/// without_grh TYPE SGID_INDEX: a path without `is_global`, whose `grh` is full of nonsense with
/// this index, leads to its LID all the same (ibv_create_ah(3)). TYPE is rc, uc, ud, received (the
/// path back to the sender of a datagram) or alternate (of path migration). The program sends to
/// itself.
namespace {

using namespace endpoint;

constexpr std::size_t kBytes = 64;
constexpr std::size_t kGrhBytes = 40;

struct Test {
  Device device{16};
  Buffer sent{device, kBytes};
  Buffer received{device, kGrhBytes + kBytes};
  ibv_ah_attr path{};

  explicit Test(std::uint8_t index) {
    std::memset(&path.grh, 0xff, sizeof path.grh);
    path.grh.sgid_index = index;
    path.dlid = device.lid;
    path.port_num = 1;
    for (std::size_t i = 0; i < kBytes; ++i) sent.bytes[i] = static_cast<std::uint8_t>(i + index);
  }

  /// Connects the queue pair to itself along the path.
  ibv_qp* connected(ibv_qp_type type) const {
    ibv_qp* qp = device.create_queue_pair(type, 4, 4);
    device.initialise(qp);
    Device::connect_along(path, qp, qp->qp_num, IBV_MTU_1024, {});
    return qp;
  }
  void exchange(ibv_qp* qp, const ibv_send_wr& request, std::size_t before) const {
    post_receive(qp, received.segment(received.bytes.size()), 1);
    post_send(qp, request, sent.segment(kBytes));
    device.completions(2);
    check(std::memcmp(&received.bytes[before], sent.bytes.data(), kBytes) == 0, "the data");
  }
  void exchange(ibv_qp* qp) const {
    ibv_send_wr request{};
    request.opcode = IBV_WR_SEND;
    exchange(qp, request, 0);
    ibv_qp_attr known{};
    ibv_qp_init_attr ignored{};
    check(ibv_query_qp(qp, &known, IBV_QP_AV, &ignored) == 0, "ibv_query_qp");
    check(known.ah_attr.is_global == 0 && known.ah_attr.dlid == device.lid, "the path");
  }
  void exchange_datagram(ibv_ah* handle) const {
    check(handle != nullptr, "ibv_create_ah");
    ibv_qp* qp = device.create_queue_pair(IBV_QPT_UD, 4, 4);
    device.connect(qp, 0, IBV_MTU_1024);
    ibv_send_wr request{};
    request.opcode = IBV_WR_SEND;
    request.wr.ud = {.ah = handle, .remote_qpn = qp->qp_num, .remote_qkey = kQKey};
    exchange(qp, request, kGrhBytes);
  }

  void run(const std::string& type) {
    if (type == "rc") return exchange(connected(IBV_QPT_RC));
    if (type == "uc") return exchange(connected(IBV_QPT_UC));
    if (type == "ud") return exchange_datagram(ibv_create_ah(device.pd, &path));
    if (type == "received") {
      ibv_wc completion{};
      completion.slid = device.lid;
      ibv_grh nonsense;
      std::memset(&nonsense, 0xff, sizeof nonsense);
      return exchange_datagram(ibv_create_ah_from_wc(device.pd, &completion, &nonsense, 1));
    }
    check(type == "alternate", "which TYPE?");
    ibv_qp* qp = connected(IBV_QPT_RC);
    ibv_qp_attr change{};
    change.alt_ah_attr = path;
    change.alt_port_num = 1;
    change.alt_timeout = 14;
    change.path_mig_state = IBV_MIG_REARM;
    check(ibv_modify_qp(qp, &change, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE) == 0,
          "IBV_MIG_REARM");
    exchange(qp);  // It is armed by packets, which the direct path does not have.
    ibv_qp_attr known{};
    ibv_qp_init_attr ignored{};
    check(ibv_query_qp(qp, &known, IBV_QP_PATH_MIG_STATE, &ignored) == 0, "ibv_query_qp");
    if (known.path_mig_state == IBV_MIG_ARMED) {
      change.path_mig_state = IBV_MIG_MIGRATED;
      check(ibv_modify_qp(qp, &change, IBV_QP_PATH_MIG_STATE) == 0, "IBV_MIG_MIGRATED");
    }
    exchange(qp);
  }
};

}  // namespace

int main(int argc, char** argv) {
  check(argc == 3, "without_grh TYPE SGID_INDEX");
  Test(static_cast<std::uint8_t>(std::stoi(argv[2]))).run(argv[1]);
  return 0;
}
