#pragma once

#include <array>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/os/unique_fd.h"
#include "service/control.h"
#include "service/loop.h"
#include "ulp/disk/disk.h"
#include "ulp/disk/target.h"
#include "ulp/disk/vhost/server.h"
#include "ulp/rdma/buffer_pool.h"
#include "ulp/rdma/driver.h"

namespace verbatim::ulp::disk {

struct DiskSettings {
  std::string url;              // For the log: of all paths.
  std::vector<Target> targets;  // A path each.
  std::string name;             // For `verbatim disk list`; empty: it is not shown.
  std::string uri;              // Where its users find it, for the same.
  std::string vhost_user;       // A socket for a virtual machine; empty: there is none.
  bool is_read_only = false;    // Its users may not write, whatever the target says.
  TimeNs patience = 120 * kSecond;
};

/// A disk in a thread of its own, which has the adapter, and users in others, who wait.
class DiskThread final : private rdma::Handler, private service::Source, public Outside {
 public:
  /// After the first login, or its failure in words.
  static Result<std::unique_ptr<DiskThread>> start(DiskSettings settings);
  /// Logs out; what has no answer by then fails. Two seconds at most.
  ~DiskThread();

  const storage::DiskFacts& facts() const { return facts_; }
  /// Waits for its end, and returns 0 or an errno value.
  int ask(Ask& ask);

 private:
  explicit DiskThread(DiskSettings settings) : settings_(std::move(settings)) {}
  void run(std::promise<Result<void>> began);
  Result<void> open();
  OwnSide own_side(storage::PeerMemory scratch) const;
  Result<void> open_memory();
  Result<void> log_in();
  Result<void> serve_machines();
  void stop_all();
  void take_mail();
  nlohmann::json status() const;
  nlohmann::json path_status(std::uint32_t path) const;
  std::optional<PathChannel> find(rdma::ConnectionId connection) const;
  std::optional<rdma::ConnectionId>& connection_at(PathChannel at) {
    return connections_[at.path][static_cast<std::size_t>(at.channel)];
  }

  TimeNs deadline() const override;
  void on_time(TimeNs now) override;

  void on_requested(const rdma::Requested&, TimeNs) override {}
  void on_established(const rdma::Established& established, TimeNs now, WorkList& work) override;
  ReceiveUse on_message(rdma::ConnectionId connection, const Message& message, TimeNs now,
                        WorkList& work) override;
  void on_done(rdma::ConnectionId connection, Tag tag, CompletionStatus status, TimeNs now,
               WorkList& work) override;
  void on_end(rdma::ConnectionId connection, const rdma::End& end, TimeNs now) override;

  void connect(std::uint32_t path, const storage::ConnectRequest& request) override;
  void carry_out(PathChannel at, std::span<const Work> work) override;
  void disconnect(PathChannel at) override;
  void on_answered(Ask& ask) override;
  void tell(const std::string& line) override;

  struct NotConnected {
    PathChannel at;
    std::string words;
  };
  const DiskSettings settings_;
  storage::DiskFacts facts_;
  std::thread thread_;

  // Between the threads.
  std::mutex mutex_;
  std::deque<Ask*> mail_;
  bool should_stop_ = false;
  UniqueFd wake_;

  // Of the thread. In this order: the disk ends before what it uses.
  std::unique_ptr<service::Loop> loop_;
  std::unique_ptr<service::Control> control_;
  std::unique_ptr<rdma::Driver> driver_;
  std::optional<rdma::BufferPool> pool_;
  std::unique_ptr<vhost::Server> vhost_;
  std::unique_ptr<Disk> disk_;
  using Connections = std::array<std::optional<rdma::ConnectionId>, storage::kChannelsMax>;
  std::vector<Connections> connections_;  // By path.
  std::deque<NotConnected> not_connected_;
};

}  // namespace verbatim::ulp::disk
