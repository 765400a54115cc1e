#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/os/unique_fd.h"
#include "offload/card/packet_memory.h"
#include "offload/card/ring_end.h"
#include "offload/ring/ring.h"

namespace verbatim::offload {

/// The card's side of what it shares with a driver. Nothing that is read from the shared memory is
/// believed: cursors, addresses, lengths and commands are checked, and what fails is counted.
class AttachedDriver {
 public:
  static constexpr std::size_t kBurst = RingEnd::kBurst;

  static Result<std::unique_ptr<AttachedDriver>> create(std::uint16_t ports, std::uint32_t rules);
  /// The memory is the file's: it has `bytes`, all zero, and cannot be cut.
  static Result<std::unique_ptr<AttachedDriver>> map(UniqueFd file, std::uint64_t bytes,
                                                     std::uint16_t ports);
  ~AttachedDriver();
  AttachedDriver(const AttachedDriver&) = delete;
  AttachedDriver& operator=(const AttachedDriver&) = delete;

  int region_file() const { return file_.get(); }
  std::uint64_t region_bytes() const { return bytes_; }
  vnic_counter& counter(std::uint32_t id) const { return vnic_counters(region_)[id]; }
  vnic_meter_counter& meter_counter(std::uint32_t id) const {
    return vnic_meter_counters(region_)[id];
  }
  PacketMemory& memory() { return memory_; }

  /// Calls `execute` for each command that waits, so that each rule is there before the frames that
  /// come later; its result is what the driver finds.
  template <typename Execute>
  std::size_t take_commands(Execute execute);

  void start(std::uint16_t port);
  void stop(std::uint16_t port);
  bool is_started(std::uint16_t port) const { return ports_[port].receive_queues != 0; }

  /// Puts a packet into a buffer that the driver has posted for `port`; `write` writes it there
  /// and returns its size. Returns false if no buffer is there, or it is too small (counted).
  template <typename Write>
  bool deliver(std::uint16_t port, std::uint32_t hash, std::uint32_t mark, Write write);

  /// Calls `send` for each frame that the driver has posted on `port`, at most kBurst a queue.
  template <typename Send>
  std::size_t take_frames(std::uint16_t port, Send send);

  /// Tells the driver whether the card sleeps.
  void say_asleep(bool asleep);
  bool has_work() const;
  /// Descriptors and cursors that were wrong.
  std::uint64_t faults() const { return faults_; }
  std::uint64_t commands_refused() const { return commands_refused_; }
  void say_link(std::uint16_t port, bool is_up);
  void publish(std::uint16_t port, const vnic_port_counters& counters);

 private:
  struct Port {
    std::array<RingEnd, VNIC_QUEUES_MAX> receive;
    std::array<RingEnd, VNIC_QUEUES_MAX> send;
    std::uint32_t receive_queues = 0;  // 0: stopped.
    std::uint32_t send_queues = 0;
    bool has_spread = false;
    std::array<std::uint8_t, VNIC_SPREAD> spread{};
  };
  AttachedDriver(UniqueFd file, vnic_region* region, std::uint64_t bytes, std::uint16_t ports);
  /// The driver may write on. Copies what is used.
  const vnic_command& copy_of(const vnic_command& shared);

  UniqueFd file_;
  vnic_region* const region_;
  const std::uint64_t bytes_;
  const std::uint16_t port_count_;
  std::unique_ptr<Port[]> ports_;
  PacketMemory memory_;
  vnic_command command_{};  // The one that is executed.
  std::uint32_t commands_done_ = 0;
  bool commands_are_broken_ = false;
  std::uint64_t faults_ = 0;
  std::uint64_t commands_refused_ = 0;
};

template <typename Execute>
std::size_t AttachedDriver::take_commands(Execute execute) {
  if (commands_are_broken_) return 0;
  const std::uint32_t waiting = acquire(region_->command_posted) - commands_done_;
  if (waiting > VNIC_COMMANDS) {
    commands_are_broken_ = true;
    ++faults_;
    return 0;
  }
  for (std::size_t i = 0; i < waiting; ++i) {
    vnic_command& shared = region_->commands[commands_done_ % VNIC_COMMANDS];
    const vnic_command& command = copy_of(shared);
    const int result = execute(command);
    if (result != 0) {
      ++commands_refused_;
      count(region_->commands_refused);
    }
    shared.result = result;
    release(region_->command_done, ++commands_done_);
  }
  return waiting;
}

template <typename Write>
bool AttachedDriver::deliver(std::uint16_t port, std::uint32_t hash, std::uint32_t mark,
                             Write write) {
  Port& to = ports_[port];
  if (to.receive_queues == 0) return false;
  RingEnd& ring =
      to.receive[to.has_spread ? to.spread[hash % VNIC_SPREAD] : hash % to.receive_queues];
  const bool is_delivered = ring.deliver(memory_, mark, faults_, write);
  ring.publish();
  return is_delivered;
}

template <typename Send>
std::size_t AttachedDriver::take_frames(std::uint16_t port, Send send) {
  std::size_t all = 0;
  Port& from = ports_[port];
  for (RingEnd& ring : std::span(from.send).first(from.send_queues)) {
    all += ring.take(memory_, faults_, kBurst, send);
    ring.publish();
  }
  return all;
}

}  // namespace verbatim::offload
