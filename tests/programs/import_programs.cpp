#include <cstring>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "endpoint.h"
#include "other_program.h"

/// Objects that another process imports: it sends from the exporter's memory, lets a third process
/// write, read and add to it with the exporter's keys, and loses access when the exporter
/// deregisters it or has ended.
namespace programs {
namespace {

constexpr std::size_t kBytes = 1 << 20;
constexpr std::size_t kDeviceBytes = 4096;

std::uint8_t byte_at(std::size_t place) {
  return static_cast<std::uint8_t>(place * 11 + place / 256);
}

/// The exporter: announces its objects, then executes requests, and checks its own memory.
enum Ask : std::uint64_t { check_written, deregister, free_device_memory };
void be_exporter(const Child& parent) {
  const Device device(4);
  Buffer buffer(device, kBytes);
  for (std::size_t i = 0; i < kBytes / 2; ++i) buffer.bytes[i] = byte_at(i);
  ibv_alloc_dm_attr wanted{};
  wanted.length = kDeviceBytes;
  ibv_dm* const dm = ibv_alloc_dm(device.context, &wanted);
  check(dm != nullptr, "ibv_alloc_dm");
  parent.send_value({static_cast<std::uint64_t>(device.context->cmd_fd), device.pd->handle,
                     buffer.region->handle});
  parent.send_value({dm->handle, buffer.address(), buffer.region->rkey});
  while (parent.has_more()) {
    switch (static_cast<Ask>(parent.receive_value().a)) {
      case check_written: {
        for (std::size_t i = 0; i < kBytes / 4; ++i) {
          check(buffer.bytes[kBytes / 2 + i] == byte_at(i), "what was written by an imported key");
        }
        std::uint64_t word = 0;
        std::memcpy(&word, buffer.bytes.data() + kBytes - 8, sizeof word);
        std::uint64_t there = 0;
        check(ibv_memcpy_from_dm(&there, dm, 64, sizeof there) == 0, "ibv_memcpy_from_dm");
        parent.send_value({word, there});
        break;
      }
      case deregister:
        check(ibv_dereg_mr(buffer.region) == 0, "ibv_dereg_mr");
        parent.send_value({});
        break;
      case free_device_memory:
        check(ibv_free_dm(dm) == 0, "ibv_free_dm");
        parent.send_value({});
        break;
    }
  }
}

/// A peer without imports, which uses the keys like any other.
void be_peer(const Child& parent) {
  const Device device(16);
  Buffer buffer(device, kBytes);
  ibv_qp* const qp = device.create_queue_pair(IBV_QPT_RC, 8, 8);
  device.initialise(qp);
  endpoint::post_receive(qp, buffer.segment(kBytes), 1);
  parent.send_value({qp->qp_num});
  device.connect_initialised(qp, static_cast<std::uint32_t>(parent.receive_value().a),
                             IBV_MTU_4096);
  parent.send_value({});
  const Message exported = parent.receive_value();  // Address and key.
  // The message that the importer has sent from the exporter's memory.
  const ibv_wc received = device.completions(1).front();
  check(received.byte_len == kBytes / 2, "length of the SEND");
  for (std::size_t i = 0; i < kBytes / 2; ++i) check(buffer.bytes[i] == byte_at(i), "SEND");
  const auto ask = [&](ibv_wr_opcode opcode, std::size_t length, std::size_t offset) {
    ibv_sge segment = buffer.segment(length);
    ibv_send_wr request{};
    request.sg_list = &segment;
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      request.wr.atomic.remote_addr = exported.b + offset;
      request.wr.atomic.rkey = static_cast<std::uint32_t>(exported.c);
      request.wr.atomic.compare_add = 5;
    } else {
      request.wr.rdma.remote_addr = exported.b + offset;
      request.wr.rdma.rkey = static_cast<std::uint32_t>(exported.c);
    }
    ibv_send_wr* bad = nullptr;
    check(ibv_post_send(qp, &request, &bad) == 0, "ibv_post_send");
    ibv_wc completion{};
    while (ibv_poll_cq(device.cq, 1, &completion) == 0) {
    }
    return completion.status;
  };
  check(ask(IBV_WR_RDMA_WRITE, kBytes / 4, kBytes / 2) == IBV_WC_SUCCESS, "WRITE");
  std::memset(buffer.bytes.data(), 0, kBytes);
  check(ask(IBV_WR_RDMA_READ, kBytes / 4, kBytes / 2) == IBV_WC_SUCCESS, "READ");
  for (std::size_t i = 0; i < kBytes / 4; ++i) check(buffer.bytes[i] == byte_at(i), "READ");
  check(ask(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, kBytes - 8) == IBV_WC_SUCCESS, "FETCH_AND_ADD");
  parent.send_value({});
  parent.receive_value();  // The exporter has deregistered.
  check(ask(IBV_WR_RDMA_READ, 8, 0) == IBV_WC_REM_ACCESS_ERR, "a READ of what was taken back");
  parent.send_value({});
}

/// Returns the exporter's descriptor in this process.
int fetch_descriptor(pid_t process, int number) {
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(number);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  check(fd >= 0, path);
  return fd;
}

void send_from(const Device& device, ibv_qp* qp, ibv_sge segment) {
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  post_send(qp, request, segment);
  device.completions(1);
}

struct DeviceMemory {
  DeviceMemory(ibv_context* context, std::uint32_t handle) : dm(ibv_import_dm(context, handle)) {
    check(dm != nullptr, "ibv_import_dm");
  }
  int write(std::uint64_t value) const { return ibv_memcpy_to_dm(dm, 64, &value, sizeof value); }
  std::uint64_t read() const {
    std::uint64_t value = 0;
    check(ibv_memcpy_from_dm(&value, dm, 64, sizeof value) == 0, "ibv_memcpy_from_dm");
    return value;
  }
  ibv_dm* dm;
};

int run() {
  const Child exporter("the exporter", be_exporter);
  const Child peer("the peer", be_peer);
  const Message first = exporter.receive_value();
  const Message second = exporter.receive_value();
  Device device(16);
  ibv_context* const context =
      ibv_import_device(fetch_descriptor(exporter.process_id(), static_cast<int>(first.a)));
  check(context != nullptr, "ibv_import_device");
  check(ibv_import_pd(context, 12345) == nullptr && errno == ENOENT, "a domain that is not there");
  ibv_pd* const pd = ibv_import_pd(context, static_cast<std::uint32_t>(first.b));
  check(pd != nullptr, "ibv_import_pd");
  check(ibv_import_mr(pd, 1) == nullptr && errno == ENOENT, "a region that is not there");
  ibv_mr* const mr = ibv_import_mr(pd, static_cast<std::uint32_t>(first.c));
  check(mr != nullptr && mr->length == kBytes && mr->rkey == second.c, "ibv_import_mr");

  ibv_pd* const again = ibv_import_pd(context, static_cast<std::uint32_t>(first.b));
  ibv_mr* const twice = ibv_import_mr(again, static_cast<std::uint32_t>(first.c));
  check(twice != nullptr && twice->lkey == mr->lkey, "what is imported twice");
  ibv_unimport_mr(twice);
  ibv_unimport_pd(again);

  ibv_pd* const own_pd = std::exchange(device.pd, pd);
  ibv_qp* const qp = device.create_queue_pair(IBV_QPT_RC, 8, 8);
  peer.send_value({qp->qp_num});
  device.initialise(qp);
  device.connect_initialised(qp, static_cast<std::uint32_t>(peer.receive_value().a), IBV_MTU_4096);
  peer.receive_value();
  peer.send_value({0, second.b, second.c});
  send_from(device, qp, {second.b, kBytes / 2, mr->lkey});
  peer.receive_value();

  const DeviceMemory memory(context, static_cast<std::uint32_t>(second.a));
  check(memory.write(4711) == 0, "ibv_memcpy_to_dm");
  exporter.send_value({check_written});
  const Message seen = exporter.receive_value();
  check(seen.a == 5 && seen.b == 4711, "what the exporter has");
  check(memory.read() == 4711, "imported device memory");
  ibv_mr* const over = ibv_reg_dm_mr(own_pd, memory.dm, 0, kDeviceBytes,
                                     IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
  check(over != nullptr && ibv_dereg_mr(over) == 0, "a region over imported device memory");
  check(ibv_dereg_mr(mr) == EOPNOTSUPP && ibv_dealloc_pd(pd) == EOPNOTSUPP &&
            ibv_free_dm(memory.dm) == EOPNOTSUPP,
        "what is the exporter's to end");

  exporter.send_value({deregister});
  exporter.receive_value();
  exporter.send_value({free_device_memory});
  exporter.receive_value();
  check(memory.write(1) == EFAULT, "device memory that was freed");
  peer.send_value({});
  peer.receive_value();
  exporter.kill();
  check(memory.write(1) == EFAULT, "device memory of a process that was killed");
  ibv_unimport_dm(memory.dm);
  ibv_unimport_mr(mr);
  check(ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
  ibv_unimport_pd(pd);
  check(ibv_import_pd(context, static_cast<std::uint32_t>(first.b)) == nullptr,
        "a domain of a process that was killed");
  peer.end();
  std::puts("passed");
  return 0;
}

}  // namespace
}  // namespace programs

int main() { return programs::run(); }
