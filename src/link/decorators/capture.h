#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>

#include "link/decorators/capture_ring.h"
#include "link/decorators/decorator.h"
#include "link/decorators/faults.h"

namespace verbatim::link {

/// The destination of all captures in a program. Thread-safe.
class CaptureTap {
 public:
  /// Null ends the capture.
  void set_ring(std::unique_ptr<CaptureRing> ring);
  void add(const Packets& packets, Remark remark);
  void add(const Received& packets, bool is_infiniband);

 private:
  std::mutex lock_;  // Protects the ring and its content.
  std::unique_ptr<CaptureRing> ring_;
};

/// Writes each packet that is sent or received to the tap's ring.
class Capture final : public Decorator, public FaultWitness {
 public:
  /// Requires that both outlive the decorator.
  Capture(Link& next, CaptureTap& tap)
      : Decorator(next),
        tap_(tap),
        is_infiniband_(next.properties().first_header == FirstHeader::lrh) {}

  int send(const Packets& packets) noexcept override;
  std::size_t receive(Sink& sink, TimeNs now) override;

  int send_marked(const Packets& packet, Remark remark) noexcept override;
  void note_lost(const Packets& packet, Remark remark) noexcept override {
    tap_.add(packet, remark);
  }

 private:
  class TappedSink;
  CaptureTap& tap_;
  const bool is_infiniband_;
};

}  // namespace verbatim::link
