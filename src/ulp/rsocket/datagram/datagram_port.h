#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <rdma/rdma_cma.h>

#include "base/bytes.h"
#include "base/net/address.h"
#include "ulp/rsocket/bytes.h"
#include "ulp/rsocket/endpoint.h"
#include "ulp/rsocket/memory.h"

namespace verbatim::rsocket {

/// Header before the user's bytes between queue pairs: the sender's address.
///
///     byte   0            1        2-3    4-7 (IPv4), or 4-7 flow information and 8-23 (IPv6)
///          +------------+--------+------+-----------------------------------------------------+
///          | IP version | length | port | address                                             |
///          +------------+--------+------+-----------------------------------------------------+
inline constexpr std::size_t kHeaderMax = 24;
inline constexpr std::size_t kDatagramBytes = kLowWater;  // Header and payload.

/// Writes the header and returns its length.
std::size_t put_sender(const SocketAddress& sender, std::byte* to);
Outcome<SocketAddress> sender_of(ByteSpan datagram);

/// A datagram without its header.
struct Received {
  SocketAddress from;
  std::vector<std::byte> bytes;
};

/// The queue pair of one local address.
class DatagramPort {
 public:
  static Outcome<std::unique_ptr<DatagramPort>> make(const SocketAddress& local,
                                                     const Sizes& sizes);
  ~DatagramPort();
  DatagramPort(const DatagramPort&) = delete;

  const SocketAddress& local() const { return local_; }
  std::uint32_t number() const { return id_->qp->qp_num; }
  int channel() const { return channel_->fd; }
  Outcome<ibv_ah*> address_handle_for(const SocketAddress& peer) const;

  void arm();
  bool armed() const { return armed_; }
  /// Returns the next received datagram.
  std::optional<Received> next();
  bool can_send() const { return !free_.empty(); }
  bool all_sent() const { return free_.size() == slots_; }
  Outcome<void> send(ibv_ah* ah, std::uint32_t qpn, Cursor& from);

 private:
  DatagramPort() = default;
  Outcome<void> make_queues(const Sizes& sizes);
  Outcome<void> post_receive(std::size_t slot);
  void take_event();

  SocketAddress local_;
  rdma_cm_id* id_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  bool armed_ = false;
  std::size_t slots_ = 0;
  Memory send_memory_;
  Memory receive_memory_;
  std::vector<std::uint32_t> free_;  // Free slots of the send memory.
};

}  // namespace verbatim::rsocket
