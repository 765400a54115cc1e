#include "adapter/services/datagram.h"

#include <algorithm>
#include <ranges>

#include "adapter/memory/scatter.h"
#include "adapter/progress/progress.h"
#include "adapter/services/request_packet.h"
#include "base/log.h"
#include "port/port.h"

namespace verbatim::adapter::services {

using transport::Status;

namespace {

/// A destination that shared memory does not reach is looked for again after so long.
constexpr TimeNs kLookAgain = 100 * kMillisecond;
/// So large a datagram is copied by the kernel while the program is in no call. A larger one is
/// seldom what comes late, to buffers that go, and a system call would cost most of its rate.
constexpr std::uint64_t kCopiedByKernelMax = 1024;

}  // namespace

void Datagram::enter(QpState from, QpState to, std::uint32_t changed) {
  if (from == QpState::init && to == QpState::rtr) {
    direct_.open_target(core_.attributes.address.dest_gid);
  } else if ((changed & kQKey) != 0 && from != QpState::reset && from != QpState::init) {
    direct_.change_target();
  }
}

/// Not while a burst is under way: it may use one of them.
void Datagram::forget_old_paths() {
  constexpr std::size_t kPathsMax = 4096;
  if (paths_.size() > kPathsMax) paths_.clear();
}

/// Null where no socket can be had.
const DatagramPath* Datagram::path_to(const DatagramPathKey& key, TimeNs now) {
  DatagramPath& path = paths_[key];
  if (!path.route) {
    const auto route = core_.port().route(key.source_gid_index, key.path, key.qpn);
    if (!route) return nullptr;
    path.route = *route;
  }
  if (path.link != nullptr && !path.link->is_there()) path.link.reset();
  if (path.link != nullptr || !direct_.is_allowed() || key.qpn == kMulticastQpn) return &path;
  if (now == 0) now = monotonic_now();
  if (now < path.look_again) return &path;
  path.look_again = now + kLookAgain;
  path.link = direct_.link_to(key.path, key.qpn, key.source_gid_index);
  path.origin = port::origin_of(key.path, path.route->headers, core_.port().lids().lmc);
  return &path;
}

/// Nothing: it goes over the wire.
std::optional<Status> Datagram::send_directly(const transport::SendRequest& request,
                                              const LocalMemory& local, const DatagramPath& path,
                                              QKey qkey) {
  if (path.link == nullptr || request.length > bytes_of(core_.port().state().active_mtu)) return {};
  const bool controlled = (raw(qkey) & transport::kControlledQKey) != 0;
  const port::Datagram datagram{controlled ? core_.attributes.qkey : qkey, core_.pkey,
                                path.route->headers, path.origin};
  const DirectLink::Outcome outcome = path.link->send_datagram(request, local, datagram);
  direct_.count(*path.link, outcome, request.length);
  return path.link->status();
}

std::optional<Status> Datagram::send_directly(const SendWork& work, const LocalMemory& local) {
  forget_old_paths();
  const Destination& to = *work.destination;
  const DatagramPath* const path = path_to({to.path, to.vector.source_gid_index, work.remote_qpn});
  if (path == nullptr) return {};
  return send_directly(work.request, local, *path, work.remote_qkey);
}

void Datagram::transmit(TimeNs now) {
  if (core_.state() != QpState::rts) return;
  /// Nothing but its socket's buffer holds back what comes for a peer.
  constexpr std::uint64_t kTogether = 16;
  forget_old_paths();
  port::Burst burst(core_.around.arena.header().port_counters);
  Status status = Status::success;
  while (status == Status::success && core_.handed < core_.sends.posted() && core_.may_send(now)) {
    const transport::Slot slot = core_.handed;
    const auto sent = send(burst, slot, now);
    if (!sent) break;  // No room: it waits.
    ++core_.handed;
    status = *sent;
    const bool failed = status != Status::success;
    const bool ends = failed || core_.handed == core_.sends.posted() || core_.pacer.is_limited() ||
                      core_.handed - core_.sends.completed() == kTogether;
    if (!ends) continue;
    burst.flush();  // The requests complete now: their memory is the program's again.
    while (core_.sends.completed() < slot)
      core_.complete_send(core_.sends.completed(), Status::success);
    core_.complete_send(slot, status);
  }
  burst.flush();
  while (core_.sends.completed() < core_.handed) {  // Before one that waits for room.
    core_.complete_send(core_.sends.completed(), Status::success);
  }
  if (status != Status::success) core_.enter_send_queue_error();
  core_.record.counters.packets_sent.add_exclusive(burst.packets());
  core_.record.counters.bytes_sent.add_exclusive(burst.bytes());
}

transport::DatagramConfig Datagram::config() const {
  return {.qpn = core_.number,
          .pkey = core_.pkey,
          .qkey = core_.attributes.qkey,
          .mtu = core_.port().state().active_mtu};
}

std::optional<Status> Datagram::send(port::Burst& burst, transport::Slot slot, TimeNs now) {
  const SendWqe& wqe = core_.sends.wqe(slot);
  const DatagramTarget& target = core_.sends.target(slot);
  const DatagramPath* const path = path_to({target.path, target.source_gid_index, target.qpn}, now);
  if (path == nullptr) return Status::local_qp_operation_error;
  const std::uint64_t bytes = wqe.request.length + kWireOverheadBytes;
  const auto direct = send_directly(wqe.request, core_.local_memory(slot), *path, target.qkey);
  if (direct) {
    core_.pacer.count(now, bytes);
    return direct;
  }
  if (core_.around.only_direct) {
    log(LogLevel::warn, "VERBATIM_PATH=direct: no datagram of QP {:#x} goes to QP {:#x} at {}",
        core_.number.value(), target.qpn.value(), path_text(target.path));
    return Status::local_qp_operation_error;
  }
  const auto packet =
      transport::make_datagram(config(), {.qpn = target.qpn, .qkey = target.qkey}, wqe.request,
                               slot, core_.attributes.send_psn + static_cast<std::uint32_t>(slot));
  if (!packet) return packet.error();
  burst.use(*path->route);
  if (!has_room(core_, burst, packet->payload.length)) return std::nullopt;
  core_.pacer.count(now, bytes, path->route->rate_kbps);
  return add_request_packet(core_, burst, *packet) ? Status::success
                                                   : Status::local_protection_error;
}

bool Datagram::is_own_multicast(const wire::Headers& headers, const Path& from) const {
  const auto* const infiniband = std::get_if<InfinibandPath>(&from);
  const Gid source = infiniband != nullptr ? infiniband->grh.value_or(GlobalRoute{}).destination
                                           : gid_of(address_of(from));
  // Queue pairs of other nodes may have the same number.
  const auto indices = std::views::iota(std::size_t{0}, core_.port().gids().size());
  return headers.bth.dest_qp == kMulticastQpn && headers.deth.source_qp == core_.number &&
         std::ranges::any_of(indices, [&](auto i) { return core_.port().gid(i) == source; });
}

void Datagram::on_packet(const wire::Packet& packet, const Path& from, const Path& to) {
  const wire::Headers& headers = packet.headers;
  const auto* const infiniband = std::get_if<InfinibandPath>(&to);
  if (infiniband != nullptr && infiniband->port != core_.port().number()) {
    core_.around.arena.header().port_counters.dropped_no_qp.add();  // That port has no such QP.
    return;
  }
  if (core_.options.ignores_own_multicast && is_own_multicast(headers, from)) return;
  if (const auto taken = transport::check_datagram(config(), packet); !taken) {
    if (taken.error() == transport::DatagramDrop::wrong_qkey) {
      core_.record.counters.qkey_violations.add_exclusive();
      core_.on_bad_key(wire::TrapNumber::bad_q_key, raw(headers.deth.qkey), headers, from);
    }
    return;
  }
  if (!core_.take_receive()) return;  // IBA 9.8.3.2: no_event dropped.
  const std::uint64_t byte_count = wire::Grh::kSize + packet.payload.size();
  const bool immediate = wire::info(headers.bth.opcode).has(wire::kImmediate);
  const wire::IpFlow flow = port::flow_of(from, to);
  const port::DatagramOrigin origin = port::origin_of(to, flow, core_.port().lids().lmc);
  Completion completion{
      .wr_id = core_.receives.current.wr_id,
      .opcode = CompletionOpcode::receive,
      .service_level = origin.service_level,
      .path_bits = origin.path_bits,
      .byte_count = static_cast<std::uint32_t>(byte_count),
      .immediate = headers.immediate,
      .qpn = core_.number.value(),
      .source_qpn = headers.deth.source_qp.value(),
      .flags = (origin.has_grh ? kCompletionGrh : 0) | (immediate ? kCompletionWithImmediate : 0),
      .pkey_index = core_.attributes.pkey_index,
      .source_lid = origin.source_lid};
  if (byte_count > core_.receives.current.capacity_bytes) {
    completion.status = Status::local_length_error;
  } else {
    const std::span segments(core_.receives.current.segments, core_.receives.current.segment_count);
    const bool unattended =
        core_.around.progress.is_unattended() && byte_count <= kCopiedByKernelMax;
    const auto write = unattended ? scatter<region::write_unattended> : scatter<>;
    const auto place = [&](std::uint64_t offset, ByteSpan bytes) {
      return write(core_.placing, core_.regions, core_.receive_pd(), segments, offset, bytes);
    };
    // Without a GRH its 40 bytes stay as they are (IBA 11.4.2.1).
    const auto place_grh = [&] {
      return place(0, port::DatagramHeader(flow, immediate, packet.payload.size()).grh);
    };
    if ((origin.has_grh && !place_grh()) || !place(wire::Grh::kSize, packet.payload)) {
      completion.status = Status::local_protection_error;
    }
  }
  core_.push(core_.receive_cq(), completion, headers.bth.solicited_event);
  if (completion.status != Status::success)
    core_.fatal = true;  // IBA 10.3.1.5 (class of local errors).
}

void Datagram::on_peer_gone(const DirectPeer& peer) {
  std::erase_if(paths_, [&peer](const auto& one) {
    return one.second.link != nullptr && &one.second.link->peer() == &peer;
  });
}

}  // namespace verbatim::adapter::services
