#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/random.h"
#include "ulp/disk/disk.h"
#include "ulp/storage/session.h"
#include "ulp/storage/store_bench_for_test.h"

namespace verbatim::ulp::disk {

/// A target that keeps its disk over all connections.
struct WorldTarget {
  virtual ~WorldTarget() = default;
  virtual storage::Service& service() = 0;
  virtual std::span<std::byte> disk() = 0;
  /// A session of ours for it.
  virtual std::unique_ptr<storage::Initiator> initiator(const storage::PeerMemory& scratch) = 0;
};

/// A disk and a target by seed: a store that answers late and in any order, connections that are
/// refused, that end at any time, a user who asks for anything. Checks that each request is
/// answered once with the right bytes, and that nothing that was answered is lost.
class World final : public Outside {
 public:
  World(std::uint64_t seed, WorldTarget& target);
  void run(int asks);
  std::uint64_t sessions() const { return disk_->sessions(); }

 private:
  static constexpr std::uint32_t kRegions = 16, kRegionBlocks = 60, kBlock = 512;
  static constexpr std::uint32_t kDiskBytes = 1000 * kBlock;
  static constexpr std::uint32_t kBufferBytes = 8192 + 512, kBuffers = 6;
  struct Job {
    Work work;
    std::vector<std::byte> bytes;
  };
  /// A connection as the target sees it, and what is on its way both ways.
  struct Peer {
    std::unique_ptr<storage::Session> session;
    std::unique_ptr<storage::StoreBench> store;
    std::deque<Job> jobs;
    std::deque<std::vector<std::byte>> messages;
    bool ends = false;
  };
  struct User {
    Ask ask;
    std::uint32_t region = 0;
    std::vector<std::byte> data;
  };

  void connect(const storage::ConnectRequest& request) override;
  void carry_out(storage::Channel channel, std::span<const Work> work) override;
  void disconnect(storage::Channel channel) override;
  void on_answered(Ask& ask) override;
  void tell(const std::string&) override {}

  void step();
  void establish();
  void deliver(storage::Channel channel);
  void finish_job(storage::Channel channel);
  void answer_store(Peer& peer);
  void pass_time();
  void cut(storage::Channel channel);
  void end_session(Peer& peer);
  void take(Peer& peer);
  void begin_ask();
  void check(User& user);
  MutableByteSpan memory_of(const RemoteRange& range);
  MutableByteSpan truth_of(const User& user);
  Peer* peer(storage::Channel channel) { return peers_[static_cast<std::size_t>(channel)].get(); }

  sim::Random random_;
  WorldTarget& target_;
  std::vector<std::byte> memory_, truth_;
  std::unique_ptr<Disk> disk_;
  std::array<std::unique_ptr<Peer>, storage::kChannelsMax> peers_;
  std::deque<storage::ConnectRequest> wanted_;
  std::vector<storage::Channel> unwanted_;  // To be disconnected, before they are there.
  std::vector<std::unique_ptr<User>> users_;
  std::deque<std::vector<std::byte>> kept_;  // Messages that a target has kept.
  storage::Output out_;
  TimeNs now_ = kSecond;
  int begun_ = 0, answered_ = 0;
};

}  // namespace verbatim::ulp::disk
