#include "fabric/keeper/keeper.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "fabric/data/image/audit.h"
#include "fabric/data/walk/routes.h"
#include "fabric/keeper/management_packet.h"

namespace verbatim::fabric {

Result<std::unique_ptr<Keeper>> Keeper::create(const Topology& topology, Pace pace) {
  ImageOptions options;
  options.is_paced = pace == Pace::by_link;
  auto fabric = SharedFabric::create(topology, options);
  if (!fabric) return std::unexpected(std::move(fabric.error()));
  auto mover = (*fabric)->join();
  if (!mover) return std::unexpected(std::move(mover.error()));
  auto timer = TimerFd::create();
  if (!timer) return std::unexpected(std::move(timer.error()));
  return std::unique_ptr<Keeper>(
      new Keeper(std::move(*fabric), std::move(*mover), std::move(*timer), pace));
}

Keeper::Keeper(std::unique_ptr<SharedFabric> fabric, std::unique_ptr<Mover> mover, TimerFd timer,
               Pace pace)
    : fabric_(std::move(fabric)),
      mover_(std::move(mover)),
      end_(fabric_->image(), 0),
      timer_(std::move(timer)),
      pace_(pace) {}

Result<void> Keeper::open(const std::string& folder) {
  auto doorbells = Doorbells::open(folder);
  if (!doorbells) return std::unexpected(std::move(doorbells.error()));
  doorbells_ = std::move(*doorbells);
  auto bell = doorbells_.listen(0);
  if (!bell) return std::unexpected(std::move(bell.error()));
  bell_ = std::move(*bell);
  fabric_->set_doorbells(
      [](void* context, std::uint32_t end) { static_cast<Doorbells*>(context)->ring(end); },
      &doorbells_);
  return {};
}

bool Keeper::begin_sleep() {
  Header& header = fabric_->image().header();
  const TimeNs earliest = header.earliest.load(std::memory_order_seq_cst);
  const TimeNs due =
      earliest == kNever ? kNever : std::min(earliest + patience_, fabric_now() + kWaitMax);
  if (due != due_) set_timer(due);
  header.keeper_due.store(due, std::memory_order_seq_cst);
  if (!end_.begin_sleep()) return false;
  // Once more, after it has said so.
  const TimeNs now_earliest = header.earliest.load(std::memory_order_seq_cst);
  const bool is_too_late = now_earliest != kNever && now_earliest + kKeeperPatienceMax < due;
  if (!is_too_late && header.keeper_news.load(std::memory_order_seq_cst) == 0) return true;
  end_.end_sleep();
  return false;
}

/// The kernel's timer goes by the clock of this process.
void Keeper::set_timer(TimeNs due) {
  due_ = due;
  timer_.set(due == kNever ? kNever : due - fabric_now() + monotonic_now());
}

void Keeper::on_bell() {
  Doorbells::silence(bell_.get());
  patience_ = std::min(patience_, kKeeperPatience);
}

void Keeper::serve(TimeNs now) {
  end_.end_sleep();
  if (due_ <= now) {
    timer_.clear();
    due_ = kNever;
    mover_->walker().distrust_timers(now);
    // If programs serve the timed links, nothing is left to do now, nor will be.
    patience_ = mover_->walker().run_due(now) ? 0 : kKeeperPatienceMax;
  }
  mover_->walker().serve_left_over();
  end_.take_credit_news();
  end_.receive(mover_->walker(), 0, [this](const IncomingPacket& packet) { on_packet(packet); });
}

/// What agents and libibumad send does not come here. Queue pair 0 takes lane 15 alone, which
/// programs do not have.
void Keeper::on_packet(const IncomingPacket& packet) {
  const auto datagram = datagram_of(packet.bytes);
  if (!datagram || datagram->destination_qp != wire::kManagementQpn) {
    return log(LogLevel::debug, "a packet to queue pair 0 or 1 is no management datagram: dropped");
  }
  const NodeRecord& node = fabric_->image().node(packet.at_node);
  const bool is_host = node.kind == RecordKind::host;
  arrived_.push_back({.port = {node.topology_node, is_host ? node.topology_port : packet.at_port},
                      .datagram = *datagram});
}

void Keeper::hand_over(PortPlace port, const ManagementDatagram& datagram) {
  const ManagementPacket packet = packet_of(datagram);
  const std::array<ByteSpan, 1> pieces{packet.bytes()};
  if (!end_.reserve(packet.lane, static_cast<std::uint32_t>(packet.size))) {
    return log(LogLevel::info, "a datagram for queue pair {:#x} is lost: it has no room",
               datagram.destination_qp.value());
  }
  end_.post({.pieces = pieces,
             .dlid = datagram.path.dlid,
             .p_key = PKey{datagram.pkey},
             .service_level = datagram.path.service_level,
             .lane = packet.lane,
             .destination = datagram.destination_qp,
             .as_node = fabric_->image().station_of(port)});
  end_.push(mover_->walker());
}

Result<std::uint32_t> Keeper::attach(PortPlace host, std::uint32_t qpn_range) {
  const Ends ends = fabric_->ends();
  if (qpn_range >= kQpnRanges) {
    return refuse(EINVAL, fmt::format("there is no range {} of queue pair numbers", qpn_range));
  }
  if (ends.is_steered(host, qpn_range)) {
    return refuse(EADDRINUSE, fmt::format("another program of the host has the queue pair numbers "
                                          "from {:#x} on",
                                          qpn_range << kQpnRangeBits));
  }
  const auto end = fabric_->take_end(*mover_, host);
  if (end) ends.steer(*end, qpn_range);
  return end;
}

void Keeper::bury(std::uint32_t end) {
  fabric_->repair(*mover_);
  fabric_->bury_end(*mover_, end);
  doorbells_.remove(end);
}

Result<void> Keeper::set_member(std::uint32_t end, Lid group, bool is_member) {
  if (!Routes::is_multicast(raw(group))) {
    return refuse(EINVAL, fmt::format("LID {:#x} is no multicast group's", raw(group)));
  }
  fabric_->ends().set_member(end, group, is_member);
  return {};
}

Result<std::unique_ptr<TrunkEnd>> Keeper::plug_trunk(PortPlace place) {
  const auto end = fabric_->ends().take_trunk(place);
  if (!end) return std::unexpected(end.error());
  auto bell = doorbells_.listen(*end);
  if (!bell) return std::unexpected(std::move(bell.error()));
  return std::make_unique<TrunkEnd>(*fabric_, *mover_, *end, std::move(*bell));
}

std::vector<std::string> Keeper::audit() const { return fabric::audit(fabric_->image()); }

void Keeper::set_bit_error_rate(std::uint32_t cable, double rate) {
  fabric_->set_bit_error_rate(*mover_, cable, rate, 2 * std::uint64_t{cable});
  for (const bool from_b : {false, true}) {
    const LinkIndex index = fabric_->image().link_of_cable(cable, from_b);
    noisy_links_.erase(index);
    if (rate == 0) continue;
    noisy_links_[index].integrity_errors = fabric_->image().link(index).integrity_errors;
  }
}

std::vector<PortPlace> Keeper::take_integrity_errors(TimeNs now) {
  std::vector<PortPlace> ports;
  const Image& image = fabric_->image();
  for (auto& [index, known] : noisy_links_) {
    const LinkRecord& link = image.link(index);
    if (link.integrity_errors == known.integrity_errors || now < known.next) continue;
    known = {.integrity_errors = link.integrity_errors, .next = now + kSecond};
    const NodeRecord& node = image.node(link.end);
    ports.push_back(
        {node.topology_node, node.kind == RecordKind::host ? node.topology_port : link.end_port});
  }
  return ports;
}

void Keeper::set_watched(std::uint32_t cable, bool is_watched) {
  fabric_->set_watched(cable, is_watched);
}

void Keeper::on_crossing(std::uint32_t cable, bool from_b, const ManagementDatagram& datagram,
                         bool is_damaged) {
  const Image& image = fabric_->image();
  const auto packet = packet_of(datagram);
  image.tap().add({.at = fabric_now(),
                   .link = image.link_of_cable(cable, from_b),
                   .lane = packet.lane,
                   .is_damaged = static_cast<std::uint8_t>(is_damaged ? 1 : 0)},
                  packet.bytes());
}

std::unique_ptr<mad::NodeTables> Keeper::make_tables(std::uint32_t node) {
  return std::make_unique<SharedNodeTables>(*fabric_, *mover_, node, pace_);
}

void Keeper::add_counters(PortPlace port, mad::PortCounterValues& values) const {
  const Image& image = fabric_->image();
  const NodeIndex node = image.station_of(port);
  const bool is_host = image.node(node).kind == RecordKind::host;
  if (node == 0 || (!is_host && port.port == 0)) return;
  const auto [out, in, damage, integrity_errors_in, integrity_errors_out] =
      fabric_->tables().counts(node, is_host ? kCablePort : port.port, fabric_now());
  values.transmit_data += out.words;
  values.receive_data += in.words;
  values.transmit_packets += out.packets;
  values.receive_packets += in.packets;
  values.multicast_transmit_packets += out.multicast_packets;
  values.multicast_receive_packets += in.multicast_packets;
  values.transmit_wait += out.wait_ns / mad::kTransmitWaitTickNs;
  values.inactive_discards += out.inactive_discards;
  values.neighbor_mtu_discards += out.mtu_discards;
  values.head_of_queue_discards += out.hoq_discards;
  values.lifetime_discards += out.lifetime_discards;
  values.transmit_constraint_errors += out.p_key_errors;
  values.receive_constraint_errors += in.p_key_errors_in;
  values.symbol_errors += damage.symbol_errors;
  values.local_physical_errors += damage.packets;
  values.local_link_integrity_errors += integrity_errors_in;
  values.link_error_recoveries += integrity_errors_in + integrity_errors_out;
  values.vl15_dropped += in.management_dropped;
  values.dlid_mapping_errors += in.dlid_errors;
  values.vl_mapping_errors += in.lane_errors;
  values.looping_errors += in.looping_errors;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    values.lane_receive_packets[lane] += in.lanes[lane].packets;
    values.lane_receive_data[lane] += in.lanes[lane].words;
    values.lane_transmit_wait[lane] += out.lane_wait_ns[lane] / mad::kTransmitWaitTickNs;
  }
  for (unsigned level = 0; level < out.level_words.size(); ++level) {
    values.level_transmit_data[level] += out.level_words[level];
    values.level_receive_data[level] += in.level_words[level];
  }
}

}  // namespace verbatim::fabric
