#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <infiniband/verbs.h>

#include "base/error.h"
#include "base/net/path.h"
#include "base/types.h"
#include "ulp/engine/slice.h"
#include "ulp/rdma/buffer_pool.h"
#include "ulp/rdma/completions.h"
#include "ulp/rdma/device.h"

namespace verbatim::ulp::rdma {

/// Names an address handle of a datagram port.
enum class DestinationId : std::uint32_t {};

/// A queue pair of unreliable datagrams with what IP over InfiniBand needs of it: a P_Key by index,
/// the group's Q_Key, address handles with service level, rate and GRH, groups by GID and LID. The
/// device and the completions outlive it.
class DatagramPort {
 public:
  struct Options {
    std::uint8_t port = 1;
    std::uint16_t pkey_index = 0;
    QKey qkey{};
    std::uint32_t sends = 512;     // Posted at most.
    std::uint32_t receives = 512;  // Posted or lent, always.
    std::uint32_t receive_bytes = 2048;
  };
  /// `number`: that of a connection which no other user of the completions has.
  static Result<std::unique_ptr<DatagramPort>> create(const Device& device,
                                                      Completions& completions,
                                                      std::uint32_t number, const Options& options);
  ~DatagramPort();
  DatagramPort(const DatagramPort&) = delete;
  DatagramPort& operator=(const DatagramPort&) = delete;

  Qpn number() const { return Qpn(queue_pair_->qp_num); }
  /// After a change of the group (a new subnet manager): the queue pair stays.
  Result<void> set_qkey(QKey qkey);

  /// Makes an address handle; equal paths share one. Each `open` needs a `close`.
  Result<DestinationId> open(const InfinibandPath& path);
  void close(DestinationId destination);
  /// What is sent to the group comes to this queue pair, too, if the port has joined it
  /// (Management::join).
  Result<void> attach(const MulticastGroup& group);
  void detach(const MulticastGroup& group);

  static constexpr std::size_t kHeaderBytesMax = 160;
  struct Datagram {
    DestinationId to{};
    Qpn qpn{};  // kMulticastQpn: a group.
    QKey qkey{};
    ByteSpan header;  // Copied; at most kHeaderBytesMax.
    Slice payload;    // Stays until `ended` has passed it. May be empty.
  };
  /// Posts with one call as many as fit, and returns how many. Datagram i of those ever posted has
  /// left when `ended() > i`.
  std::size_t send(std::span<const Datagram> datagrams);
  std::uint64_t posted() const { return posted_; }
  std::uint64_t ended() const { return ended_; }

  /// A datagram that has come. Its bytes stay until `post_again` of `buffer`.
  struct Arrived {
    std::uint32_t buffer = 0;
    ByteSpan bytes;
    std::optional<Gid> source_gid;  // And where it was sent to, if it has a GRH.
    std::optional<Gid> destination_gid;
    Qpn source{};
    Lid source_lid{};
  };
  /// A completion of kind `datagram` or `datagram_receive` with this port's number. What has failed
  /// is no datagram: its receive is posted again.
  std::optional<Arrived> on_ended(const Ended& ended);
  void post_again(std::span<const std::uint32_t> buffers);

 private:
  /// A GRH (IBA 8.3), or nothing, begins each receive.
  static constexpr std::uint32_t kGrhBytes = 40;
  /// Requests of a chain.
  static constexpr std::size_t kChain = 32;
  struct Destination {
    InfinibandPath path;
    ibv_ah* handle = nullptr;
    std::uint32_t users = 0;
  };
  DatagramPort(const Device& device, Completions& completions, std::uint32_t number,
               const Options& options, BufferPool receives, BufferPool headers)
      : device_(device),
        completions_(completions),
        number_(number),
        options_(options),
        receives_(std::move(receives)),
        headers_(std::move(headers)) {}
  Result<void> make_queue_pair();
  Result<void> to_state(ibv_qp_state state, int mask);
  std::size_t send_chain(std::span<const Datagram> datagrams);
  void fill(ibv_send_wr& request, std::span<ibv_sge, 2> slices, const Datagram& datagram,
            std::uint64_t sequence);

  const Device& device_;
  Completions& completions_;
  const std::uint32_t number_;
  Options options_;
  BufferPool receives_;
  BufferPool headers_;  // One for each send, in turn.
  ibv_qp* queue_pair_ = nullptr;
  std::uint32_t inline_bytes_ = 0;
  bool has_room_ = false;  // In the completion queue.
  std::vector<Destination> destinations_;
  std::vector<std::uint32_t> free_destinations_;
  std::uint64_t posted_ = 0, ended_ = 0;
};

}  // namespace verbatim::ulp::rdma
