#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "adapter/ethernet/flow_table.h"
#include "adapter/ethernet/frame_delivery.h"
#include "adapter/progress/task.h"
#include "base/error.h"
#include "base/net/address.h"
#include "base/time.h"
#include "link/ethernet/ethernet.h"

namespace verbatim::adapter {

class Adapter;
class QueuePair;

/// The Ethernet side of an adapter: what raw packet queue pairs send leaves here, and frames that
/// come go where the flow rules lead. Nothing is open before the first raw packet queue pair, and
/// no frame is received while there is no rule.
///
/// Frames that the node itself sends come back where they go to a group or to the node's own
/// address, as from an adapter that loops them back; other sent frames only sniffers see.
class Steering final : public Source {
 public:
  explicit Steering(Adapter& adapter) : adapter_(adapter) {}

  // The control path: one thread at a time.
  /// EPERM and what else link::EthernetPort::open says.
  Result<void> open();
  Result<FlowTable::RuleId> add(FlowRule rule);
  void remove(FlowTable::RuleId id);
  void forget(const QueuePair& queue_pair);
  bool is_target(const QueuePair& queue_pair) const;

  /// Sends a batch; only after `open`.
  int send(const link::FrameBatch& batch) const { return port_->send(batch); }
  std::size_t frame_bytes_max() const { return port_->frame_bytes_max(); }

  /// During a turn: receives what is there.
  std::size_t receive(TimeNs now) override;

 private:
  struct FrameDelivery {
    QueuePair* queue_pair = nullptr;
    std::uint32_t tag = 0;
  };
  void on_frame(const link::ReceivedFrame& received);
  void find_deliveries(const wire::Frame& frame, std::size_t bytes, bool sent);
  void stop_where_empty();

  Adapter& adapter_;
  MacAddress own_mac_{};
  std::unique_ptr<link::EthernetPort> port_;  // Set once, before anybody sends.
  FlowTable rules_;                           // Written during no turn.
  bool receiving_ = false;
  std::vector<FrameDelivery> deliveries_;  // Of the frame at hand.
};

}  // namespace verbatim::adapter
