#include "adapter/ethernet/steering.h"

#include <algorithm>

#include "wire/net/frame_checksum.h"

namespace verbatim::adapter {

Result<void> Steering::open(const link::EthernetIdentity& identity, const MacAddress& own_mac) {
  if (port_) return {};
  auto port = link::EthernetPort::open(identity);
  if (!port) return std::unexpected(port.error());
  own_mac_ = own_mac;
  port_ = std::move(*port);
  progress_.add(*this);
  return {};
}

Result<FlowTable::RuleId> Steering::add(FlowRule rule) {
  if (!receiving_) {
    const auto fd = port_->start_receiving();
    if (!fd) return std::unexpected(fd.error());
    if (auto heard = progress_.listen(*fd); !heard) {
      port_->stop_receiving();
      return std::unexpected(heard.error());
    }
  }
  FlowTable::RuleId id = 0;
  progress_.between_passes([&] {
    id = rules_.add(std::move(rule));
    receiving_ = true;
  });
  return id;
}

void Steering::remove(FlowTable::RuleId id) {
  progress_.between_passes([&] {
    rules_.remove(id);
    stop_where_empty();
  });
}

void Steering::remove_all(Qpn target) {
  if (!is_target(target)) return;
  progress_.between_passes([&] {
    rules_.remove_all(target);
    stop_where_empty();
  });
}

void Steering::stop_where_empty() {
  if (!rules_.empty() || !receiving_) return;
  receiving_ = false;
  port_->stop_receiving();  // Closing the socket removes it from the epoll set.
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
    deliver_(
        delivery.target,
        {.bytes = received.bytes, .layers = frame, .tag = delivery.tag, .checksums_valid = valid});
  }
}

void Steering::find_deliveries(const wire::Frame& frame, std::size_t bytes, bool sent) {
  deliveries_.clear();
  rules_.steer(frame, sent, [&](const FlowRule& rule) {
    if (rule.counter != nullptr) rule.counter->count(bytes);
    // A queue pair gets a frame once, even if several of its rules match.
    if (rule.drop ||
        std::ranges::find(deliveries_, rule.target, &FrameDelivery::target) != deliveries_.end()) {
      return;
    }
    deliveries_.push_back({rule.target, rule.tag});
  });
}

}  // namespace verbatim::adapter
