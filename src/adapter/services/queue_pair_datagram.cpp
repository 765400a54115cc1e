#include <algorithm>

#include "adapter/adapter.h"
#include "adapter/memory/scatter.h"
#include "adapter/queue_pair/queue_pair.h"
#include "base/log.h"
#include "port/burst.h"
#include "region/held_memory.h"
#include "transport/ib/datagram.h"

/// Datagrams: each takes its own path, in memory to a program of this machine, else in packets.
namespace verbatim::adapter {

using transport::Status;

namespace {

/// A destination that shared memory does not reach is looked for again after so long.
constexpr TimeNs kLookAgain = 100 * kMillisecond;

}  // namespace

/// Not while a burst is under way: it may use one of them.
void QueuePair::forget_old_paths() {
  constexpr std::size_t kPathsMax = 4096;
  if (paths_.size() > kPathsMax) paths_.clear();
}

/// Null where no socket can be had.
const DatagramPath* QueuePair::path_to(const DatagramPathKey& key) {
  DatagramPath& path = paths_[key];
  if (!path.route) {
    const auto route = adapter_.port().route(key.source_gid_index, roce_path(key.address), key.qpn);
    if (!route) return nullptr;
    path.route = *route;
  }
  if (path.link != nullptr && !path.link->is_there()) path.link.reset();
  if (path.link != nullptr || !may_be_direct() || key.qpn == kMulticastQpn) return &path;
  const TimeNs now = monotonic_now();
  if (now < path.look_again) return &path;
  path.look_again = now + kLookAgain;
  path.link = link_to(key);
  return &path;
}

/// Nothing: it goes over the wire.
std::optional<Status> QueuePair::send_directly(const transport::SendRequest& request,
                                               const LocalMemory& local, const DatagramPath& path,
                                               QKey qkey) {
  if (path.link == nullptr || request.length > bytes_of(adapter_.port().state().active_mtu))
    return {};
  const bool controlled = (raw(qkey) & transport::kControlledQKey) != 0;
  const Datagram datagram{controlled ? attributes_.qkey : qkey, path.route->headers};
  const DirectLink::Outcome outcome = path.link->send_datagram(request, local, datagram);
  count_direct(*path.link, outcome, request.length);
  return path.link->status();
}

std::optional<Status> QueuePair::send_directly(const SendWork& work, const LocalMemory& local) {
  forget_old_paths();
  const Destination& to = *work.destination;
  const DatagramPath* const path =
      path_to({to.address, to.vector.source_gid_index, work.remote_qpn});
  if (path == nullptr) return {};
  return send_directly(work.request, local, *path, work.remote_qkey);
}

void QueuePair::transmit_datagrams(TimeNs now) {
  /// Nothing but its socket's buffer holds back what comes for a peer.
  constexpr std::uint64_t kTogether = 16;
  forget_old_paths();
  Burst burst(adapter_.arena().header());
  Status status = Status::success;
  while (status == Status::success && handed_ < send_queue_.posted() && may_send(now)) {
    const transport::Slot slot = handed_++;
    pacer_.count(now, send_queue_.wqe(slot).request.length + kWireOverheadBytes);
    status = send_datagram(burst, slot);
    const bool failed = status != Status::success;
    const bool ends = failed || handed_ == send_queue_.posted() || pacer_.is_limited() ||
                      handed_ - send_queue_.completed() == kTogether;
    if (!ends) continue;
    burst.flush();  // The requests complete now: their memory is the program's again.
    while (send_queue_.completed() < slot) complete_send(send_queue_.completed(), Status::success);
    complete_send(slot, status);
  }
  if (status != Status::success) enter_send_queue_error();
  record_->counters.packets_sent.add_exclusive(burst.packets());
  record_->counters.bytes_sent.add_exclusive(burst.bytes());
  if (fatal_) fail();
  rearm_timer();
}

transport::DatagramConfig QueuePair::datagram_config() const {
  return {.qpn = number_, .qkey = attributes_.qkey, .mtu = adapter_.port().state().active_mtu};
}

Status QueuePair::send_datagram(Burst& burst, transport::Slot slot) {
  const SendWqe& wqe = send_queue_.wqe(slot);
  const DatagramTarget& target = send_queue_.target(slot);
  const DatagramPath* const path = path_to({target.address, target.source_gid_index, target.qpn});
  if (path == nullptr) return Status::local_qp_operation_error;
  const auto direct = send_directly(wqe.request, local_memory(slot), *path, target.qkey);
  if (direct) return *direct;
  if (adapter_.membership().only_direct) {
    log(LogLevel::warn, "VERBATIM_PATH=direct: no datagram of QP {:#x} goes to QP {:#x} at {}",
        number_.value(), target.qpn.value(), target.address.ip_text());
    return Status::local_qp_operation_error;
  }
  const auto packet = transport::make_datagram(
      datagram_config(), {.qpn = target.qpn, .qkey = target.qkey}, wqe.request, slot,
      attributes_.send_psn + static_cast<std::uint32_t>(slot));
  if (!packet) return packet.error();
  burst.use(*path->route);
  return add_request_packet(burst, *packet) ? Status::success : Status::local_protection_error;
}

bool QueuePair::is_own_multicast(const wire::Headers& headers, const SocketAddress& source) const {
  // Queue pairs of other nodes may have the same number.
  return headers.bth.dest_qp == kMulticastQpn && headers.deth.source_qp == number_ &&
         std::ranges::any_of(adapter_.port().gids(),
                             [&](const GidEntry& own) { return own.gid == gid_of(source); });
}

void QueuePair::on_datagram(const wire::Packet& packet, const SocketAddress& source,
                            const SocketAddress& destination) {
  const wire::Headers& headers = packet.headers;
  if (options_.ignores_own_multicast && is_own_multicast(headers, source)) return;
  if (const auto taken = transport::check_datagram(datagram_config(), packet); !taken) {
    if (taken.error() == transport::DatagramDrop::wrong_qkey) {
      record_->counters.qkey_violations.add_exclusive();
      adapter_.arena().header().port_counters.qkey_violations.add();
    }
    return;
  }
  if (!take_receive()) return;  // IBA 9.8.3.2: no_event dropped.
  const std::uint64_t byte_count = wire::Grh::kSize + packet.payload.size();
  const bool immediate = wire::info(headers.bth.opcode).has(wire::kImmediate);
  const wire::IpFlow flow = wire::flow_of(source, destination);
  Completion completion{.wr_id = current_receive_.wr_id,
                        .opcode = CompletionOpcode::receive,
                        .byte_count = static_cast<std::uint32_t>(byte_count),
                        .immediate = headers.immediate,
                        .qpn = number_.value(),
                        .source_qpn = headers.deth.source_qp.value(),
                        .flags = kCompletionGrh | (immediate ? kCompletionWithImmediate : 0),
                        .service_level = wire::packet_type(flow)};
  if (byte_count > current_receive_.capacity_bytes) {
    completion.status = Status::local_length_error;
  } else {
    const std::span segments(current_receive_.segments, current_receive_.segment_count);
    const DatagramHeader header(flow, immediate, packet.payload.size());
    if (!scatter(placement_hold_, regions_, receive_pd(), segments, 0, header.grh) ||
        !scatter(placement_hold_, regions_, receive_pd(), segments, header.grh.size(),
                 packet.payload)) {
      completion.status = Status::local_protection_error;
    }
  }
  push(receive_cq(), completion, headers.bth.solicited_event);
  if (completion.status != Status::success) fatal_ = true;  // IBA 10.3.1.5 (class of local errors).
}

}  // namespace verbatim::adapter
