// The unreliable datagram queue pair of one local address.
#include "ulp/rsocket/datagram/datagram_port.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <endian.h>
#include <fcntl.h>

#include "base/net/path.h"

namespace verbatim::rsocket {
namespace {

constexpr std::size_t kGrhBytes = 40;
constexpr std::size_t kSlotBytes = kGrhBytes + kDatagramBytes;
constexpr int kResolveMs = 2000;
constexpr std::uint16_t kPathBits = 0x7f;  // Of a LID, those below the port's LMC count.

std::uint8_t index_of(const union ibv_gid& gid, const rdma_cm_id& id) {
  union ibv_gid entry{};
  for (int i = 0; ibv_query_gid(id.verbs, id.port_num, i, &entry) == 0; ++i) {
    if (std::memcmp(&entry, &gid, sizeof gid) == 0) return static_cast<std::uint8_t>(i);
  }
  return 0;
}

/// The address vector of the peer to which the id has resolved its route: over InfiniBand by LID,
/// and through a router by GID, too; else by GID.
ibv_ah_attr address_vector(const rdma_cm_id& id) {
  const ibv_sa_path_rec& path = *id.route.path_rec;
  ibv_ah_attr attributes{.sl = path.sl, .static_rate = path.rate, .port_num = id.port_num};
  if (path.dlid != 0) {
    attributes.dlid = be16toh(path.dlid);
    attributes.src_path_bits = static_cast<std::uint8_t>(be16toh(path.slid) & kPathBits);
    if (!may_leave_subnet(path.hop_limit)) return attributes;
  }
  attributes.is_global = 1;
  attributes.grh = {.dgid = path.dgid,
                    .flow_label = be32toh(path.flow_label),
                    .sgid_index = index_of(path.sgid, id),
                    .hop_limit = path.hop_limit,
                    .traffic_class = path.traffic_class};
  return attributes;
}

}  // namespace

std::size_t put_sender(const SocketAddress& sender, std::byte* to) {
  to[0] = std::byte{static_cast<unsigned char>(sender.is_ipv4() ? 4 : 6)};
  const std::size_t length = sender.is_ipv4() ? 8 : kHeaderMax;
  to[1] = static_cast<std::byte>(length);
  store_be(to + 2, sender.port());
  if (sender.is_ipv4()) {
    std::memcpy(to + 4, sender.ipv4_bytes().data(), 4);
  } else {
    store_be(to + 4, std::uint32_t{0});
    std::memcpy(to + 8, sender.ipv6_bytes().data(), 16);
  }
  return length;
}

Outcome<SocketAddress> sender_of(ByteSpan datagram) {
  if (datagram.size() < 8) return fail(EBADMSG);
  const std::byte* at = datagram.data();
  const auto port = load_be<std::uint16_t>(at + 2);
  if (at[0] == std::byte{4} && at[1] == std::byte{8}) {
    std::array<std::uint8_t, 4> bytes;
    std::memcpy(bytes.data(), at + 4, 4);
    return SocketAddress::ipv4(bytes, port);
  }
  if (at[0] != std::byte{6} || at[1] != std::byte{kHeaderMax} || datagram.size() < kHeaderMax) {
    return fail(EBADMSG);
  }
  std::array<std::uint8_t, 16> bytes;
  std::memcpy(bytes.data(), at + 8, 16);
  return SocketAddress::ipv6(bytes, port);
}

Outcome<std::unique_ptr<DatagramPort>> DatagramPort::make(const SocketAddress& local,
                                                          const Sizes& sizes) {
  std::unique_ptr<DatagramPort> port(new DatagramPort);
  port->local_ = local;
  if (rdma_create_id(nullptr, &port->id_, nullptr, RDMA_PS_UDP) != 0) return fail(errno);
  if (rdma_bind_addr(port->id_, const_cast<sockaddr*>(local.data())) != 0) return fail(errno);
  if (port->id_->verbs == nullptr) return fail(ENODEV);
  if (auto ok = port->make_queues(sizes); !ok) return fail(ok.error());
  return port;
}

Outcome<void> DatagramPort::make_queues(const Sizes& sizes) {
  slots_ = std::clamp<std::size_t>(
      std::min<std::size_t>(sizes.send_bytes / kDatagramBytes, sizes.send_requests), 1, 4096);
  const std::size_t receives = std::clamp<std::size_t>(
      std::min<std::size_t>(sizes.receive_bytes / kDatagramBytes, sizes.receive_requests), 1, 4096);
  channel_ = ibv_create_comp_channel(id_->verbs);
  if (channel_ == nullptr) return fail(errno);
  fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  cq_ = ibv_create_cq(id_->verbs, static_cast<int>(slots_ + receives), nullptr, channel_, 0);
  if (cq_ == nullptr) return fail(errno);
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = cq_;
  attributes.qp_type = IBV_QPT_UD;
  attributes.sq_sig_all = 1;
  attributes.cap = {.max_send_wr = static_cast<std::uint32_t>(slots_),
                    .max_recv_wr = static_cast<std::uint32_t>(receives),
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
  if (rdma_create_qp(id_, nullptr, &attributes) != 0) return fail(errno);
  auto send = Memory::make(id_->qp->pd, slots_ * kDatagramBytes, 0);
  auto receive = Memory::make(id_->qp->pd, receives * kSlotBytes, 0);
  if (!send || !receive) return fail(ENOMEM);
  send_memory_ = std::move(*send);
  receive_memory_ = std::move(*receive);
  for (std::uint32_t slot = 0; slot < slots_; ++slot) free_.push_back(slot);
  for (std::size_t slot = 0; slot < receives; ++slot) {
    if (auto ok = post_receive(slot); !ok) return ok;
  }
  return {};
}

Outcome<void> DatagramPort::post_receive(std::size_t slot) {
  ibv_sge place{.addr = receive_memory_.address() + slot * kSlotBytes,
                .length = kSlotBytes,
                .lkey = receive_memory_.lkey()};
  ibv_recv_wr request{.wr_id = kReceive | slot, .next = nullptr, .sg_list = &place, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  if (const int error = ibv_post_recv(id_->qp, &request, &bad); error != 0) return fail(error);
  return {};
}

DatagramPort::~DatagramPort() {
  if (id_ != nullptr && id_->qp != nullptr) rdma_destroy_qp(id_);
  if (cq_ != nullptr) ibv_destroy_cq(cq_);
  if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
  if (id_ != nullptr) rdma_destroy_id(id_);
}

Outcome<ibv_ah*> DatagramPort::address_handle_for(const SocketAddress& peer) const {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(nullptr, &id, nullptr, RDMA_PS_UDP) != 0) return fail(errno);
  const std::unique_ptr<rdma_cm_id, int (*)(rdma_cm_id*)> owned(id, &rdma_destroy_id);
  const SocketAddress source = local_.with_port(0);
  if (rdma_resolve_addr(id, const_cast<sockaddr*>(source.data()),
                        const_cast<sockaddr*>(peer.data()), kResolveMs) != 0 ||
      rdma_resolve_route(id, kResolveMs) != 0) {
    return fail(errno);
  }
  ibv_ah_attr attributes = address_vector(*id);
  ibv_ah* ah = ibv_create_ah(id_->qp->pd, &attributes);
  if (ah == nullptr) return fail(errno);
  return ah;
}

void DatagramPort::arm() {
  if (armed_) return;
  ibv_req_notify_cq(cq_, 0);
  armed_ = true;
}

void DatagramPort::take_event() {
  if (!armed_) return;
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(channel_, &cq, &context) != 0) return;
  ibv_ack_cq_events(cq, 1);
  armed_ = false;
}

std::optional<Received> DatagramPort::next() {
  take_event();
  ibv_wc completion{};
  while (ibv_poll_cq(cq_, 1, &completion) == 1) {
    const auto slot = static_cast<std::uint32_t>(completion.wr_id);
    if ((completion.wr_id & kReceive) == 0) {
      free_.push_back(slot);
      continue;
    }
    if (completion.status != IBV_WC_SUCCESS) continue;
    Received received;
    const std::byte* at = receive_memory_.data() + slot * kSlotBytes + kGrhBytes;
    const ByteSpan datagram(at, completion.byte_len - kGrhBytes);
    if (const auto sender = sender_of(datagram)) {
      received.from = *sender;
      const ByteSpan bytes = datagram.subspan(std::to_integer<std::size_t>(at[1]));
      received.bytes.assign(bytes.begin(), bytes.end());
    }
    static_cast<void>(post_receive(slot));
    if (!received.from.empty()) return received;
  }
  return std::nullopt;
}

Outcome<void> DatagramPort::send(ibv_ah* ah, std::uint32_t qpn, Cursor& from) {
  const std::uint32_t slot = free_.back();
  std::byte* at = send_memory_.data() + slot * kDatagramBytes;
  const std::size_t header = put_sender(local_, at);
  const std::size_t bytes = from.left();
  from.read(at + header, bytes);
  ibv_sge piece{.addr = reinterpret_cast<std::uint64_t>(at),
                .length = static_cast<std::uint32_t>(header + bytes),
                .lkey = send_memory_.lkey()};
  ibv_send_wr request{};
  request.wr_id = slot;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.wr.ud = {.ah = ah, .remote_qpn = qpn, .remote_qkey = RDMA_UDP_QKEY};
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(id_->qp, &request, &bad); error != 0) return fail(error);
  free_.pop_back();
  return {};
}

}  // namespace verbatim::rsocket
