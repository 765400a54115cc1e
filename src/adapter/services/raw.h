#pragma once

#include <cstdint>
#include <memory>

#include "adapter/ethernet/frame_delivery.h"
#include "adapter/queue_pair/core/core.h"
#include "adapter/services/service.h"
#include "base/time.h"
#include "link/ethernet/frame_batch.h"
#include "transport/work.h"

namespace verbatim::adapter::services {

/// Raw packets: whole Ethernet frames out and in.
class Raw : public Unacknowledged {
 public:
  explicit Raw(QueuePairCore& core);
  static void enter(QpState, QpState, std::uint32_t) {}
  void transmit(TimeNs now);
  static void reset() {}
  void on_frame(const SteeredFrame& frame);
  /// Receive-side scaling: it receives into work queues alone, which have locks of their own.
  bool scales() const { return core_.options.scaling != nullptr; }
  void spread(const SteeredFrame& frame) const;

 private:
  transport::Status add_frame(transport::Slot slot);
  void send_frames();

  QueuePairCore& core_;
  std::unique_ptr<link::FrameBatch> frames_;  // Null for one that scales: it only receives.
};

}  // namespace verbatim::adapter::services
