#include "offload/card/attached_driver.h"

#include <atomic>
#include <cstddef>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>

namespace verbatim::offload {

Result<std::unique_ptr<AttachedDriver>> AttachedDriver::create(std::uint16_t ports,
                                                               std::uint32_t rules) {
  const std::uint64_t bytes = vnic_region_bytes(rules);
  UniqueFd file(memfd_create("verbatim-nic", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ftruncate(file.get(), static_cast<off_t>(bytes)) < 0) {
    return refuse_errno("memory for a driver's rings");
  }
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
    return refuse_errno("sealing a driver's rings");
  }
  return map(std::move(file), bytes, ports);
}

Result<std::unique_ptr<AttachedDriver>> AttachedDriver::map(UniqueFd file, std::uint64_t bytes,
                                                            std::uint16_t ports) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED) return refuse_errno("mapping a driver's rings");
  madvise(at, bytes, MADV_DONTFORK);  // The keeper's process would keep its file open.
  return std::unique_ptr<AttachedDriver>(
      new AttachedDriver(std::move(file), static_cast<vnic_region*>(at), bytes, ports));
}

AttachedDriver::AttachedDriver(UniqueFd file, vnic_region* region, std::uint64_t bytes,
                               std::uint16_t ports)
    : file_(std::move(file)),
      region_(region),
      bytes_(bytes),
      port_count_(ports),
      ports_(std::make_unique<Port[]>(ports)) {
  for (std::uint16_t p = 0; p < ports; ++p) {
    for (std::size_t q = 0; q < VNIC_QUEUES_MAX; ++q) {
      ports_[p].receive[q].shared = &region_->ports[p].receive[q];
      ports_[p].send[q].shared = &region_->ports[p].send[q];
    }
    region_->ports[p].link_is_up = 1;
  }
}

AttachedDriver::~AttachedDriver() { munmap(region_, bytes_); }

void AttachedDriver::start(std::uint16_t port) {
  Port& started = ports_[port];
  const vnic_port& shared = region_->ports[port];
  started.receive_queues = std::clamp(relaxed(shared.receive_queues), 1u, VNIC_QUEUES_MAX);
  started.send_queues = std::clamp(relaxed(shared.send_queues), 1u, VNIC_QUEUES_MAX);
  started.has_spread = relaxed(shared.has_spread) != 0;
  for (std::size_t i = 0; i < started.spread.size(); ++i) {
    started.spread[i] =
        static_cast<std::uint8_t>(relaxed(shared.spread[i]) % started.receive_queues);
  }
  for (RingEnd& ring : started.receive) ring.begin();
  for (RingEnd& ring : started.send) ring.begin();
}

void AttachedDriver::stop(std::uint16_t port) {
  ports_[port].receive_queues = ports_[port].send_queues = 0;
}

const vnic_command& AttachedDriver::copy_of(const vnic_command& shared) {
  constexpr std::size_t kHead = offsetof(vnic_command, rule) + offsetof(vnic_rule, actions);
  const auto* const from = reinterpret_cast<const std::byte*>(&shared);
  auto* const to = reinterpret_cast<std::byte*>(&command_);
  std::memcpy(to, from, kHead);
  const std::size_t used = offsetof(vnic_command, rule) + vnic_rule_bytes(&command_.rule);
  std::memcpy(to + kHead, from + kHead, used - kHead);
  return command_;
}

void AttachedDriver::say_asleep(bool asleep) {
  release(region_->asleep, asleep ? 1u : 0u);
  // Before the last look at the cursors: ring_doorbell orders its post and look the other way.
  if (asleep) std::atomic_thread_fence(std::memory_order_seq_cst);
}

bool AttachedDriver::has_work() const {
  if (!commands_are_broken_ && acquire(region_->command_posted) != commands_done_) return true;
  for (std::uint16_t p = 0; p < port_count_; ++p) {
    const Port& port = ports_[p];
    for (const RingEnd& ring : std::span(port.send).first(port.send_queues)) {
      if (ring.has_work()) return true;
    }
  }
  return false;
}

void AttachedDriver::say_link(std::uint16_t port, bool is_up) {
  release(region_->ports[port].link_is_up, is_up ? 1u : 0u);
}

void AttachedDriver::publish(std::uint16_t port, const vnic_port_counters& counters) {
  region_->ports[port].counters = counters;
}

}  // namespace verbatim::offload
