#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "base/error.h"
#include "base/time.h"
#include "ulp/ipoib/arrivals.h"
#include "ulp/ipoib/driver/datagram_queue.h"
#include "ulp/ipoib/outputs.h"
#include "ulp/ipoib/wire/connected_peer.h"
#include "ulp/rdma/driver.h"

namespace verbatim::ulp::ipoib {

/// The connections of an interface in connected mode: those that the engine asks for, by which it
/// sends, and those of peers, by which packets come. It takes a handler's calls.
class ConnectedPort {
 public:
  static constexpr std::uint32_t kReceives = 256;  // Shared by all peers, as Linux's.
  static constexpr std::uint32_t kReceiveBytes = kConnectedMtu + kEncapsulationBytes;

  struct Events {
    std::function<void(PeerId peer, ByteSpan private_data)> on_connected;
    std::function<void(PeerId peer)> on_sent;
    std::function<void(PeerId peer, bool is_refused)> on_ended;
  };
  /// Listens. EPROTONOSUPPORT: with a card, whose rdma_cm takes no service ids but ports'. All
  /// outlive it.
  static Result<std::unique_ptr<ConnectedPort>> create(rdma::Driver& driver, DatagramQueue& queue,
                                                       const HardwareAddress& own, PKey pkey,
                                                       Events events);

  void connect(const Connect& wanted);
  /// False: there was no room, or no connection any more.
  bool send(const SendByConnection& wanted, TimeNs now);
  void end(PeerId peer, TimeNs now);

  void on_requested(const rdma::Requested& requested, TimeNs now);
  void on_established(const rdma::Established& established);
  void on_message(rdma::ConnectionId connection, TimeNs now);
  void on_done(rdma::ConnectionId connection, Tag tag);
  void on_end(rdma::ConnectionId connection, const rdma::End& end);
  void on_time(TimeNs now);
  TimeNs deadline() const { return arrivals_.deadline(); }

  std::size_t arrivals() const { return arrivals_.count(); }

 private:
  ConnectedPort(rdma::Driver& driver, DatagramQueue& queue, const HardwareAddress& own, PKey pkey,
                Events events)
      : driver_(driver), queue_(queue), own_(own), pkey_(pkey), events_(std::move(events)) {}
  Result<void> listen();
  PrivateData offer() const;

  rdma::Driver& driver_;
  DatagramQueue& queue_;
  const HardwareAddress own_;
  const PKey pkey_;
  const Events events_;
  Arrivals arrivals_;
  std::unordered_map<PeerId, rdma::ConnectionId> connections_;
  std::unordered_map<rdma::ConnectionId, PeerId> peers_;
};

}  // namespace verbatim::ulp::ipoib
