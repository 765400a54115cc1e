// Sets up one end of a stream: queue pair, buffers, and the exchange of buffer addresses.
#include "ulp/rsocket/endpoint.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <endian.h>
#include <fcntl.h>

namespace verbatim::rsocket {
namespace {

constexpr std::uint16_t kFewestRequests = 16;
/// Most streams of a busy server end before they need more.
constexpr std::uint16_t kFirstReceives = 64;
constexpr std::uint16_t kMostRequests = 0xfffe;
constexpr std::uint16_t kWordBytes = sizeof(std::uint32_t);
constexpr bool kWeAreBigEndian = std::endian::native == std::endian::big;

/// The adapter reads and writes all words of the buffers whole.
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

Target to_network(const Target& target) {
  return {htobe64(target.address), htobe32(target.key), htobe32(target.length)};
}
Target from_network(const Target& target) {
  return {be64toh(target.address), be32toh(target.key), be32toh(target.length)};
}

}  // namespace

Outcome<std::unique_ptr<Endpoint>> Endpoint::make(rdma_cm_id* id, const Sizes& sizes) {
  ibv_device_attr device{};
  if (ibv_query_device(id->verbs, &device) != 0) return fail(errno);
  const auto most = static_cast<std::uint16_t>(std::min<int>(device.max_qp_wr, int{kMostRequests}));
  const bool sends_words = id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
  const auto most_sends = static_cast<std::uint16_t>(sends_words ? most / 2 : most);
  Sizes fitting = sizes;
  fitting.send_requests = std::clamp(sizes.send_requests, kFewestRequests, most_sends);
  fitting.receive_requests = std::clamp(sizes.receive_requests, kFewestRequests, most);
  if (sends_words) fitting.inline_bytes = std::max(sizes.inline_bytes, kWordBytes);
  std::unique_ptr<Endpoint> endpoint(new Endpoint(id, fitting, sends_words));
  if (auto ok = endpoint->make_queues(); !ok) return fail(ok.error());
  if (auto ok = endpoint->make_buffers(); !ok) return fail(ok.error());
  if (auto ok = endpoint->post_receives(kFirstReceives); !ok) return fail(ok.error());
  return endpoint;
}

Outcome<void> Endpoint::make_queues() {
  channel_ = ibv_create_comp_channel(id_->verbs);
  if (channel_ == nullptr) return fail(errno);
  fcntl(channel_->fd, F_SETFL, O_NONBLOCK);
  const std::uint32_t sends = sizes_.send_requests * (sends_words_ ? 2U : 1U);
  cq_ = make_completion_queue(id_->verbs, sends + sizes_.receive_requests, channel_);
  if (cq_ == nullptr) return fail(errno);
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = ibv_cq_ex_to_cq(cq_);
  attributes.qp_type = IBV_QPT_RC;
  attributes.sq_sig_all = 1;
  attributes.cap = {.max_send_wr = sends,
                    .max_recv_wr = sizes_.receive_requests,
                    .max_send_sge = 2,
                    .max_recv_sge = 1,
                    .max_inline_data = sizes_.inline_bytes};
  if (rdma_create_qp(id_, nullptr, &attributes) != 0) return fail(errno);
  sizes_.inline_bytes =
      static_cast<std::uint16_t>(std::min<std::uint32_t>(attributes.cap.max_inline_data, 0xffff));
  return {};
}

Outcome<void> Endpoint::make_buffers() {
  ibv_pd* pd = id_->qp->pd;
  const std::size_t list = kTargets * sizeof(Target) + sizes_.iomap_entries * sizeof(IoMapping);
  // After the send buffer: a slot for each control message in flight.
  const std::size_t send_bytes = aligned(sizes_.send_bytes + kControlSlots * sizeof(Target));
  const std::size_t receive_bytes =
      aligned(sizes_.receive_bytes + sizes_.receive_requests * kWordBytes);
  auto pages = Pages::take(pd, send_bytes + receive_bytes + list);
  if (!pages) return fail(ENOMEM);
  pages_ = std::move(*pages);
  std::byte* const at = pages_->data();
  auto receive = Memory::over(pd, at + send_bytes, receive_bytes + list, IBV_ACCESS_REMOTE_WRITE);
  if (!receive) return fail(ENOMEM);
  send_buffer_ = Part(at, pages_->lkey());
  receive_buffer_ = std::move(*receive);
  target_list_ = receive_buffer_.data() + receive_bytes;
  std::memset(target_list_, 0, list);  // An earlier stream's.
  requests_free_ = data_requests();
  send_free_ = sizes_.send_bytes;
  // The connection's private data offers the first half; the second is offered next.
  offer_at_ = half();
  read_ = half();
  return {};
}

Outcome<void> Endpoint::post_receives(std::uint16_t most) {
  for (; receives_ < std::min(most, sizes_.receive_requests); ++receives_) {
    if (auto ok = post_receive(); !ok) return ok;
  }
  credit_at_ = received_ + receives_ / 2;
  return {};
}

Outcome<void> Endpoint::post_receive() {
  ibv_sge word{
      .addr = receive_buffer_.address() + sizes_.receive_bytes + receive_slot_ * kWordBytes,
      .length = kWordBytes,
      .lkey = receive_buffer_.lkey()};
  ibv_recv_wr request{.wr_id = kReceive | receive_slot_,
                      .next = nullptr,
                      .sg_list = &word,
                      .num_sge = sends_words_ ? 1 : 0};
  receive_slot_ = (receive_slot_ + 1) % sizes_.receive_requests;
  ibv_recv_wr* bad = nullptr;
  if (const int error = ibv_post_recv(id_->qp, &request, &bad); error != 0) return fail(error);
  return {};
}

Endpoint::~Endpoint() {
  if (id_->qp != nullptr) rdma_destroy_qp(id_);
  for (const Mapped& mapped : mapped_) ibv_dereg_mr(mapped.region);
  if (cq_ != nullptr) ibv_destroy_cq(ibv_cq_ex_to_cq(cq_));
  if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
}

std::vector<std::byte> Endpoint::offer() const {
  ConnectData data{};
  data.version = kVersion;
  data.flags = kHasIoMap | kTakesUrgent | (kWeAreBigEndian ? kBigEndianHost : 0);
  data.credits = htobe16(receives_);
  const std::uint16_t port = htobe16(port_);
  std::memcpy(data.port, &port, sizeof port);
  data.iomap_size = to_scale(sizes_.iomap_entries);
  data.targets =
      to_network({reinterpret_cast<std::uint64_t>(target_list_), receive_buffer_.rkey(), kTargets});
  data.buffer = to_network({receive_buffer_.address(), receive_buffer_.rkey(), half()});
  const auto bytes = std::as_bytes(std::span(&data, 1));
  return {bytes.begin(), bytes.end()};
}

Outcome<void> Endpoint::start(std::span<const std::byte> data) {
  ConnectData peer{};
  if (data.size() < sizeof peer) return fail(EPROTO);
  std::memcpy(&peer, data.data(), sizeof peer);
  if (peer.version != kVersion) return unsupported("the peer has another version of the protocol");
  std::memcpy(&peer_port_, peer.port, sizeof peer_port_);
  peer_port_ = be16toh(peer_port_);
  swap_ = ((peer.flags & kBigEndianHost) != 0) != kWeAreBigEndian;
  peer_takes_urgent_ = (peer.flags & kTakesUrgent) != 0;
  peer_targets_ = from_network(peer.targets);
  peer_target_ = 1;  // Target 0 is the buffer in the peer's private data.
  if ((peer.flags & kHasIoMap) != 0) {
    peer_iomap_ = {peer_targets_.address + peer_targets_.length * sizeof(Target), peer_targets_.key,
                   from_scale(peer.iomap_size)};
  }
  const Target first = from_network(peer.buffer);
  std::memcpy(target_list_, &first, sizeof first);
  sent_limit_ = be16toh(peer.credits);
  return {};
}

}  // namespace verbatim::rsocket
