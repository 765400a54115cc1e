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
#include "port/port.h"

namespace verbatim::adapter {

class Progress;

/// Adds fault injection and capture to all links of a port, and removes them. Decorators are
/// created at their first use and never destroyed, nor is this object. Thread-safe.
class LinkDecorators {
 public:
  /// Requires that both outlive it.
  LinkDecorators(Port& port, Progress& progress) : port_(port), progress_(progress) {}

  /// `plan`: in the syntax of `link::FaultPlan`; "off" ends the faults. EINVAL, EMFILE.
  Result<void> set_faults(std::string_view plan);
  /// Starts to capture packets. Returns the descriptor of the buffer (borrowed), for `verbatim
  /// capture`. ENOMEM, EMFILE.
  Result<int> start_capture();
  void stop_capture();
  /// Decorates links that the port has got since.
  void follow_port();

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
  Result<void> wrap(link::Stack& links);
  void choose_tops();

  Port& port_;
  Progress& progress_;
  observe::FaultCounters counters_;
  link::CaptureTap tap_;
  std::mutex lock_;  // Protects the members below.
  link::FaultPlan plan_;
  bool is_capturing_ = false;
  std::vector<std::unique_ptr<Layers>> layers_;
};

}  // namespace verbatim::adapter
