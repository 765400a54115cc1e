#include "ulp/ipoib/driver/datagram_queue.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace verbatim::ulp::ipoib {
namespace {

/// The part of a buffer in which these bytes are.
Slice part_of(Slice buffer, ByteSpan bytes) {
  buffer.data += bytes.data() - buffer.data;
  buffer.bytes = static_cast<std::uint32_t>(bytes.size());
  return buffer;
}

}  // namespace

Result<std::unique_ptr<DatagramQueue>> DatagramQueue::create(const rdma::Device& device) {
  auto buffers = rdma::BufferPool::create(device, kBuffers, kBufferBytes, 0);
  if (!buffers) return std::unexpected(buffers.error());
  return std::unique_ptr<DatagramQueue>(new DatagramQueue(std::move(*buffers)));
}

std::optional<Slice> DatagramQueue::take() {
  Slice buffer;
  if (!buffers_.take(std::span(&buffer, 1))) return std::nullopt;
  taken_ = buffer;
  is_used_ = false;
  return buffer;
}

void DatagramQueue::finish(const Slice& buffer) {
  if (!std::exchange(taken_, std::nullopt)) return;  // Lent.
  if (is_used_) {
    at(ever_queued_ - 1).buffers.push(buffer);
  } else {
    buffers_.give_back(std::span(&buffer, 1));
  }
}

bool DatagramQueue::is_in_taken(ByteSpan packet) const {
  return taken_ && packet.data() >= taken_->data &&
         packet.data() + packet.size() <= taken_->data + kBufferBytes;
}

bool DatagramQueue::add(const Destination& to, EtherType type, ByteSpan packet) {
  if (port_ == nullptr || !has_room_for(1)) return ++dropped_, false;
  if (!is_in_taken(packet)) return add_copy(to, type, packet);
  push(to, type).payload = part_of(*taken_, packet);
  is_used_ = true;
  return true;
}

bool DatagramQueue::add(const Destination& to, EtherType type, const Cut& cut) {
  if (port_ == nullptr || !has_room_for(cut.count())) return ++dropped_, false;
  for (std::size_t i = 0; i < cut.count(); ++i) {
    Queued& one = push(to, type);
    const auto header = MutableByteSpan(one.header).subspan(one.header_bytes);
    one.payload = part_of(*taken_, cut.segment(i, header));
    one.header_bytes += cut.header_bytes();
  }
  is_used_ = true;
  return true;
}

/// The buffer with the packet; nothing if there is no room.
std::optional<Slice> DatagramQueue::copied(ByteSpan packet) {
  Slice buffer;
  if (packet.size() > kBufferBytes - kPacketAt || !buffers_.take(std::span(&buffer, 1))) {
    ++dropped_;
    return std::nullopt;
  }
  std::memcpy(buffer.data + kPacketAt, packet.data(), packet.size());
  return buffer;
}

/// The queue's order is that of the buffers' ends: a copy comes before the taken buffer's rest.
bool DatagramQueue::add_copy(const Destination& to, EtherType type, ByteSpan packet) {
  const auto buffer = copied(packet);
  if (!buffer) return false;
  Queued& one = push(to, type);
  one.payload = part_of(*buffer, {buffer->data + kPacketAt, packet.size()});
  one.buffers.push(*buffer);
  return true;
}

/// The taken buffer becomes the borrower's if nothing else is in it.
const Slice* DatagramQueue::lend(EtherType type, ByteSpan packet) {
  const bool is_whole =
      !is_used_ && is_in_taken(packet) && packet.data() == taken_->data + kPacketAt;
  const auto buffer = is_whole ? std::exchange(taken_, std::nullopt) : copied(packet);
  if (!buffer) return nullptr;
  const Encapsulation header = encapsulation(type);
  std::memcpy(buffer->data, header.data(), header.size());
  Slice& lent = lent_[buffers_.index_of(*buffer)];
  lent = *buffer;
  lent.bytes = static_cast<std::uint32_t>(kPacketAt + packet.size());
  return &lent;
}

void DatagramQueue::give_back(std::uint32_t number) {
  const Slice buffer = buffers_.at(number);
  buffers_.give_back(std::span(&buffer, 1));
}

DatagramQueue::Queued& DatagramQueue::push(const Destination& to, EtherType type) {
  Queued& one = at(ever_queued_++);
  one.to = rdma::DestinationId{raw(to.way)};
  one.qpn = to.qpn;
  const Encapsulation first = encapsulation(type);
  std::ranges::copy(first, one.header.begin());
  one.header_bytes = first.size();
  one.buffers.clear();
  return one;
}

void DatagramQueue::close(WayId way) {
  closing_.push_back({way, ever_queued_});
  close_ways();
}

void DatagramQueue::close_ways() {
  while (!closing_.empty() && closing_.front().after <= ever_posted_) {
    if (port_ != nullptr) port_->close(rdma::DestinationId{raw(closing_.front().way)});
    closing_.pop_front();
  }
}

void DatagramQueue::flush() {
  while (queued() > 0 && port_ != nullptr) {
    const std::size_t wanted = std::min(queued(), kChain);
    if (post(wanted) < wanted) break;
  }
  close_ways();
}

std::size_t DatagramQueue::post(std::size_t count) {
  std::array<rdma::DatagramPort::Datagram, kChain> datagrams;
  for (std::size_t i = 0; i < count; ++i) {
    const Queued& one = at(ever_posted_ + i);
    datagrams[i] = {.to = one.to,
                    .qpn = one.qpn,
                    .qkey = qkey_,
                    .header = ByteSpan(one.header).first(one.header_bytes),
                    .payload = one.payload};
  }
  const std::uint64_t first = port_->posted();
  const std::size_t posted = port_->send(std::span(datagrams).first(count));
  for (std::size_t i = 0; i < posted; ++i) {
    for (const Slice& buffer : at(ever_posted_ + i).buffers) posted_.push_back({buffer, first + i});
  }
  ever_posted_ += posted;
  return posted;
}

void DatagramQueue::on_ended() {
  while (!posted_.empty() && port_->ended() > posted_.front().sequence) {
    buffers_.give_back(std::span(&posted_.front().buffer, 1));
    posted_.pop_front();
  }
  if (queued() > 0) flush();
}

}  // namespace verbatim::ulp::ipoib
