#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/inplace_vector.h"
#include "ulp/ipoib/offload/cut.h"
#include "ulp/ipoib/outputs.h"
#include "ulp/rdma/buffer_pool.h"
#include "ulp/rdma/infiniband/datagram_port.h"

namespace verbatim::ulp::ipoib {

/// Packets on their way to a queue pair of datagrams: each lies in a registered buffer, which may
/// hold several, until the adapter has sent it. Connections borrow buffers for theirs.
class DatagramQueue {
 public:
  static constexpr std::uint32_t kBuffers = 128, kBufferBytes = 64 << 10;
  static constexpr std::size_t kQueuedMax = 1024;
  /// Packets begin so far behind a buffer's start: a connection has the encapsulation before them.
  static constexpr std::uint32_t kPacketAt = kEncapsulationBytes;

  static Result<std::unique_ptr<DatagramQueue>> create(const rdma::Device& device);
  /// From now on datagrams go by it. It outlives this object, or `use(nullptr)` is called before.
  void use(rdma::DatagramPort* port) { port_ = port; }
  void set_qkey(QKey qkey) { qkey_ = qkey; }

  /// A buffer for a packet that is then added; none if all are out. `finish` ends it.
  std::optional<Slice> take();
  /// What was added of the buffer since `take` is all that there is.
  void finish(const Slice& buffer);

  /// Queues a packet. Bytes that do not lie in the taken buffer are copied into another one.
  /// False: there is no room.
  bool add(const Destination& to, EtherType type, ByteSpan packet);
  /// The same for each segment of a packet that lies in the taken buffer.
  bool add(const Destination& to, EtherType type, const Cut& cut);
  /// The encapsulation and the packet in a buffer of their own, which `give_back` ends. The slice
  /// stays where it is until then. Null: there is no room.
  const Slice* lend(EtherType type, ByteSpan packet);
  std::uint32_t number_of(const Slice& lent) const { return buffers_.index_of(lent); }
  void give_back(std::uint32_t number);

  /// Closes the way when all that was queued before has been posted.
  void close(WayId way);
  /// Posts as much as there is room for.
  void flush();
  /// The same as soon as there is a chain: bytes are sent while they are in the cache.
  void flush_chain() {
    if (queued() >= kChain) flush();
  }
  /// After completions: gives buffers back, and posts more.
  void on_ended();

  /// For packets of the kernel's: what the adapter does not take waits better there.
  bool has_room() const { return buffers_.free_count() > 0 && queued() < kChain; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  static constexpr std::size_t kChain = 32;  // Datagrams that are posted with one call.
  struct Queued {
    rdma::DestinationId to{};
    Qpn qpn{};
    std::array<std::byte, kEncapsulationBytes + Cut::kHeaderBytesMax> header;
    std::size_t header_bytes = 0;
    Slice payload;
    InplaceVector<Slice, 2> buffers{};  // Of which this is the last datagram.
  };
  struct Posted {
    Slice buffer;
    std::uint64_t sequence = 0;
  };
  struct Closing {
    WayId way{};
    std::uint64_t after = 0;  // So many were ever queued.
  };
  explicit DatagramQueue(rdma::BufferPool buffers)
      : buffers_(std::move(buffers)), lent_(buffers_.count()), ring_(kQueuedMax) {}
  bool is_in_taken(ByteSpan packet) const;
  std::optional<Slice> copied(ByteSpan packet);
  bool add_copy(const Destination& to, EtherType type, ByteSpan packet);
  std::size_t queued() const { return static_cast<std::size_t>(ever_queued_ - ever_posted_); }
  bool has_room_for(std::size_t count) const { return queued() + count <= kQueuedMax; }
  /// A datagram with its encapsulation, and without a payload.
  Queued& push(const Destination& to, EtherType type);
  Queued& at(std::uint64_t number) { return ring_[number % kQueuedMax]; }
  std::size_t post(std::size_t count);
  void close_ways();

  rdma::BufferPool buffers_;
  rdma::DatagramPort* port_ = nullptr;
  QKey qkey_{};
  std::optional<Slice> taken_;
  bool is_used_ = false;  // The taken one has a datagram in the queue.
  std::vector<Slice> lent_;
  std::vector<Queued> ring_;  // From `ever_posted_` to `ever_queued_`.
  std::deque<Posted> posted_;
  std::deque<Closing> closing_;
  std::uint64_t ever_queued_ = 0, ever_posted_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace verbatim::ulp::ipoib
