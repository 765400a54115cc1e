#include "link/fabric/fabric_link.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "base/log.h"
#include "fabric/protocol/channel.h"
#include "link/fabric/outgoing_headers.h"
#include "link/pieces.h"

namespace verbatim::link {
namespace {

/// A flood of packets with wrong P_Keys is none of reports.
constexpr TimeNs kReportInterval = 100 * kMillisecond;

}  // namespace

class FabricLink::LaneHop final : public NextHop {
 public:
  explicit LaneHop(std::uint8_t lane) { lane_ = lane; }
};

Result<std::unique_ptr<FabricLink>> FabricLink::attach(UniqueFd connection,
                                                       const std::string& folder,
                                                       const Place& place) {
  fabric::protocol::AttachData request{.port = place.port, .qpn_range = place.qpn_range};
  fabric::protocol::put_text(request.host, place.host);
  UniqueFd memory;
  const auto attached =
      fabric::protocol::ask<fabric::protocol::DataAttached>(connection.get(), request, &memory);
  if (!attached) return std::unexpected(attached.error());
  auto fabric = std::make_shared<AttachedFabric>();
  auto shared = fabric::SharedFabric::attach(memory.get());
  if (!shared) return std::unexpected(std::move(shared.error()));
  fabric->fabric = std::move(*shared);
  fabric->end = attached->end;
  auto doorbells = fabric::Doorbells::open(folder);
  if (!doorbells) return std::unexpected(std::move(doorbells.error()));
  fabric->doorbells = std::move(*doorbells);
  auto bell = fabric->doorbells.listen(attached->end);
  if (!bell) return std::unexpected(std::move(bell.error()));
  fabric->fabric->set_doorbells(
      [](void* bells, std::uint32_t end) { static_cast<fabric::Doorbells*>(bells)->ring(end); },
      &fabric->doorbells);
  return std::unique_ptr<FabricLink>(
      new FabricLink(std::move(fabric), std::move(connection), std::move(*bell)));
}

FabricLink::FabricLink(std::shared_ptr<AttachedFabric> fabric, UniqueFd connection, UniqueFd bell)
    : fabric_(std::move(fabric)),
      end_(fabric_->fabric->image(), fabric_->end),
      connection_(std::move(connection)),
      bell_(std::move(bell)),
      descriptor_(bell_.get()) {
  for (std::size_t lane = 0; lane < hops_.size(); ++lane) {
    hops_[lane] = std::make_unique<LaneHop>(static_cast<std::uint8_t>(lane));
  }
}

FabricLink::~FabricLink() = default;

fabric::LinkRecord& FabricLink::cable() const {
  const fabric::Image& image = fabric_->fabric->image();
  const fabric::NodeRecord& host = image.node(image.end(end_.index()).host);
  return image.link(image.port(host, fabric::kCablePort).out);
}

Properties FabricLink::properties() const {
  constexpr std::uint64_t kBitsAndPsPerMicrosecond = 8 * 1'000'000;
  const std::uint32_t bytes_max = cable().bytes_max.load(std::memory_order_relaxed);
  const std::uint64_t ps_per_byte = cable().ps_per_byte.load(std::memory_order_relaxed);
  return {.first_header = FirstHeader::lrh,
          .packet_bytes_max =
              bytes_max != 0 ? bytes_max : static_cast<std::uint32_t>(fabric::kPacketBytesMax),
          .rate_mbps = ps_per_byte == 0
                           ? 0
                           : static_cast<std::uint32_t>(kBitsAndPsPerMicrosecond / ps_per_byte),
          .lossless = true,
          .checks_integrity = false,
          .asks_kernel = false};
}

/// EHOSTUNREACH: the subnet manager has no lane for the path's service level.
Result<NextHop*> FabricLink::next_hop(const Path& path, Qpn /*destination*/,
                                      std::optional<TimeNs> /*patience*/) {
  const auto* const infiniband = std::get_if<InfinibandPath>(&path);
  if (infiniband == nullptr) return refuse(EINVAL, "a fabric's link takes paths of InfiniBand");
  const unsigned lane = end_.lane_of(infiniband->service_level);
  if (lane != fabric::kNoLane) return hops_[lane].get();
  return refuse(EHOSTUNREACH, fmt::format("the port has no virtual lane for service level {}",
                                          infiniband->service_level));
}

bool FabricLink::reserve(std::uint8_t lane, const Reservation& room) {
  const std::lock_guard guard(posting_);
  return end_.reserve(lane, {room.packets, room.blocks});
}

void FabricLink::release(std::uint8_t lane, const Reservation& room) {
  fabric::Mover* const mover = mover_of_this_thread(fabric_);
  const std::lock_guard guard(posting_);
  release(mover, lane, room);
}

/// Requires the lock.
void FabricLink::release(fabric::Mover* mover, std::uint8_t lane, const Reservation& room) {
  if (mover == nullptr) return end_.release(lane, {room.packets, room.blocks});
  end_.release(mover->walker(), lane, {room.packets, room.blocks});
}

void FabricLink::damage(std::uint8_t lane, std::uint32_t bytes) {
  release(lane, Reservation::of(bytes));
  // Those who move packets of the cable may add to it at the same time.
  std::atomic_ref(cable().damage.packets).fetch_add(1, std::memory_order_relaxed);
}

/// What cannot be sent counts as lost: its reservation goes back.
int FabricLink::send(const Packets& packets) noexcept {
  VERBATIM_ASSERT(packets.packet_bytes <= fabric::kPacketBytesMax);
  fabric::Mover* const mover = mover_of_this_thread(fabric_);
  int error = mover == nullptr ? ENOBUFS : 0;
  PieceCursor cursor(packets.pieces);
  std::size_t left = total_bytes(packets.pieces);
  std::optional<OutgoingHeaders> headers;  // Of the first, and of all.
  const std::lock_guard guard(posting_);
  for (std::uint32_t i = 0; i < packets.count; ++i) {
    const MutableByteSpan packet = end_.next_packet(std::min(left, packets.packet_bytes));
    left -= cursor.copy(packet);
    if (i == 0) {
      headers = outgoing_headers(packet);
      if (!headers && error == 0) error = EINVAL;
    }
    if (error == 0) {
      end_.post({.pieces = {},
                 .dlid = headers->dlid,
                 .p_key = headers->p_key,
                 .service_level = headers->service_level,
                 .lane = packets.lane,
                 .destination = headers->destination},
                packet.size());
    } else {
      release(mover, packets.lane, Reservation::of(packet.size()));
    }
  }
  if (error == 0) end_.push(mover->walker());
  if (packets.spare.blocks != 0) release(mover, packets.lane, packets.spare);
  return error;
}

std::size_t FabricLink::receive(Sink& sink, TimeNs now) {
  if (end_.take_credit_news()) sink.on_room();
  const TimeNs fabric_time = has_foreign_clock_ ? fabric::fabric_now() : now;
  // The most frequent case, in which no mover is looked for.
  if (!end_.has_work(fabric_time)) return 0;
  fabric::Mover* const mover = mover_of_this_thread(fabric_);
  if (mover == nullptr) return 0;
  return end_.receive(mover->walker(), fabric_time, [&](const fabric::IncomingPacket& packet) {
    sink.on_packets({.from = nullptr,
                     .to = nullptr,
                     .group = {},
                     .packet_bytes = packet.bytes.size(),
                     .bytes = packet.bytes},
                    now);
  });
}

Result<void> FabricLink::join(const MulticastGroup& group) {
  const std::lock_guard guard(asking_);
  if (!members_.contains(group.lid)) {
    if (auto joined = set_member(group.lid, true); !joined) return joined;
  }
  ++members_[group.lid];
  return {};
}

void FabricLink::leave(const MulticastGroup& group) {
  const std::lock_guard guard(asking_);
  const auto known = members_.find(group.lid);
  if (known == members_.end() || --known->second != 0) return;
  members_.erase(known);
  if (const auto left = set_member(group.lid, false); !left) {
    log(LogLevel::warn, "multicast LID {:#x} is not left: {}", raw(group.lid), left.error().text);
  }
}

Result<void> FabricLink::set_member(Lid group, bool is_member) {
  const auto done = fabric::protocol::ask<fabric::protocol::Done>(
      connection_.get(), fabric::protocol::JoinGroup{
                             .lid = raw(group), .is_member = static_cast<std::uint8_t>(is_member)});
  if (!done) return std::unexpected(done.error());
  return {};
}

void FabricLink::report_bad_key(wire::TrapNumber trap, const wire::BadKeyDetails& details) {
  const bool is_q_key = trap == wire::TrapNumber::bad_q_key;
  BadKeys& keys = is_q_key ? bad_q_keys_ : bad_p_keys_;
  keys.unreported.fetch_add(1, std::memory_order_relaxed);
  const TimeNs now = monotonic_now();
  TimeNs due = keys.next_report.load(std::memory_order_relaxed);
  if (now < due || !keys.next_report.compare_exchange_strong(due, now + kReportInterval)) return;
  const std::uint32_t count = keys.unreported.exchange(0, std::memory_order_relaxed);
  const fabric::protocol::BadKeyReport report{
      .is_q_key = static_cast<std::uint8_t>(is_q_key ? 1 : 0),
      .service_level = details.service_level,
      .count = static_cast<std::uint16_t>(std::min(count, 0xffffU)),  // As the port's counter.
      .key = details.key,
      .source_lid = raw(details.source_lid),
      .destination_lid = raw(details.destination_lid),
      .source_qpn = details.source_qpn,
      .destination_qpn = details.destination_qpn,
      .source_gid = details.source_gid,
      .destination_gid = details.destination_gid};
  (void)fabric::protocol::send(connection_.get(), report, -1, MSG_DONTWAIT);
}

bool FabricLink::begin_sleep() {
  fabric::Doorbells::silence(bell_.get());
  if (!end_.begin_sleep()) return false;
  if (end_.awaits_keeper()) {
    if (fabric::Mover* const mover = mover_of_this_thread(fabric_)) mover->walker().tell_keeper();
  }
  return true;
}

}  // namespace verbatim::link
