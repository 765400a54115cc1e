#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "adapter/numbers.h"
#include "adapter/progress/progress.h"
#include "adapter/progress/task.h"
#include "base/net/path.h"
#include "base/time.h"
#include "base/types.h"
#include "observe/counters.h"
#include "port/port.h"
#include "port/receiver.h"
#include "wire/ib/packet.h"

namespace verbatim::adapter {

class Multicast;

/// What turns receive from a port: its packets go to the queue pair whose number they name, or to
/// those of the group that they came to.
class Delivery final : public Source, private port::Receiver {
 public:
  /// `port`: its number.
  Delivery(std::uint8_t port, const Numbers& numbers, const Multicast& groups, Progress& progress,
           observe::PortCounters& counters, std::uint32_t interface_index)
      : port_(port, *this, counters, interface_index),
        numbers_(numbers),
        groups_(groups),
        progress_(progress),
        counters_(counters) {}

  port::Port& port() { return port_; }
  std::size_t receive(TimeNs now) override { return port_.receive(now); }
  bool begin_sleep() override { return port_.begin_sleep(); }
  bool asks_kernel() const override { return port_.asks_kernel(); }
  /// A pass runs the task after a link takes packets again. Any thread.
  void await_room(Task& task);
  void forget(Task& task) override;

 private:
  class Reception;
  void on_packets(std::span<const wire::Packet> packets, const Path& from, const Path& to,
                  const Gid& group, TimeNs now) override;
  void on_room() override;

  port::Port port_;
  const Numbers& numbers_;
  const Multicast& groups_;
  Progress& progress_;
  observe::PortCounters& counters_;
  std::mutex lock_;              // Guards awaiting_.
  std::vector<Task*> awaiting_;  // Tasks that wait for room on a link.
};

}  // namespace verbatim::adapter
