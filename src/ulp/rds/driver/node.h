#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "service/loop.h"
#include "ulp/rdma/driver.h"
#include "ulp/rds/broker.h"
#include "ulp/rds/driver/fragment_pool.h"
#include "ulp/rds/driver/grants.h"
#include "ulp/rds/driver/programs.h"
#include "ulp/rds/driver/transfers.h"

namespace verbatim::ulp::rds {

/// A node's broker, its programs and its queue pairs, joined.
class Node final : public Outside, public rdma::Handler, private service::Source {
 public:
  /// The loop outlives it. `path`: where programs connect. `shares`: programs of this user and
  /// machine may put messages into the inboxes of this node's.
  static Result<std::unique_ptr<Node>> create(service::Loop& loop, const std::string& path,
                                              bool shares);
  ~Node() override;

  const Programs& programs() const { return *programs_; }
  bool is_idle() const { return programs_->count() == 0 && broker_->is_idle(); }
  /// Grows with each program, and with each message of a peer.
  std::uint64_t activity() const;
  bool has_peers() const;
  void admit_no_more() { programs_->admit_no_more(); }
  /// Ends all queue pairs.
  void stop() { driver_->disconnect_all(loop_.now()); }
  bool is_stopped() const { return driver_->connection_count() == 0; }
  nlohmann::json status() const;

 private:
  explicit Node(service::Loop& loop) : loop_(loop) {}
  Result<void> open(const std::string& path, bool shares);

  // Outside.
  bool deliver(SocketId socket, const Delivery& delivery) override {
    return programs_->deliver(socket, delivery);
  }
  void tell_congestion(SocketId socket, std::uint64_t ports) override {
    programs_->tell_congestion(socket, ports);
  }
  void let_send(std::uint64_t waiter) override { programs_->let_send(waiter); }
  void pause(SocketId socket, bool is_paused) override { programs_->pause(socket, is_paused); }
  void on_operation(SocketId, const Operation& operation, OperationStatus status) override {
    transfers_->end(operation, status);
  }
  void on_finished(SocketId socket) override { programs_->on_finished(socket); }
  void on_used(SocketId socket, MemoryKey key) override { grants_->on_used(socket, key); }
  void show_congestion(bool is_any) override { programs_->show_congestion(is_any); }
  bool is_own(const SocketAddress& address) override;
  Result<LinkId> connect(const Pair& pair, const PrivateData& data) override;
  void accept(LinkId link, const PrivateData& data) override;
  void reject(LinkId link, const PrivateData& data) override;
  void disconnect(LinkId link, const char* words) override;
  void carry_out(LinkId link, std::span<const Work> work) override;
  void carry_out(LinkId link, const Atomic& atomic) override;

  // Handler.
  void on_requested(const rdma::Requested& requested, TimeNs now) override;
  void on_established(const rdma::Established& established, TimeNs now, WorkList& work) override;
  ReceiveUse on_message(rdma::ConnectionId connection, const Message& message, TimeNs now,
                        WorkList& work) override;
  void on_done(rdma::ConnectionId connection, Tag tag, CompletionStatus status, TimeNs now,
               WorkList& work) override;
  void on_end(rdma::ConnectionId connection, const rdma::End& end, TimeNs now) override;

  // Source.
  TimeNs deadline() const override { return broker_->is_dirty() ? 0 : broker_->deadline(); }
  void on_time(TimeNs now) override;

  service::Loop& loop_;
  std::unique_ptr<rdma::Driver> driver_;
  std::unique_ptr<FragmentPool> pool_;
  std::unique_ptr<Grants> grants_;
  std::unique_ptr<Transfers> transfers_;
  std::unique_ptr<Programs> programs_;
  std::unique_ptr<Broker> broker_;
  std::unordered_map<SocketAddress, bool> own_;  // What `is_own` has found out.
};

}  // namespace verbatim::ulp::rds
