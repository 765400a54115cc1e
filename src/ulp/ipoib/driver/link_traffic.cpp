// Packets and messages: what comes of the fabric, and what the engine wants done.
#include <algorithm>
#include <utility>

#include <sys/epoll.h>

#include "base/overloaded.h"
#include "ulp/ipoib/driver/link.h"
#include "ulp/ipoib/snooping.h"
#include "ulp/ipoib/wire/ip.h"
#include "ulp/ipoib/wire/too_long.h"

namespace verbatim::ulp::ipoib {

void Link::on_packet(const OffloadHeader& header, MutableByteSpan packet) {
  if (!sender_ || !has_carrier_) return;
  const TimeNs now = loop_.now();
  cut_.reset();
  if (header.type != 0) {
    cut_ = Cut::of(header, packet);
    cut_packet_ = packet;
    if (!cut_ || cut_->segment_bytes() > datagram_mtu_) return;
  } else if (!complete_checksum(header, packet)) {
    return;
  }
  // The kernel has no neighbours here: what it says of them has no address.
  if (is_neighbour_message(packet)) return;
  if (const auto to = destination_of(packet); to && to->is_multicast()) {
    read_reports(packet, [&](const SocketAddress& group, bool is_member) {
      sender_->on_report(group, is_member, now, out_);
      carry_out();
    });
  }
  sender_->on_packet(packet, now, out_);
  carry_out();
}

void Link::on_datagram(const rdma::Ended& ended, TimeNs) {
  if (port_ == nullptr) return;
  if (const auto arrived = port_->on_ended(ended)) {
    const bool is_own = arrived->source == own_.qpn && arrived->source_lid == lid_;
    const bool is_merged = !is_own && on_bytes(arrived->bytes);
    if (!is_merged) return port_->post_again({&arrived->buffer, 1});
    merged_.push_back(arrived->buffer);
    if (merge_.is_full()) flush_merge();
    return;
  }
  queue_->on_ended();
  resume_reading();
}

void Link::resume_reading() {
  if (reads_ || !has_room()) return;
  reads_ = true;
  loop_.change(interface_.descriptor(), EPOLLIN);
}

bool Link::on_bytes(ByteSpan bytes) {
  const auto frame = decode_frame(bytes);
  if (!frame) ++counters_.malformed;
  if (!frame || !sender_) return false;
  ++counters_.received;
  counters_.received_bytes += frame->packet.size();
  if (is_merging_ && merges(*frame)) return true;
  on_frame(*frame);
  return false;
}

void Link::on_frame(const Frame& frame) {
  const TimeNs now = loop_.now();
  if (frame.type == EtherType::arp) {
    const auto arp = decode_arp(frame.packet);
    if (!arp) return static_cast<void>(++counters_.malformed);
    sender_->on_arp(*arp, now, out_);
    return on_neighbour_heard();
  }
  const bool is_ip = frame.type == EtherType::ipv4 || frame.type == EtherType::ipv6;
  if (!is_ip || frame.packet.empty() || type_of(frame.packet) != frame.type)
    return static_cast<void>(++counters_.malformed);
  if (!is_neighbour_message(frame.packet)) return to_kernel(frame.packet);
  const auto message = decode_neighbour_message(frame.packet);
  if (!message) return static_cast<void>(++counters_.malformed);
  sender_->on_message(*message, now, out_);
  on_neighbour_heard();
}

void Link::on_neighbour_heard() {
  carry_out();
  if (address_answers_ != nullptr) address_answers_->look_again();
}

void Link::to_kernel(const OffloadHeader& header, std::span<const ByteSpan> parts) {
  if (!interface_.write(header, parts)) ++counters_.kernel_full;
}

/// What comes stays in order: a packet that is not merged is written after those that are.
bool Link::merges(const Frame& frame) {
  const bool is_ip = frame.type == EtherType::ipv4 || frame.type == EtherType::ipv6;
  if (is_ip && merge_.add(frame.packet)) return true;
  flush_merge();
  return is_ip && merge_.add(frame.packet);
}

void Link::flush_merge() {
  if (merge_.is_empty()) return;
  const Merge::Whole whole = merge_.take();
  if (whole.header.type != 0) ++counters_.merged;
  to_kernel(whole.header, whole.parts);
  port_->post_again(merged_);
  merged_.clear();
}

void Link::carry_out() {
  for (const Output& output : out_) {
    if (!send(output)) questions_.push_back(output);
  }
  out_.clear();
  // An answer is an input: it comes back here, and its questions are asked in turn.
  if (std::exchange(answers_, true)) return;
  while (!questions_.empty()) {
    const Output question = questions_.front();
    questions_.pop_front();
    answer(question);
  }
  answers_ = false;
  if (in_batch_) return;
  queue_->flush();
  looks_ = true;
}

/// Outputs with a packet, which is valid until the next input. False: it has none.
bool Link::send(const Output& output) {
  if (const auto* const datagram = std::get_if<SendPacket>(&output)) {
    count_sent(datagram->packet, send(*datagram));
    return true;
  }
  if (const auto* const message = std::get_if<SendByConnection>(&output)) {
    const bool is_taken = connected_->send(*message, loop_.now());
    if (is_taken) ++counters_.connected_sent;
    count_sent(message->packet, is_taken);
    return true;
  }
  const auto* const told = std::get_if<TellTooLong>(&output);
  if (told != nullptr) tell(*told);
  return told != nullptr;
}

/// A large packet that has waited for something is dropped, for TCP sends it again; unless it is
/// the one that is being read, and the kernel has answered at once.
bool Link::send(const SendPacket& datagram) {
  if (datagram.packet.size() <= datagram_mtu_)
    return queue_->add(datagram.to, datagram.type, datagram.packet);
  const bool is_there = datagram.packet.data() == cut_packet_.data();
  if (!cut_ || (!is_there && !std::ranges::equal(datagram.packet, cut_packet_))) return false;
  ++counters_.cut;
  return queue_->add(datagram.to, datagram.type, *cut_);
}

void Link::count_sent(ByteSpan packet, bool is_taken) {
  if (!is_taken) return;
  ++counters_.sent;
  counters_.sent_bytes += packet.size();
}

/// The next hop may be of the other family (RFC 5549).
void Link::tell(const TellTooLong& told) {
  const auto destination = destination_of(told.packet);
  if (!destination) return;
  const bool is_same = destination->is_ipv4() == told.hop.is_ipv4();
  std::array<std::byte, kTooLongBytesMax> message;
  const std::size_t length =
      encode_too_long(told.packet, is_same ? told.hop : *destination, told.mtu, message);
  if (length > 0) to_kernel(ByteSpan(message).first(length));
}

void Link::answer(const Output& question) {
  const TimeNs now = loop_.now();
  std::visit(Overloaded{[&](const AskNextHop& asked) {
                          const NextHop next = kernel_.next_hop(asked.address);
                          sender_->on_next_hop(asked.address, next, now, out_);
                          carry_out();
                        },
                        [&](const AskPath& asked) { subnet_->find_path(asked.gid, now); },
                        [&](const Join& join) { subnet_->join(join.group, join.receives, now); },
                        [&](const Leave& leave) { subnet_->leave(leave.group, now); },
                        [&](const CloseWay& close) { queue_->close(close.way); },
                        [&](const Connect& wanted) { connected_->connect(wanted); },
                        [&](const EndConnection& over) { connected_->end(over.peer, now); },
                        [](const auto&) {}},
             question);
}

void Link::on_device(const rdma::DeviceNotice& notice, TimeNs now) {
  using rdma::DeviceEvent;
  if (notice.port != 0 && notice.port != options_.port) return;
  management_->on_event(notice.event, now);
  if (!sender_) return;
  if (notice.event == DeviceEvent::port_down) set_carrier(false);
  if (notice.event == DeviceEvent::port_active && why_.empty()) set_carrier(true);
  const bool is_other_subnet = notice.event == DeviceEvent::lid_change ||
                               notice.event == DeviceEvent::sm_change ||
                               notice.event == DeviceEvent::client_reregister;
  if (!is_other_subnet) return;
  lid_ = port_facts().lid;
  sender_->forget_paths(now, out_);
  carry_out();
}

void Link::on_requested(const rdma::Requested& requested, TimeNs now) {
  if (connected_ == nullptr || !sender_) return driver_->reject(requested.connection);
  connected_->on_requested(requested, now);
}

void Link::on_established(const rdma::Established& established, TimeNs, WorkList&) {
  connected_->on_established(established);
}

ReceiveUse Link::on_message(rdma::ConnectionId connection, const Message& message, TimeNs now,
                            WorkList&) {
  connected_->on_message(connection, now);
  ++counters_.connected_received;
  on_bytes(message.bytes());
  return ReceiveUse::done;
}

void Link::on_done(rdma::ConnectionId connection, Tag tag, CompletionStatus, TimeNs, WorkList&) {
  connected_->on_done(connection, tag);
  resume_reading();
}

void Link::on_end(rdma::ConnectionId connection, const rdma::End& end, TimeNs) {
  if (connected_ == nullptr || !sender_) return;
  connected_->on_end(connection, end);
  resume_reading();
}

}  // namespace verbatim::ulp::ipoib
