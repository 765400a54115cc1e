#include "test_util.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbs_test {
namespace {

using Clock = std::chrono::steady_clock;

ibv_context* open_first_device() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  EXPECT_EQ(count, 1);
  ibv_context* context = count > 0 ? ibv_open_device(list[0]) : nullptr;
  EXPECT_NE(context, nullptr) << std::strerror(errno);
  ibv_free_device_list(list);
  if (context == nullptr) std::abort();  // No test can run without it.
  return context;
}

/// Returns a loopback address that no other process uses, so that tests can run in parallel.
std::string loopback_address(pid_t process, unsigned node) {
  const auto id = static_cast<unsigned>(process);
  return "127." + std::to_string(64 + (id >> 14 & 63)) + "." + std::to_string(id >> 6 & 255) + "." +
         std::to_string(((id & 63) << 2) + node);
}

void set_node(const char* name, const std::string& address) {
  setenv("VERBATIM_NODE", name, 1);
  setenv("VERBATIM_ADDRESS", address.c_str(), 1);
}

std::string runtime_folder;

void remove_runtime_folder() {
  std::error_code ignored;
  std::filesystem::remove_all(runtime_folder, ignored);
}

}  // namespace

void enter_own_node() {
  char folder[] = "/tmp/verbatim-verbs-test-XXXXXX";
  if (mkdtemp(folder) == nullptr) std::abort();
  runtime_folder = folder;
  setenv("XDG_RUNTIME_DIR", folder, 1);
  setenv("VERBATIM_CONFIG", folder, 1);  // No configuration file of this machine.
  set_node("alpha", loopback_address(getpid(), 1));
  std::atexit(remove_runtime_folder);
}

OpenDevice::OpenDevice() : context_(open_first_device()), pd_(ibv_alloc_pd(context_.get())) {
  EXPECT_NE(pd_, nullptr);
}

ibv_gid OpenDevice::gid(int index) const {
  ibv_gid gid{};
  EXPECT_EQ(ibv_query_gid(context(), 1, index, &gid), 0);
  return gid;
}

ibv_mtu OpenDevice::active_mtu() const {
  ibv_port_attr attributes{};
  EXPECT_EQ(ibv_query_port(context(), 1, &attributes), 0);
  return attributes.active_mtu;
}

std::optional<ibv_async_event> OpenDevice::wait_for_event() const {
  pollfd descriptor{.fd = context()->async_fd, .events = POLLIN, .revents = 0};
  if (::poll(&descriptor, 1, 5'000) != 1) {
    ADD_FAILURE() << "no asynchronous event came";
    return std::nullopt;
  }
  ibv_async_event event{};
  EXPECT_EQ(ibv_get_async_event(context(), &event), 0);
  ibv_ack_async_event(&event);
  return event;
}

void Endpoint::Unmap::operator()(std::byte* memory) const { munmap(memory, length); }

Endpoint::Endpoint(const OpenDevice& host, const EndpointOptions& options)
    : host_(host),
      options_(options),
      mapping_(static_cast<std::byte*>(mmap(nullptr, options.memory_bytes, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
               Unmap{options.memory_bytes}),
      memory_(mapping_.get()),
      cq_(ibv_create_cq(host.context(), options.completions, nullptr, options.channel, 0)),
      mr_(ibv_reg_mr(host.pd(), memory_, options.memory_bytes, options.memory_access)) {
  EXPECT_NE(cq_, nullptr);
  EXPECT_NE(mr_, nullptr);
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = wanted.recv_cq = cq();
  wanted.qp_type = options.type;
  wanted.sq_sig_all = options.signal_all;
  wanted.srq = options.srq;
  wanted.cap = {.max_send_wr = options.sends,
                .max_recv_wr = options.receives,
                .max_send_sge = options.segments,
                .max_recv_sge = options.segments,
                .max_inline_data = options.inline_bytes};
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
  wanted.pd = options.pd != nullptr ? options.pd : host.pd();
  if (options.send_operations != 0) {
    wanted.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    wanted.send_ops_flags = options.send_operations;
  }
  if (options.create_flags != 0) {
    wanted.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
    wanted.create_flags = options.create_flags;
  }
  // The extended structure begins with the plain one.
  qp_.reset(wanted.comp_mask != IBV_QP_INIT_ATTR_PD
                ? ibv_create_qp_ex(host.context(), &wanted)
                : ibv_create_qp(wanted.pd, reinterpret_cast<ibv_qp_init_attr*>(&wanted)));
  EXPECT_NE(qp_, nullptr) << std::strerror(errno);
}

Address Endpoint::address() const {
  return {
      .qpn = qp_->qp_num, .rkey = mr_->rkey, .memory = at(0), .gids = {host_.gid(0), host_.gid(1)}};
}

ibv_qp_state Endpoint::state() const {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  EXPECT_EQ(ibv_query_qp(qp(), &attributes, IBV_QP_STATE, &initial), 0);
  return attributes.qp_state;
}

int Endpoint::modify_state(ibv_qp_state state) const {
  ibv_qp_attr attributes{};
  attributes.qp_state = state;
  return ibv_modify_qp(qp(), &attributes, IBV_QP_STATE);
}

void Endpoint::to_init() const {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  attributes.qp_access_flags = static_cast<unsigned>(options_.queue_pair_access);
  attributes.qkey = kQKey;
  int mask = IBV_QP_STATE | IBV_QP_PORT;
  if (options_.type != IBV_QPT_RAW_PACKET) {
    mask |= IBV_QP_PKEY_INDEX;
    mask |= options_.type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  }
  ASSERT_EQ(ibv_modify_qp(qp(), &attributes, mask), 0);
}

void Endpoint::to_rtr(const Address& peer, const ConnectOptions& options) const {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = options.mtu;
  attributes.dest_qp_num = peer.qpn;
  attributes.rq_psn = options.psn;
  attributes.max_dest_rd_atomic = options.rd_atomic;
  attributes.min_rnr_timer = options.min_rnr_timer;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = 1;
  attributes.ah_attr.grh.dgid = peer.gids[options.gid_index];
  attributes.ah_attr.grh.sgid_index = options.gid_index;
  attributes.ah_attr.grh.hop_limit = 64;
  int mask = IBV_QP_STATE;
  if (options_.type != IBV_QPT_UD && options_.type != IBV_QPT_RAW_PACKET) {
    mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  }
  if (options_.type == IBV_QPT_RC) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  ASSERT_EQ(ibv_modify_qp(qp(), &attributes, mask), 0);
}

void Endpoint::to_rts(const ConnectOptions& options) const {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = options.psn;
  attributes.timeout = options.timeout;
  attributes.retry_cnt = options.retry_count;
  attributes.rnr_retry = options.rnr_retry;
  attributes.max_rd_atomic = options.rd_atomic;
  int mask = IBV_QP_STATE;
  if (options_.type != IBV_QPT_RAW_PACKET) mask |= IBV_QP_SQ_PSN;
  if (options_.type == IBV_QPT_RC) {
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  ASSERT_EQ(ibv_modify_qp(qp(), &attributes, mask), 0);
}

void Endpoint::connect(const Address& peer, const ConnectOptions& options) const {
  to_init();
  to_rtr(peer, options);
  to_rts(options);
}

int Endpoint::receive(std::uint64_t wr_id, std::vector<ibv_sge> segments) const {
  ibv_recv_wr request{.wr_id = wr_id,
                      .next = nullptr,
                      .sg_list = segments.data(),
                      .num_sge = static_cast<int>(segments.size())};
  ibv_recv_wr* bad = nullptr;
  const int result = ibv_post_recv(qp(), &request, &bad);
  EXPECT_EQ(bad, result == 0 ? nullptr : &request);
  return result;
}

int Endpoint::receive(std::uint64_t wr_id, std::size_t offset, std::uint32_t length) const {
  return receive(wr_id, {segment(offset, length)});
}

int Endpoint::post(ibv_send_wr request, std::vector<ibv_sge> segments) const {
  request.sg_list = segments.data();
  request.num_sge = static_cast<int>(segments.size());
  ibv_send_wr* bad = nullptr;
  const int result = ibv_post_send(qp(), &request, &bad);
  EXPECT_EQ(bad, result == 0 ? nullptr : &request);
  return result;
}

int Endpoint::post(ibv_wr_opcode opcode, std::uint64_t wr_id, std::size_t offset,
                   std::uint32_t length, const std::function<void(ibv_send_wr&)>& change) const {
  ibv_send_wr request{};
  request.wr_id = wr_id;
  request.opcode = opcode;
  request.send_flags = IBV_SEND_SIGNALED;
  if (change) change(request);
  return post(request, {segment(offset, length)});
}

std::optional<ibv_wc> Endpoint::poll(int turns) const {
  ibv_wc completion{};
  for (int turn = 0; turn < turns; ++turn) {
    const int count = ibv_poll_cq(cq(), 1, &completion);
    EXPECT_GE(count, 0);
    if (count == 1) return completion;
  }
  return std::nullopt;
}

ibv_wc Endpoint::wait(std::chrono::milliseconds limit) const {
  const auto end = Clock::now() + limit;
  do {
    if (const auto completion = poll(100)) return *completion;
  } while (Clock::now() < end);
  ADD_FAILURE() << "no completion came";
  ibv_wc none{};
  none.status = IBV_WC_GENERAL_ERR;
  return none;
}

Pair::Pair(const EndpointOptions& endpoint, const ConnectOptions& connection)
    : Pair(endpoint, endpoint, connection) {}

Pair::Pair(const EndpointOptions& a_options, const EndpointOptions& b_options,
           const ConnectOptions& connection)
    : a(host, a_options), b(host, b_options) {
  a.connect(b.address(), connection);
  b.connect(a.address(), connection);
}

std::function<void(ibv_send_wr&)> to(const Address& peer, std::size_t offset) {
  return [peer, offset](ibv_send_wr& request) {
    if (request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
        request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      request.wr.atomic.remote_addr = peer.memory + offset;
      request.wr.atomic.rkey = peer.rkey;
    } else {
      request.wr.rdma.remote_addr = peer.memory + offset;
      request.wr.rdma.rkey = peer.rkey;
    }
  };
}

std::function<void(ibv_send_wr&)> to(const Endpoint& peer, std::size_t offset) {
  return to(peer.address(), offset);
}

namespace {
std::byte pattern(std::size_t at, unsigned seed) {
  return static_cast<std::byte>((at * 131 + at / 251 + seed * 17 + 1) & 0xff);
}
}  // namespace

void fill(std::span<std::byte> memory, unsigned seed) {
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = pattern(i, seed);
}

std::optional<std::size_t> difference(std::span<const std::byte> memory, unsigned seed) {
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (memory[i] != pattern(i, seed)) return i;
  }
  return std::nullopt;
}

void Pipe::write_all(const void* data, std::size_t size) const {
  ASSERT_EQ(::send(fd_, data, size, MSG_NOSIGNAL), static_cast<ssize_t>(size));
}

void Pipe::read_all(void* data, std::size_t size) const {
  ASSERT_EQ(::recv(fd_, data, size, MSG_WAITALL), static_cast<ssize_t>(size));
}

OtherNode::OtherNode(const std::function<void(const Pipe&)>& body) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ == 0) {
    close(ends[0]);
    set_node("beta", loopback_address(parent, 2));
    body(Pipe(ends[1]));
    std::fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  close(ends[1]);
  fd_ = ends[0];
  pipe_ = Pipe(fd_);
}

OtherNode::~OtherNode() {
  close(fd_);
  int status = 0;
  if (process_ < 0 || waitpid(process_, &status, 0) != process_) return;
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the other node failed: " << status;
}

void OtherNode::kill() {
  ::kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
  process_ = -1;
}

}  // namespace verbs_test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!testing::GTEST_FLAG(list_tests)) verbs_test::enter_own_node();
  return RUN_ALL_TESTS();
}
