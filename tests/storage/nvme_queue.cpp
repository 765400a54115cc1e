#include "nvme_queue.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "base/net/address.h"
#include "base/time.h"

namespace verbatim::ulp::nvmeof {
namespace {

constexpr std::uint32_t kCapsuleBytes = 4160;
constexpr int kPatienceMs = 5000;
constexpr std::uint64_t kReceive = 1ull << 32;

void check(bool worked, const char* what) {
  if (!worked) give_up(fmt::format("{}: {}", what, std::strerror(errno)));
}

/// Waits for the next event, which must be `wanted`; returns it to be acknowledged.
rdma_cm_event* take_event(rdma_event_channel* channel) {
  rdma_cm_event* event = nullptr;
  check(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
  return event;
}

void expect_event(rdma_event_channel* channel, rdma_cm_event_type wanted) {
  rdma_cm_event* const event = take_event(channel);
  const auto found = event->event;
  const int status = event->status;
  rdma_ack_cm_event(event);
  if (found != wanted)
    give_up(
        fmt::format("{} instead of {}, {}", rdma_event_str(found), rdma_event_str(wanted), status));
}

}  // namespace

void give_up(const std::string& what) {
  fmt::print(stderr, "nvme_host: {}\n", what);
  std::exit(1);
}

HostQueue::HostQueue(std::uint32_t entries, std::uint32_t slot_bytes)
    : entries_(entries),
      slot_bytes_(slot_bytes),
      data_(std::size_t{entries} * slot_bytes),
      capsules_(std::size_t{entries} * kCapsuleBytes),
      responses_(std::size_t{entries} * Completion::kSize) {}

std::unique_ptr<HostQueue> HostQueue::connect(const Where& where, std::uint16_t queue,
                                              std::uint32_t entries, std::uint16_t controller,
                                              std::string& why) {
  std::unique_ptr<HostQueue> made(new HostQueue(entries, where.slot_bytes));
  if (!made->open(where, queue, why) || !made->say_connect(where, queue, controller, why))
    return nullptr;
  return made;
}

bool HostQueue::open(const Where& where, std::uint16_t queue, std::string& why) {
  channel_ = rdma_create_event_channel();
  check(channel_ != nullptr, "rdma_create_event_channel");
  check(rdma_create_id(channel_, &id_, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  auto to = SocketAddress::parse(where.address, where.port);
  if (!to) give_up(to.error().text);
  auto* const address = const_cast<sockaddr*>(to->data());
  check(rdma_resolve_addr(id_, nullptr, address, kPatienceMs) == 0, "rdma_resolve_addr");
  expect_event(channel_, RDMA_CM_EVENT_ADDR_RESOLVED);
  check(rdma_resolve_route(id_, kPatienceMs) == 0, "rdma_resolve_route");
  expect_event(channel_, RDMA_CM_EVENT_ROUTE_RESOLVED);
  make_queue_pair();
  const PrivateData request = encode(QueueRequest{
      .queue_id = queue, .receives = static_cast<std::uint16_t>(entries_), .commands = entries_});
  rdma_conn_param parameters{};
  parameters.private_data = request.begin();
  parameters.private_data_len = static_cast<std::uint8_t>(request.size());
  parameters.responder_resources = 16;
  parameters.retry_count = where.retries;
  parameters.rnr_retry_count = 7;
  check(rdma_connect(id_, &parameters) == 0, "rdma_connect");
  rdma_cm_event* const event = take_event(channel_);
  const bool is_there = event->event == RDMA_CM_EVENT_ESTABLISHED;
  if (!is_there) {
    const auto& found = event->param.conn;
    const ByteSpan data(static_cast<const std::byte*>(found.private_data),
                        found.private_data == nullptr ? 0u : found.private_data_len);
    why = fmt::format("{}, status {}, rejection {}", rdma_event_str(event->event), event->status,
                      raw(decode_queue_rejection(data)));
  }
  rdma_ack_cm_event(event);
  return is_there;
}

void HostQueue::make_queue_pair() {
  completions_ = ibv_create_cq(id_->verbs, static_cast<int>(4 * entries_), nullptr, nullptr, 0);
  check(completions_ != nullptr, "ibv_create_cq");
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = completions_;
  attributes.qp_type = IBV_QPT_RC;
  attributes.sq_sig_all = 1;
  attributes.cap = {.max_send_wr = 2 * entries_,
                    .max_recv_wr = entries_,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
  check(rdma_create_qp(id_, nullptr, &attributes) == 0, "rdma_create_qp");
  const auto add = [&](std::vector<std::byte>& memory, int rights) {
    ibv_mr* const region = ibv_reg_mr(id_->pd, memory.data(), memory.size(), rights);
    check(region != nullptr, "ibv_reg_mr");
    return region;
  };
  data_region_ =
      add(data_, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
  capsule_region_ = add(capsules_, 0);
  response_region_ = add(responses_, IBV_ACCESS_LOCAL_WRITE);
  for (std::uint32_t i = 0; i < entries_; ++i) post_receive(i);
}

HostQueue::~HostQueue() {
  if (id_ == nullptr) return;
  if (id_->qp != nullptr) {
    rdma_disconnect(id_);
    rdma_destroy_qp(id_);
  }
  for (ibv_mr* const region : {data_region_, capsule_region_, response_region_}) {
    if (region != nullptr) ibv_dereg_mr(region);
  }
  if (completions_ != nullptr) ibv_destroy_cq(completions_);
  rdma_destroy_id(id_);
  rdma_destroy_event_channel(channel_);
}

void HostQueue::post_receive(std::uint32_t number) {
  ibv_sge slice{reinterpret_cast<std::uintptr_t>(&responses_[number * Completion::kSize]),
                Completion::kSize, response_region_->lkey};
  ibv_recv_wr request{};
  request.wr_id = kReceive | number;
  request.sg_list = &slice;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  errno = ibv_post_recv(id_->qp, &request, &bad);
  check(errno == 0, "ibv_post_recv");
}

DataDescriptor HostQueue::describe(std::uint32_t slot, std::uint32_t bytes) {
  return {.kind = DataDescriptor::Kind::keyed,
          .address = reinterpret_cast<std::uintptr_t>(this->slot(slot).data()),
          .bytes = bytes,
          .key = MemoryKey{data_region_->rkey}};
}

void HostQueue::send(ByteSpan command, ByteSpan data) {
  std::byte* const capsule = &capsules_[std::size_t{next_capsule_} * kCapsuleBytes];
  next_capsule_ = (next_capsule_ + 1) % entries_;
  std::ranges::copy(command, capsule);
  std::ranges::copy(data, capsule + command.size());
  ibv_sge slice{reinterpret_cast<std::uintptr_t>(capsule),
                static_cast<std::uint32_t>(command.size() + data.size()), capsule_region_->lkey};
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  request.sg_list = &slice;
  request.num_sge = 1;
  ibv_send_wr* bad = nullptr;
  errno = ibv_post_send(id_->qp, &request, &bad);
  check(errno == 0, "ibv_post_send");
}

/// What was acknowledged and is not answered ends by the host's clock, as with Linux's: RC itself
/// does not notice that a peer is gone while nothing of ours is under way.
std::optional<Completion> HostQueue::next() {
  const TimeNs until = monotonic_now() + 20 * kSecond;
  while (monotonic_now() < until) {
    ibv_wc found{};
    const int count = ibv_poll_cq(completions_, 1, &found);
    check(count >= 0, "ibv_poll_cq");
    if (count == 0) continue;
    if (found.status != IBV_WC_SUCCESS) return std::nullopt;
    if ((found.wr_id & kReceive) == 0) continue;
    const auto number = static_cast<std::uint32_t>(found.wr_id);
    const auto bytes = std::span(responses_).subspan(number * Completion::kSize, Completion::kSize);
    const auto completion = decode_completion(bytes);
    post_receive(number);
    return *completion;
  }
  return std::nullopt;
}

Completion HostQueue::ask(AdminCommand command) {
  std::array<std::byte, AdminCommand::kSize> bytes;
  encode(command, bytes);
  send(bytes);
  const auto answer = next();
  if (!answer) give_up("the connection is over");
  return *answer;
}

bool HostQueue::say_connect(const Where& where, std::uint16_t queue, std::uint16_t controller,
                            std::string& why) {
  encode(ConnectData{.host_id = where.host_id,
                     .controller_id = controller,
                     .subsystem = where.subsystem,
                     .host = where.host},
         slot(0).first<ConnectData::kSize>());
  AdminCommand command{.data = describe(0, ConnectData::kSize)};
  put_connect({.queue_id = queue, .commands = entries_, .keep_alive_ms = 120'000}, command);
  const Completion answer = ask(command);
  controller_ = static_cast<std::uint16_t>(answer.result);
  if (answer.status != Status::success) why = fmt::format("status {:#x}", raw(answer.status));
  return answer.status == Status::success;
}

std::uint64_t HostQueue::get(Property property) {
  AdminCommand command;
  put_property(FabricsType::property_get, {property, property == Property::capabilities, 0},
               command);
  const Completion answer = ask(command);
  if (answer.status != Status::success) give_up(fmt::format("property {:#x}", raw(property)));
  return answer.result;
}

void HostQueue::set(Property property, std::uint64_t value) {
  AdminCommand command;
  put_property(FabricsType::property_set, {property, false, value}, command);
  if (ask(command).status != Status::success) give_up("CC cannot be set");
}

}  // namespace verbatim::ulp::nvmeof
