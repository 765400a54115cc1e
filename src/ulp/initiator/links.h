#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "service/loop.h"
#include "ulp/disk/target.h"
#include "ulp/rdma/buffer_pool.h"
#include "ulp/rdma/driver.h"
#include "ulp/storage/initiator.h"

namespace verbatim::ulp::initiator {

class Links;

/// A session of our own with a target: an engine, its connections and its memory. When a session is
/// over, another may begin.
class Link {
 public:
  using Output = storage::InitiatorOutput;
  using Begin = std::function<std::unique_ptr<storage::Initiator>(const disk::OwnSide& own)>;
  static constexpr std::uint32_t kBytes = 64 << 10;

  /// `on_change`: after each input of the engine, and at the session's end; it begins no session
  /// and destroys no link.
  Link(Links& links, std::function<void()> on_change);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Memory of the adapter's cannot be had.
  Result<void> open();
  void begin(const rdma::ServicePlace& to, const Begin& begin, TimeNs now);
  /// Null: no session.
  storage::Initiator* engine() { return engine_.get(); }
  /// For data of the user's: `kBytes`.
  storage::PeerMemory data() const { return memory(1); }
  /// An input of the user's: what it causes is carried out.
  void run(const std::function<void(Output& out)>& input, TimeNs now);
  void log_out(TimeNs now);
  /// Why the last session is over.
  const std::string& words() const { return words_; }

 private:
  friend Links;
  storage::PeerMemory memory(std::uint32_t index) const {
    return {pool_->at(index), pool_->region().remote_key()};
  }
  disk::OwnSide own_side() const;
  void carry_out(TimeNs now);
  void connect(const storage::ConnectRequest& request);
  void on_end(storage::Channel channel, const rdma::End& end, TimeNs now);
  void disconnect_all(TimeNs now);
  std::optional<storage::Channel> channel_of(rdma::ConnectionId connection) const;

  Links& links_;
  const std::function<void()> on_change_;
  std::optional<rdma::BufferPool> pool_;
  rdma::ServicePlace to_;
  std::unique_ptr<storage::Initiator> engine_;
  std::array<std::optional<rdma::ConnectionId>, storage::kChannelsMax> connections_;
  Output out_;
  std::string words_;
  bool could_not_connect_ = false;
};

/// All of them, with the adapter, in the loop's thread.
class Links final : private rdma::Handler, private service::Source {
 public:
  static Result<std::unique_ptr<Links>> open(service::Loop& loop);
  ~Links() override;

  const rdma::Device& device() const { return driver_->device(); }
  std::uint32_t connection_count() const { return driver_->connection_count(); }
  TimeNs now() const { return loop_.now(); }

 private:
  friend Link;
  explicit Links(service::Loop& loop) : loop_(loop) {}
  Link* find(rdma::ConnectionId connection) const;

  TimeNs deadline() const override;
  void on_time(TimeNs now) override;
  void on_requested(const rdma::Requested&, TimeNs) override {}
  void on_established(const rdma::Established& established, TimeNs now, WorkList& work) override;
  ReceiveUse on_message(rdma::ConnectionId connection, const Message& message, TimeNs now,
                        WorkList& work) override;
  void on_done(rdma::ConnectionId connection, Tag tag, CompletionStatus status, TimeNs now,
               WorkList& work) override;
  void on_end(rdma::ConnectionId connection, const rdma::End& end, TimeNs now) override;

  service::Loop& loop_;
  std::unique_ptr<rdma::Driver> driver_;
  std::vector<Link*> links_;
};

/// The adapter, which is opened when a program first logs in.
class Adapter {
 public:
  explicit Adapter(service::Loop& loop) : loop_(loop) {}
  Result<Links*> open();
  bool is_idle() const { return links_ == nullptr || links_->connection_count() == 0; }

 private:
  service::Loop& loop_;
  std::unique_ptr<Links> links_;
};

}  // namespace verbatim::ulp::initiator
