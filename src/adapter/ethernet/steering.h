#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "adapter/ethernet/flow_table.h"
#include "adapter/ethernet/frame_delivery.h"
#include "adapter/progress/progress.h"
#include "adapter/progress/task.h"
#include "base/error.h"
#include "base/net/address.h"
#include "base/time.h"
#include "base/types.h"
#include "link/ethernet/ethernet.h"

namespace verbatim::adapter {

/// The Ethernet side of an adapter: sends the frames of raw packet queue pairs, and delivers
/// received frames by flow rules. Nothing is open before the first raw packet queue pair, and no
/// frame is received while there is no rule.
///
/// Frames that the node itself sends are also received if they go to a group or to the node's own
/// address, as with loopback in an adapter; only sniffers see other sent frames.
class Steering final : public Source {
 public:
  /// Delivers a frame to the queue pair with that number, if there is one. Called in a pass.
  using Deliver = std::function<void(Qpn target, const SteeredFrame& frame)>;
  Steering(Progress& progress, Deliver deliver)
      : progress_(progress), deliver_(std::move(deliver)) {}

  // The control path; one thread at a time.
  /// Fails with EPERM and other errors of link::EthernetPort::open.
  Result<void> open(const link::EthernetIdentity& identity, const MacAddress& own_mac);
  Result<FlowTable::RuleId> add(FlowRule rule);
  void remove(FlowTable::RuleId id);
  void remove_all(Qpn target);
  bool is_target(Qpn target) const { return rules_.has_target(target); }

  /// Sends a batch. Requires `open`.
  int send(const link::FrameBatch& batch) const { return port_->send(batch); }
  std::size_t frame_bytes_max() const { return port_->frame_bytes_max(); }

  /// Called in a pass: receives what has arrived.
  std::size_t receive(TimeNs now) override;
  bool begin_sleep() override { return !receiving_ || port_->begin_sleep(); }

 private:
  struct FrameDelivery {
    Qpn target;
    std::uint32_t tag = 0;
  };
  void on_frame(const link::ReceivedFrame& received);
  void find_deliveries(const wire::Frame& frame, std::size_t bytes, bool sent);
  void stop_where_empty();

  Progress& progress_;
  const Deliver deliver_;
  MacAddress own_mac_{};
  std::unique_ptr<link::EthernetPort> port_;  // Set once, before any sender.
  FlowTable rules_;                           // Changed between passes.
  bool receiving_ = false;
  std::vector<FrameDelivery> deliveries_;  // For the current frame.
};

}  // namespace verbatim::adapter
