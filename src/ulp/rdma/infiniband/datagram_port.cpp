#include "ulp/rdma/infiniband/datagram_port.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"

namespace verbatim::ulp::rdma {
namespace {

constexpr std::uint16_t kPathBits = 0x7f;  // Of a LID, those below the port's LMC count.

ibv_ah_attr attributes_of(const InfinibandPath& path) {
  ibv_ah_attr address{.dlid = raw(path.dlid),
                      .sl = path.service_level,
                      .src_path_bits = static_cast<std::uint8_t>(raw(path.slid) & kPathBits),
                      .static_rate = path.static_rate,
                      .port_num = path.port};
  if (const auto& grh = path.grh) {
    address.is_global = 1;
    std::ranges::copy(grh->destination.bytes, address.grh.dgid.raw);
    address.grh.flow_label = grh->flow_label;
    address.grh.hop_limit = grh->hop_limit;
    address.grh.traffic_class = grh->traffic_class;
  }
  return address;
}

ibv_gid gid_of(const MulticastGroup& group) {
  ibv_gid gid;
  std::ranges::copy(group.gid.bytes, gid.raw);
  return gid;
}

ibv_sge sge_of(const Slice& slice, std::uint32_t bytes) {
  return {reinterpret_cast<std::uint64_t>(slice.data), bytes, raw(slice.local_key)};
}

}  // namespace

Result<std::unique_ptr<DatagramPort>> DatagramPort::create(const Device& device,
                                                           Completions& completions,
                                                           std::uint32_t number,
                                                           const Options& options) {
  auto receives = BufferPool::create(device, options.receives, options.receive_bytes + kGrhBytes,
                                     IBV_ACCESS_LOCAL_WRITE);
  if (!receives) return std::unexpected(receives.error());
  auto headers = BufferPool::create(device, options.sends, kHeaderBytesMax, 0);
  if (!headers) return std::unexpected(headers.error());
  std::unique_ptr<DatagramPort> made(new DatagramPort(device, completions, number, options,
                                                      std::move(*receives), std::move(*headers)));
  if (auto ready = made->make_queue_pair(); !ready) return std::unexpected(ready.error());
  std::vector<std::uint32_t> all(options.receives);
  std::iota(all.begin(), all.end(), 0u);
  made->post_again(all);
  return made;
}

Result<void> DatagramPort::make_queue_pair() {
  if (auto room = completions_.reserve(options_.sends + options_.receives); !room) return room;
  has_room_ = true;
  ibv_qp_init_attr wanted{
      .send_cq = completions_.queue(),
      .recv_cq = completions_.queue(),
      .cap = {.max_send_wr = options_.sends,
              .max_recv_wr = options_.receives,
              .max_send_sge = 2,
              .max_recv_sge = 1,
              .max_inline_data = std::min<std::uint32_t>(device_.limits().inline_bytes, 256)},
      .qp_type = IBV_QPT_UD};
  queue_pair_ = ibv_create_qp(device_.domain(), &wanted);
  if (queue_pair_ == nullptr) return refuse_errno("ibv_create_qp of datagrams");
  inline_bytes_ = wanted.cap.max_inline_data;
  auto moved = to_state(IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
  if (moved) moved = to_state(IBV_QPS_RTR, IBV_QP_STATE);
  if (moved) moved = to_state(IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN);
  return moved;
}

/// PSNs of datagrams mean nothing (IBA 9.8.3).
Result<void> DatagramPort::to_state(ibv_qp_state state, int mask) {
  ibv_qp_attr attributes{.qp_state = state,
                         .qkey = raw(options_.qkey),
                         .pkey_index = options_.pkey_index,
                         .port_num = options_.port};
  const int error = ibv_modify_qp(queue_pair_, &attributes, mask);
  if (error == 0) return {};
  return refuse(error, fmt::format("the queue pair of datagrams cannot go to state {}",
                                   static_cast<int>(state)));
}

DatagramPort::~DatagramPort() {
  if (queue_pair_ != nullptr) ibv_destroy_qp(queue_pair_);
  for (const Destination& one : destinations_) {
    if (one.users > 0) ibv_destroy_ah(one.handle);
  }
  if (has_room_) completions_.release(options_.sends + options_.receives);
}

Result<void> DatagramPort::set_qkey(QKey qkey) {
  options_.qkey = qkey;
  ibv_qp_attr attributes{.qkey = raw(qkey)};
  const int error = ibv_modify_qp(queue_pair_, &attributes, IBV_QP_QKEY);
  return error == 0 ? Result<void>() : refuse(error, "the queue pair takes no other Q_Key");
}

Result<DestinationId> DatagramPort::open(const InfinibandPath& path) {
  const auto known = std::ranges::find_if(
      destinations_, [&](const Destination& one) { return one.users > 0 && one.path == path; });
  if (known != destinations_.end()) {
    ++known->users;
    return static_cast<DestinationId>(known - destinations_.begin());
  }
  ibv_ah_attr attributes = attributes_of(path);
  ibv_ah* const handle = ibv_create_ah(device_.domain(), &attributes);
  if (handle == nullptr) return refuse_errno("ibv_create_ah");
  if (free_destinations_.empty()) {
    free_destinations_.push_back(static_cast<std::uint32_t>(destinations_.size()));
    destinations_.emplace_back();
  }
  const std::uint32_t index = free_destinations_.back();
  free_destinations_.pop_back();
  destinations_[index] = {.path = path, .handle = handle, .users = 1};
  return DestinationId{index};
}

void DatagramPort::close(DestinationId destination) {
  Destination& one = destinations_.at(raw(destination));
  VERBATIM_ASSERT(one.users > 0);
  if (--one.users > 0) return;
  ibv_destroy_ah(std::exchange(one.handle, nullptr));
  free_destinations_.push_back(raw(destination));
}

Result<void> DatagramPort::attach(const MulticastGroup& group) {
  const ibv_gid gid = gid_of(group);
  const int error = ibv_attach_mcast(queue_pair_, &gid, raw(group.lid));
  return error == 0 ? Result<void>() : refuse(error, "ibv_attach_mcast");
}

void DatagramPort::detach(const MulticastGroup& group) {
  const ibv_gid gid = gid_of(group);
  ibv_detach_mcast(queue_pair_, &gid, raw(group.lid));
}

std::size_t DatagramPort::send(std::span<const Datagram> datagrams) {
  const std::uint64_t room = options_.sends - (posted_ - ended_);
  datagrams = datagrams.first(std::min<std::size_t>(datagrams.size(), room));
  std::size_t sent = 0;
  while (sent < datagrams.size()) {
    const auto chain = datagrams.subspan(sent, std::min(kChain, datagrams.size() - sent));
    const std::size_t count = send_chain(chain);
    sent += count;
    if (count < chain.size()) break;
  }
  return sent;
}

/// The last one of a chain is signaled: its completion says that all before it have left.
std::size_t DatagramPort::send_chain(std::span<const Datagram> datagrams) {
  std::array<ibv_send_wr, kChain> requests{};
  std::array<std::array<ibv_sge, 2>, kChain> slices;
  for (std::size_t i = 0; i < datagrams.size(); ++i) {
    fill(requests[i], slices[i], datagrams[i], posted_ + i);
    requests[i].next = i + 1 < datagrams.size() ? &requests[i + 1] : nullptr;
  }
  requests[datagrams.size() - 1].send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* refused = nullptr;
  const bool all = ibv_post_send(queue_pair_, requests.data(), &refused) == 0;
  const std::size_t count =
      all ? datagrams.size() : static_cast<std::size_t>(refused - requests.data());
  posted_ += count;
  return count;
}

void DatagramPort::fill(ibv_send_wr& request, std::span<ibv_sge, 2> slices,
                        const Datagram& datagram, std::uint64_t sequence) {
  const std::size_t header_bytes = datagram.header.size();
  VERBATIM_ASSERT(header_bytes <= kHeaderBytesMax);
  int count = 0;
  if (header_bytes > 0) {
    const Slice header = headers_.at(static_cast<std::uint32_t>(sequence % options_.sends));
    std::ranges::copy(datagram.header, header.data);
    slices[count++] = sge_of(header, static_cast<std::uint32_t>(header_bytes));
  }
  if (datagram.payload.bytes > 0)
    slices[count++] = sge_of(datagram.payload, datagram.payload.bytes);
  const bool is_short = header_bytes + datagram.payload.bytes <= inline_bytes_;
  request = {.wr_id = WorkId{.kind = WorkId::Kind::datagram,
                             .connection = number_,
                             .value = static_cast<std::uint32_t>(sequence)}
                          .encoded(),
             .sg_list = slices.data(),
             .num_sge = count,
             .opcode = IBV_WR_SEND,
             .send_flags = is_short ? unsigned{IBV_SEND_INLINE} : 0u};
  request.wr.ud.ah = destinations_.at(raw(datagram.to)).handle;
  request.wr.ud.remote_qpn = datagram.qpn.value();
  request.wr.ud.remote_qkey = raw(datagram.qkey);
}

std::optional<DatagramPort::Arrived> DatagramPort::on_ended(const Ended& ended) {
  const bool is_good = ended.status == CompletionStatus::success;
  if (ended.id.kind == WorkId::Kind::datagram) {
    // By the lower half of its number; at most `sends` are posted.
    ended_ += static_cast<std::uint32_t>(ended.id.value - static_cast<std::uint32_t>(ended_)) + 1;
    // A failure stops the queue of sends alone (SQE, IBA 10.3.1.7).
    if (!is_good && ended.status != CompletionStatus::flushed)
      (void)to_state(IBV_QPS_RTS, IBV_QP_STATE);
    return std::nullopt;
  }
  const std::uint32_t buffer = ended.id.value;
  if (!is_good || ended.bytes < kGrhBytes) {
    if (ended.status != CompletionStatus::flushed) post_again({&buffer, 1});
    return std::nullopt;
  }
  const Slice memory = receives_.at(buffer);
  Arrived arrived{.buffer = buffer,
                  .bytes = ByteSpan(memory.data + kGrhBytes, ended.bytes - kGrhBytes),
                  .source = ended.source,
                  .source_lid = Lid{ended.source_lid}};
  if (ended.has_grh) {
    constexpr std::size_t kSourceAt = 8, kDestinationAt = 24;
    std::memcpy(arrived.source_gid.emplace().bytes.data(), memory.data + kSourceAt, sizeof(Gid));
    std::memcpy(arrived.destination_gid.emplace().bytes.data(), memory.data + kDestinationAt,
                sizeof(Gid));
  }
  return arrived;
}

void DatagramPort::post_again(std::span<const std::uint32_t> buffers) {
  std::array<ibv_recv_wr, kChain> requests;
  std::array<ibv_sge, kChain> slices;
  while (!buffers.empty()) {
    const auto chain = buffers.first(std::min(kChain, buffers.size()));
    for (std::size_t i = 0; i < chain.size(); ++i) {
      const Slice memory = receives_.at(chain[i]);
      slices[i] = sge_of(memory, memory.bytes);
      requests[i] = {.wr_id = WorkId{.kind = WorkId::Kind::datagram_receive,
                                     .connection = number_,
                                     .value = chain[i]}
                                  .encoded(),
                     .next = i + 1 < chain.size() ? &requests[i + 1] : nullptr,
                     .sg_list = &slices[i],
                     .num_sge = 1};
    }
    ibv_recv_wr* refused = nullptr;
    ibv_post_recv(queue_pair_, requests.data(), &refused);
    buffers = buffers.subspan(chain.size());
  }
}

}  // namespace verbatim::ulp::rdma
