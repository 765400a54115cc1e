#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <infiniband/verbs.h>

#include "base/completion_status.h"
#include "base/error.h"
#include "ulp/engine/work.h"
#include "ulp/rdma/device.h"

namespace verbatim::ulp::rdma {

/// A work request's id says who posted it and what for, so that its completion is not looked up:
///
///     bit   63-62      61-40              39-32   31-0
///         +----------+------------------+-------+--------------------------------+
///         | kind     | connection       | count | sequence, or a receive's index |
///         +----------+------------------+-------+--------------------------------+
///
/// `count` distinguishes users of one connection number one after the other. A receive of a shared
/// queue knows no connection when it is posted: that one is found by `Ended::own`, in a table.
struct WorkId {
  enum class Kind : std::uint8_t { work, receive, datagram, datagram_receive };
  static constexpr std::uint32_t kConnectionsMax = 1 << 22;
  Kind kind{};
  std::uint32_t connection = 0;
  std::uint8_t count = 0;
  std::uint32_t value = 0;

  std::uint64_t encoded() const {
    return std::uint64_t{static_cast<std::uint8_t>(kind)} << 62 | std::uint64_t{connection} << 40 |
           std::uint64_t{count} << 32 | value;
  }
  static WorkId decode(std::uint64_t id) {
    return {static_cast<Kind>(id >> 62),
            static_cast<std::uint32_t>(id >> 40) & (kConnectionsMax - 1),
            static_cast<std::uint8_t>(id >> 32), static_cast<std::uint32_t>(id)};
  }
};

/// A completion. Of an unsuccessful one only the id, the status and `own` count.
struct Ended {
  WorkId id;
  CompletionStatus status{};
  std::uint32_t bytes = 0;
  std::optional<std::uint32_t> immediate{};
  std::optional<MemoryKey> invalidated{};
  Qpn own{};     // The queue pair that has received it.
  Qpn source{};  // Datagrams: whence it came.
  std::uint16_t source_lid = 0;
  bool has_grh = false;  // The first 40 bytes of the receive are the GRH.
};

/// One completion queue for all that a process serves, with the channel that wakes it.
class Completions {
 public:
  static constexpr int kBatch = 32;
  static Result<std::unique_ptr<Completions>> create(const Device& device, std::uint32_t entries);
  ~Completions();
  Completions(const Completions&) = delete;
  Completions& operator=(const Completions&) = delete;

  /// Room for the completions of one more connection; ENOSPC: none is left, refuse the peer. Grows
  /// the queue (ibv_resize_cq) before it says so.
  Result<void> reserve(std::uint32_t entries);
  void release(std::uint32_t entries) { reserved_ -= entries; }

  /// At most `kBatch`, until the next call; no system call.
  std::span<const Ended> poll();
  /// Asks for one event. Poll once more, and sleep on `descriptor()` if that finds nothing.
  Result<void> arm();
  void take_event();  // After it was readable.
  int descriptor() const { return channel_->fd; }
  ibv_cq* queue() const { return queue_; }

 private:
  Completions() = default;
  Result<void> open(const Device& device, std::uint32_t entries);

  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* queue_ = nullptr;
  std::uint32_t entries_max_ = 0;
  std::uint32_t reserved_ = 0;
  std::uint32_t unacknowledged_ = 0;  // ibv_ack_cq_events: a lock, so by the thousand.
  std::array<Ended, kBatch> ended_{};
};

}  // namespace verbatim::ulp::rdma
