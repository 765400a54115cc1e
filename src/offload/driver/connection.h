#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "offload/ring/ring.h"

namespace verbatim::offload::driver {

/// A driver's connection to its card: the shared memory, commands, memory that the card may access.
class Connection {
 public:
  /// ENOENT, ECONNREFUSED: no card there; EBUSY: it has another driver; EPROTONOSUPPORT: it is of
  /// another version.
  static Result<std::unique_ptr<Connection>> open(const std::string& socket);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int socket() const { return socket_.get(); }
  std::uint16_t ports() const { return static_cast<std::uint16_t>(welcome_.ports); }
  bool is_dpu() const { return welcome_.mode == VNIC_MODE_DPU; }
  std::uint32_t rules_max() const { return welcome_.rules_max; }
  const std::uint8_t* mac(std::uint16_t port) const { return welcome_.macs[port]; }
  vnic_port& port(std::uint16_t port) const { return region_->ports[port]; }
  vnic_counter counter(std::uint32_t id) const {
    const vnic_counter& counter = vnic_counters(region_)[id];
    return {relaxed(counter.packets), relaxed(counter.bytes)};
  }
  vnic_meter_counter meter_counter(std::uint32_t id) const {
    const vnic_meter_counter& shared = vnic_meter_counters(region_)[id];
    vnic_meter_counter counter{};
    for (std::size_t i = 0; i < VNIC_COLORS; ++i) {
      counter.packets[i] = relaxed(shared.packets[i]);
      counter.bytes[i] = relaxed(shared.bytes[i]);
    }
    counter.dropped_packets = relaxed(shared.dropped_packets);
    counter.dropped_bytes = relaxed(shared.dropped_bytes);
    return counter;
  }
  std::uint64_t commands_refused() const { return relaxed(region_->commands_refused); }

  /// Gives the card all memory of DPDK that it does not have yet.
  Result<void> register_memory();
  /// Looks: a system call.
  bool has_ended() const;
  void ring() const { ring_doorbell(*region_, doorbell_.get()); }

  /// Posts a command and does not wait for it: what the driver has checked does not fail. Returns
  /// its number. ECONNRESET: the card has ended.
  Result<std::uint32_t> post(const vnic_command& command);
  /// Posts a command and waits for the card.
  Result<void> execute(const vnic_command& command);
  bool is_done(std::uint32_t number) const {
    return static_cast<std::int32_t>(acquire(region_->command_done) - number) >= 0;
  }

 private:
  explicit Connection(UniqueFd socket) : socket_(std::move(socket)) {}
  Result<void> greet();
  Result<void> wait_until_done(std::uint32_t number) const;

  UniqueFd socket_;
  UniqueFd doorbell_;
  vnic_region* region_ = nullptr;
  vnic_welcome welcome_{};
  std::mutex command_lock_;
  std::mutex memory_lock_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> registered_;  // Address, length.
};

}  // namespace verbatim::offload::driver
