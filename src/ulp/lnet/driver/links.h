#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "service/loop.h"
#include "ulp/lnet/node.h"
#include "ulp/rdma/driver.h"

namespace verbatim::ulp::lnet {

/// What has become of a connection that did not end in order.
struct Incident {
  std::string peer;
  std::string words;
};

/// Carries a node's connections out by the adapter, in the loop's thread.
class Links final : public rdma::Handler, public service::Source {
 public:
  /// `buffers`: how many of a MiB each the node gets.
  static Result<std::unique_ptr<Links>> create(std::uint32_t buffers);
  /// Takes the node's connections from now on, and listens at its addresses.
  Result<void> serve(Node& node, std::uint16_t port, service::Loop& loop);

  Buffers& buffers() { return buffers_; }
  rdma::Driver& driver() { return *driver_; }
  const std::deque<Incident>& incidents() const { return incidents_; }
  /// The node has been asked something.
  void flush(TimeNs now);

  TimeNs deadline() const override { return node_ == nullptr ? kNever : node_->deadline(); }
  void on_time(TimeNs now) override;

 private:
  static constexpr std::size_t kIncidentsMax = 16;
  static constexpr std::uint16_t kFirstPort = 512, kLastPort = 1023;  // Of connections.

  void on_requested(const rdma::Requested& requested, TimeNs now) override;
  void on_established(const rdma::Established& established, TimeNs now, WorkList& work) override;
  ReceiveUse on_message(rdma::ConnectionId connection, const ulp::Message& message, TimeNs now,
                        WorkList& work) override;
  void on_done(rdma::ConnectionId connection, Tag tag, CompletionStatus status, TimeNs now,
               WorkList& work) override;
  void on_end(rdma::ConnectionId connection, const rdma::End& end, TimeNs now) override;

  Result<rdma::ConnectionId> connect_from(std::uint16_t port, const Node::Wish& wish);
  Result<rdma::ConnectionId> begin(const Node::Wish& wish);
  void connect(const Node::Wish& wish, TimeNs now);
  void note(std::string peer, std::string words);

  std::unique_ptr<rdma::Driver> driver_;
  std::unique_ptr<rdma::BufferPool> pool_;  // Before the driver's device goes.
  Buffers buffers_;
  Node* node_ = nullptr;
  std::uint16_t port_ = kPort, next_port_ = kLastPort;
  Output out_;
  std::deque<Incident> incidents_;
};

}  // namespace verbatim::ulp::lnet
