#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "link/decorators/capture.h"
#include "link/decorators/fault_plan.h"
#include "link/decorators/faults.h"
#include "observe/fault_counters.h"
#include "port/ports.h"

namespace verbatim::adapter {

class Progress;

/// Adds fault injection and capture to all links of the adapter's ports, and removes them.
/// Decorators are created at their first use and never destroyed, nor is this object. Thread-safe.
class LinkDecorators {
 public:
  /// All outlive it: the counters lie in the program's arena.
  LinkDecorators(const port::Ports& ports, Progress& progress, observe::FaultCounters& counters)
      : ports_(ports), progress_(progress), counters_(counters) {}

  /// `plan`: in the syntax of `link::FaultPlan`; "off" ends the faults. EINVAL, EMFILE.
  Result<void> set_faults(std::string_view plan);
  /// Packets are captured from now on, if that capture (a number, not 0) does not go on already.
  /// Returns the descriptor of the ring (borrowed), for `verbatim capture`. ENOMEM, EMFILE.
  Result<int> start_capture(std::uint64_t capture);
  void stop_capture();
  /// Decorates links that ports have got since.
  void follow_ports();

 private:
  /// Decorators of a link. Faults are above the capture, which therefore sees the packets on the
  /// wire.
  struct Layers {
    Layers(link::Stack& stack, link::CaptureTap& tap, observe::FaultCounters& counters,
           TimerFd timer)
        : links(stack),
          capture(stack.base(), tap),
          faults(capture, counters, &capture, std::move(timer)) {}
    link::Stack& links;
    link::Capture capture;
    link::Faults faults;
  };
  Result<void> wrap_links();
  Result<void> wrap_links(const port::Port& port);
  Result<void> wrap(link::Stack& links);
  void choose_tops();

  const port::Ports& ports_;
  Progress& progress_;
  observe::FaultCounters& counters_;
  link::CaptureTap tap_;
  std::mutex lock_;  // Protects the members below.
  link::FaultPlan plan_;
  std::uint64_t capture_ = 0;  // The number of the capture that goes on; 0: there is none.
  int ring_ = -1;              // Of the tap.
  std::vector<std::unique_ptr<Layers>> layers_;
};

}  // namespace verbatim::adapter
