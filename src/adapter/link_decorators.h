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

/// Puts fault injection and capture around all links of a port, and takes them away. They are made
/// when they are first used, and never destroyed: so is this object. Thread-safe.
class LinkDecorators {
 public:
  /// All outlive it: the counters lie in the program's arena.
  LinkDecorators(Port& port, Progress& progress, observe::FaultCounters& counters)
      : port_(port), progress_(progress), counters_(counters) {}

  /// `plan` as `link::FaultPlan` reads it; "off": packets pass. EINVAL, EMFILE.
  Result<void> set_faults(std::string_view plan);
  /// Packets are captured from now on. Returns the descriptor of the buffer (borrowed), for
  /// `verbatim capture`. ENOMEM, EMFILE.
  Result<int> start_capture();
  void stop_capture();
  /// Links that the port got since: they are decorated, too.
  void follow_port();

 private:
  /// What is around one link: faults above the capture, which so sees what is on the wire.
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
  observe::FaultCounters& counters_;
  link::CaptureTap tap_;
  std::mutex lock_;  // Guards what follows.
  link::FaultPlan plan_;
  bool is_capturing_ = false;
  std::vector<std::unique_ptr<Layers>> layers_;
};

}  // namespace verbatim::adapter
