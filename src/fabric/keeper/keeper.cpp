#include "fabric/keeper/keeper.h"

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "fabric/data/walk/routes.h"

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
  const TimeNs due = earliest == kNever ? kNever : earliest + patience_;
  if (due != timer_.at()) timer_.set(due);
  header.keeper_due.store(due, std::memory_order_seq_cst);
  if (!end_.begin_sleep()) return false;
  // Once more, after it has said so.
  const TimeNs now_earliest = header.earliest.load(std::memory_order_seq_cst);
  const bool is_too_late = now_earliest != kNever && now_earliest + kKeeperPatience < due;
  if (!is_too_late && header.keeper_news.load(std::memory_order_seq_cst) == 0) return true;
  end_.end_sleep();
  return false;
}

void Keeper::serve(TimeNs now) {
  end_.end_sleep();
  if (bell_) Doorbells::silence(bell_.get());
  if (timer_.at() <= now) {
    timer_.clear();
    // If programs serve the timed links, nothing is left to do now, nor will be.
    patience_ = mover_->walker().run_due(now) ? 0 : kKeeperPatience;
  }
  mover_->walker().serve_left_over();
  end_.take_credit_news();
  // Agents hear of programs' datagrams by their sockets, not from here.
  const std::size_t dropped =
      end_.receive(mover_->walker(), 0, [](const IncomingPacket& /*packet*/) {});
  if (dropped != 0) {
    log(LogLevel::debug, "{} packets to queue pairs 0 and 1 came by the data path: dropped",
        dropped);
  }
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
  const auto end = ends.take(host);
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

std::unique_ptr<mad::NodeTables> Keeper::make_tables(std::uint32_t node) {
  return std::make_unique<SharedNodeTables>(*fabric_, *mover_, node, pace_);
}

void Keeper::add_counters(PortPlace port, mad::PortCounterValues& values) const {
  const Image& image = fabric_->image();
  const NodeIndex node = image.station_of(port);
  const bool is_switch = image.node(node).kind == RecordKind::switch_node;
  if (node == 0 || (is_switch && port.port == 0)) return;
  const auto [out, in] = fabric_->tables().counts(node, is_switch ? port.port : kCablePort);
  values.transmit_data += out.words;
  values.receive_data += in.words;
  values.transmit_packets += out.packets;
  values.receive_packets += in.packets;
  values.multicast_transmit_packets += out.multicast_packets;
  values.multicast_receive_packets += in.multicast_packets;
  values.transmit_wait += out.wait_ns;
  values.inactive_discards += out.inactive_discards;
  values.neighbor_mtu_discards += out.mtu_discards;
  values.head_of_queue_discards += out.hoq_discards;
  values.lifetime_discards += out.lifetime_discards;
  values.transmit_constraint_errors += out.p_key_errors;
  values.receive_constraint_errors += in.p_key_errors_in;
  values.vl15_dropped += in.management_dropped;
  values.dlid_mapping_errors += in.dlid_errors;
  values.vl_mapping_errors += in.lane_errors;
  values.looping_errors += in.looping_errors;
}

}  // namespace verbatim::fabric
