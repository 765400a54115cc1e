// An initiator of SRP for tests: logs in by rdma_cm, writes and reads with each kind of
// descriptors, every byte compared, or says how it was refused.
//
//   srp_initiator ADDRESS:PORT INITIATOR TARGET [hold]
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include "base/net/address.h"
#include "sim/random.h"
#include "ulp/srp/wire/login.h"
#include "ulp/srp/wire/message.h"

namespace verbatim::ulp::srp {
namespace {

constexpr int kPatienceMs = 5000, kExitRefused = 3;
constexpr std::uint32_t kMessageBytes = 8260, kResponseBytes = 256, kResponses = 16;
constexpr std::uint32_t kDataBytes = 64 << 10, kTableAt = kDataBytes, kAllBytes = 2 * kDataBytes;

[[noreturn]] void give_up(const std::string& what) {
  fmt::print(stderr, "srp_initiator: {}\n", what);
  std::exit(1);
}
void check(bool worked, const char* what) {
  if (!worked) give_up(fmt::format("{}: {}", what, std::strerror(errno)));
}

enum class How { direct, indirect, table, immediate };

class Initiator {
 public:
  void connect(const SocketAddress& to, const PortId& own, const PortId& target);
  /// One command at a time. Returns what was answered.
  Response ask(bool writes, How how, std::uint32_t block, std::uint16_t blocks);
  Response inquire();
  MutableByteSpan data() { return std::span(data_).first(kDataBytes); }

 private:
  rdma_cm_event* take_event();
  void expect_event(rdma_cm_event_type wanted);
  void make_queue_pair();
  void post_receive(std::uint32_t number);
  void send(std::size_t bytes);
  RemoteRange range(std::uint32_t at, std::uint32_t bytes) const {
    return {reinterpret_cast<std::uintptr_t>(data_.data()) + at, bytes,
            MemoryKey{data_region_->rkey}};
  }
  static void put(const RemoteRange& range, std::byte* at);
  std::size_t describe(bool writes, How how, std::uint32_t bytes);
  Response next();

  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* id_ = nullptr;
  ibv_cq* completions_ = nullptr;
  std::vector<std::byte> data_ = std::vector<std::byte>(kAllBytes),
                         message_ = std::vector<std::byte>(kMessageBytes),
                         responses_ = std::vector<std::byte>(kResponses * kResponseBytes);
  ibv_mr *data_region_ = nullptr, *message_region_ = nullptr, *response_region_ = nullptr;
  std::int32_t credits_ = 0;
  std::uint64_t tag_ = 0;
};

rdma_cm_event* Initiator::take_event() {
  rdma_cm_event* event = nullptr;
  check(rdma_get_cm_event(channel_, &event) == 0, "rdma_get_cm_event");
  return event;
}

void Initiator::expect_event(rdma_cm_event_type wanted) {
  rdma_cm_event* const event = take_event();
  if (event->event != wanted)
    give_up(fmt::format("{} instead of {}", rdma_event_str(event->event), rdma_event_str(wanted)));
  rdma_ack_cm_event(event);
}

void Initiator::make_queue_pair() {
  completions_ = ibv_create_cq(id_->verbs, 64, nullptr, nullptr, 0);
  check(completions_ != nullptr, "ibv_create_cq");
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = completions_;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap = {.max_send_wr = 16,
                    .max_recv_wr = kResponses,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
  check(rdma_create_qp(id_, nullptr, &attributes) == 0, "rdma_create_qp");
  const auto add = [this](std::vector<std::byte>& memory, int rights) {
    ibv_mr* const region = ibv_reg_mr(id_->pd, memory.data(), memory.size(), rights);
    check(region != nullptr, "ibv_reg_mr");
    return region;
  };
  data_region_ =
      add(data_, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
  message_region_ = add(message_, 0);
  response_region_ = add(responses_, IBV_ACCESS_LOCAL_WRITE);
  for (std::uint32_t i = 0; i < kResponses; ++i) post_receive(i);
}

void Initiator::post_receive(std::uint32_t number) {
  ibv_sge slice{reinterpret_cast<std::uintptr_t>(&responses_[number * kResponseBytes]),
                kResponseBytes, response_region_->lkey};
  ibv_recv_wr request{};
  request.wr_id = number;
  request.sg_list = &slice;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  check(ibv_post_recv(id_->qp, &request, &bad) == 0, "ibv_post_recv");
}

void Initiator::connect(const SocketAddress& to, const PortId& own, const PortId& target) {
  channel_ = rdma_create_event_channel();
  check(channel_ != nullptr, "rdma_create_event_channel");
  check(rdma_create_id(channel_, &id_, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  auto* const address = const_cast<sockaddr*>(to.data());
  check(rdma_resolve_addr(id_, nullptr, address, kPatienceMs) == 0, "rdma_resolve_addr");
  expect_event(RDMA_CM_EVENT_ADDR_RESOLVED);
  check(rdma_resolve_route(id_, kPatienceMs) == 0, "rdma_resolve_route");
  expect_event(RDMA_CM_EVENT_ROUTE_RESOLVED);
  make_queue_pair();
  const auto login = encode(LoginRequest{.request_bytes = kMessageBytes,
                                         .flags = kImmediateData,
                                         .immediate_offset = 68,
                                         .initiator = own,
                                         .target = target},
                            LoginForm::rdma_cm);
  rdma_conn_param parameters{};
  parameters.private_data = login.data();
  parameters.private_data_len = 56;
  parameters.responder_resources = 4;
  parameters.retry_count = parameters.rnr_retry_count = 7;
  check(rdma_connect(id_, &parameters) == 0, "rdma_connect");
  rdma_cm_event* const event = take_event();
  const auto& found = event->param.conn;
  const ByteSpan data(static_cast<const std::byte*>(found.private_data),
                      found.private_data == nullptr ? 0u : found.private_data_len);
  const auto response = decode_login_response(data);
  if (event->event != RDMA_CM_EVENT_ESTABLISHED || !response) {
    const auto reject = decode_login_reject(data);
    fmt::print("refused: {}, reason {:#x}\n", rdma_event_str(event->event),
               reject ? raw(reject->reason) : 0);
    std::exit(kExitRefused);
  }
  credits_ = response->request_limit;
  fmt::print("logged in: {} requests, flags {:#x}\n", credits_, response->flags);
  rdma_ack_cm_event(event);
}

void Initiator::send(std::size_t bytes) {
  ibv_sge slice{reinterpret_cast<std::uintptr_t>(message_.data()),
                static_cast<std::uint32_t>(bytes), message_region_->lkey};
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr_id = kResponses;
  request.sg_list = &slice;
  request.num_sge = 1;
  ibv_send_wr* bad = nullptr;
  check(ibv_post_send(id_->qp, &request, &bad) == 0, "ibv_post_send");
  --credits_;
}

Response Initiator::next() {
  for (;;) {
    ibv_wc done{};
    const int count = ibv_poll_cq(completions_, 1, &done);
    check(count >= 0, "ibv_poll_cq");
    if (count == 0) continue;
    if (done.status != IBV_WC_SUCCESS) give_up(ibv_wc_status_str(done.status));
    if (done.wr_id == kResponses) continue;
    const auto response =
        decode_response(std::span(responses_).subspan(done.wr_id * kResponseBytes, done.byte_len));
    if (!response || response->tag != tag_) give_up("what came is not the response");
    credits_ += response->request_limit;
    post_receive(static_cast<std::uint32_t>(done.wr_id));
    return *response;
  }
}

void Initiator::put(const RemoteRange& range, std::byte* at) {
  store_be(at, range.address);
  store_be(at + 8, raw(range.remote_key));
  store_be(at + 12, range.bytes);
}

/// Returns the length of the message.
std::size_t Initiator::describe(bool writes, How how, std::uint32_t bytes) {
  const auto set_format = [&](Format format, std::uint8_t count) {
    message_[5] = std::byte{static_cast<std::uint8_t>(raw(format) << (writes ? 4 : 0))};
    message_[writes ? 6 : 7] = std::byte{count};
  };
  std::byte* const at = &message_[Command::kSize];
  // Three ranges, none of which ends with a block.
  const RemoteRange ranges[] = {range(0, 100), range(100, 200), range(300, bytes - 300)};
  switch (how) {
    case How::direct:
      set_format(Format::direct, 0);
      put(range(0, bytes), at);
      return Command::kSize + 16;
    case How::immediate:
      set_format(Format::immediate, 0);
      store_be(at, bytes);
      std::memcpy(&message_[68], data_.data(), bytes);
      return 68 + bytes;
    case How::indirect:
    case How::table:
      break;
  }
  const std::uint8_t count = how == How::indirect ? 3 : 1;
  set_format(Format::indirect, count);
  put(range(kTableAt, 48), at);
  store_be(at + 16, bytes);
  for (std::size_t i = 0; i < 3; ++i) {
    put(ranges[i], &data_[kTableAt + 16 * i]);
    if (i < count) put(ranges[i], at + 20 + 16 * i);
  }
  return Command::kSize + 20 + 16u * count;
}

Response Initiator::ask(bool writes, How how, std::uint32_t block, std::uint16_t blocks) {
  std::memset(message_.data(), 0, Command::kSize);
  message_[0] = std::byte{raw(Opcode::command)};
  store_be(&message_[kTagAt], ++tag_);
  message_[32] = std::byte{writes ? std::uint8_t{0x2a} : std::uint8_t{0x28}};
  store_be(&message_[34], block);
  store_be(&message_[39], blocks);
  send(describe(writes, how, blocks * 512u));
  return next();
}

Response Initiator::inquire() {
  std::memset(message_.data(), 0, Command::kSize);
  message_[0] = std::byte{raw(Opcode::command)};
  store_be(&message_[kTagAt], ++tag_);
  message_[32] = std::byte{0x12};
  message_[36] = std::byte{36};
  send(describe(false, How::direct, 36));
  return next();
}

void compare(Initiator& initiator) {
  if (initiator.inquire().status != 0) give_up("INQUIRY was refused");
  fmt::print("{}\n", std::string(reinterpret_cast<const char*>(&initiator.data()[8]), 16));
  sim::Random random(1);
  const How kinds[] = {How::direct, How::indirect, How::table, How::immediate};
  for (int i = 0; i < 400; ++i) {
    const How how = kinds[i % 4];
    const auto blocks =
        static_cast<std::uint16_t>(1 + random.below(how == How::immediate ? 16 : 128));
    const auto block = static_cast<std::uint32_t>(random.below(1000));
    std::vector<std::byte> sent(blocks * 512u);
    for (std::byte& byte : sent) byte = static_cast<std::byte>(random.below(256));
    std::ranges::copy(sent, initiator.data().begin());
    if (initiator.ask(true, how, block, blocks).status != 0) give_up("a write was refused");
    std::ranges::fill(initiator.data(), std::byte{});
    const How back = how == How::immediate ? How::direct : how;
    const Response read = initiator.ask(false, back, block, blocks);
    if (read.status != 0 || read.in_residual != 0) give_up("a read was refused");
    if (!std::ranges::equal(initiator.data().first(sent.size()), sent))
      give_up(fmt::format("block {} has other bytes than were written", block));
  }
  fmt::print("compared\n");
}

}  // namespace
}  // namespace verbatim::ulp::srp

int main(int argc, char** argv) {
  using namespace verbatim;
  if (argc < 4) ulp::srp::give_up("srp_initiator ADDRESS:PORT INITIATOR TARGET [hold]");
  const std::string place = argv[1];
  const auto colon = place.rfind(':');
  const auto to = SocketAddress::parse(
      place.substr(0, colon), static_cast<std::uint16_t>(std::stoi(place.substr(colon + 1))));
  const auto own = ulp::srp::parse_port_id(argv[2]), target = ulp::srp::parse_port_id(argv[3]);
  if (!to || !own || !target) ulp::srp::give_up("no such address or port");
  ulp::srp::Initiator initiator;
  initiator.connect(*to, *own, *target);
  std::fflush(stdout);
  ulp::srp::compare(initiator);
  std::fflush(stdout);
  if (argc > 4) pause();
  return 0;
}
