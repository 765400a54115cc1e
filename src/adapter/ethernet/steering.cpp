#include "adapter/ethernet/steering.h"

#include <algorithm>

#include "adapter/adapter.h"
#include "adapter/progress/progress.h"
#include "adapter/queue_pair/queue_pair.h"
#include "wire/net/frame_checksum.h"

namespace verbatim::adapter {

Result<void> Steering::open() {
  if (port_) return {};
  const NodeDescription& node = adapter_.node();
  const auto gids = node.gids.elements();
  const auto ipv4 =
      std::ranges::find_if(gids, [](const GidEntry& entry) { return entry.address.is_ipv4(); });
  auto port = link::EthernetPort::open(
      {.interface = node.interface,
       .interface_index = node.interface_index,
       .address = ipv4 != gids.end() ? ipv4->address : gids.front().address});
  if (!port) return std::unexpected(port.error());
  own_mac_ = node.mac;
  port_ = std::move(*port);
  adapter_.progress().add(*this);
  return {};
}

Result<FlowTable::RuleId> Steering::add(FlowRule rule) {
  Progress& progress = adapter_.progress();
  if (!receiving_) {
    const auto fd = port_->start_receiving();
    if (!fd) return std::unexpected(fd.error());
    if (auto heard = progress.listen(*fd); !heard) {
      port_->stop_receiving();
      return std::unexpected(heard.error());
    }
  }
  FlowTable::RuleId id = 0;
  progress.between_passes([&] {
    id = rules_.add(std::move(rule));
    receiving_ = true;
  });
  return id;
}

void Steering::remove(FlowTable::RuleId id) {
  adapter_.progress().between_passes([&] {
    rules_.remove(id);
    stop_where_empty();
  });
}

bool Steering::is_target(const QueuePair& queue_pair) const {
  return rules_.has_target(queue_pair.number());
}

void Steering::forget(const QueuePair& queue_pair) {
  if (!is_target(queue_pair)) return;
  adapter_.progress().between_passes([&] {
    rules_.remove_all(queue_pair.number());
    stop_where_empty();
  });
}

void Steering::stop_where_empty() {
  if (!rules_.empty() || !receiving_) return;
  receiving_ = false;
  port_->stop_receiving();  // Closing the socket takes it out of the epoll set.
}

std::size_t Steering::receive(TimeNs /*now*/) {
  if (!receiving_) return 0;
  return port_->receive([this](const link::ReceivedFrame& frame) { on_frame(frame); });
}

void Steering::on_frame(const link::ReceivedFrame& received) {
  const wire::Frame frame = wire::parse_frame(received.bytes);
  const bool looped = frame.is_group() || frame.outer.fields.destination_mac == own_mac_;
  find_deliveries(frame, received.bytes.size(), received.sent && !looped);
  if (deliveries_.empty()) return;
  if (received.checksums_missing) wire::fill_checksums(received.bytes, frame.outer);
  const bool valid = wire::checksums_valid(received.bytes, frame.outer);
  for (const FrameDelivery& delivery : deliveries_) {
    delivery.queue_pair->on_frame(
        {.bytes = received.bytes, .layers = frame, .tag = delivery.tag, .checksums_valid = valid});
  }
}

void Steering::find_deliveries(const wire::Frame& frame, std::size_t bytes, bool sent) {
  deliveries_.clear();
  rules_.steer(frame, sent, [&](const FlowRule& rule) {
    if (rule.counter != nullptr) rule.counter->count(bytes);
    QueuePair* const target = adapter_.numbers_.find(rule.target);
    // A queue pair gets a frame once, however many of its rules match.
    if (rule.drop || target == nullptr ||
        std::ranges::find(deliveries_, target, &FrameDelivery::queue_pair) != deliveries_.end()) {
      return;
    }
    deliveries_.push_back({target, rule.tag});
  });
}

}  // namespace verbatim::adapter
