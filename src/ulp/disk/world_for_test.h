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
  virtual std::span<std::byte> disk() = 0;
  /// What a path connects to.
  virtual storage::Service& service_of(std::uint32_t path) = 0;
  /// A session of ours for it, by a path.
  virtual std::unique_ptr<storage::Initiator> initiator(const storage::PeerMemory& scratch,
                                                        std::uint32_t path) = 0;
  /// A chance to change how paths reach the disk.
  virtual void shake(sim::Random&) {}
};

/// A disk and a target by seed: a store that answers late and in any order, connections that are
/// refused, that end at any time, a user who asks for anything. A target hears of a connection's
/// end up to `kLateMax` after us, and goes on with it until then. Checks that each request is
/// answered once with the right bytes, and that nothing that was answered is lost.
class World final : public Outside {
 public:
  /// `quiescence`: of the disk's settings.
  World(std::uint64_t seed, WorldTarget& target, std::uint32_t paths = 1,
        TimeNs quiescence = kLateMax + kSecond);
  void run(int asks);
  std::uint64_t sessions() const { return disk_->sessions(); }
  static constexpr TimeNs kLateMax = 20 * kSecond;

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
    struct Sent {
      std::vector<std::byte> bytes;
      Tag done = kNoTag;
    };
    std::deque<Sent> messages;
    PathChannel at;
    bool ends = false;
    TimeNs until = 0;  // Of one that we have lost: when the target hears of it.
  };
  struct User {
    Ask ask;
    std::uint32_t region = 0;
    std::vector<std::byte> data;
  };

  void connect(std::uint32_t path, const storage::ConnectRequest& request) override;
  void carry_out(PathChannel at, std::span<const Work> work) override;
  void disconnect(PathChannel at) override;
  void on_answered(Ask& ask) override;
  void tell(const std::string&) override {}

  void step();
  void step_lost();
  void establish();
  void deliver(Peer& peer);
  void finish_job(PathChannel at);
  void flush_jobs(Peer& peer);
  void answer_store(Peer& peer);
  void pass_time();
  void cut(PathChannel at, bool is_known_there);
  void end_session(Peer& peer);
  void end_lost(std::size_t index);
  void take(Peer& peer);
  void begin_ask();
  void check(User& user);
  MutableByteSpan memory_of(const RemoteRange& range);
  MutableByteSpan truth_of(const User& user);
  std::size_t index_of(PathChannel at) const {
    return at.path * storage::kChannelsMax + static_cast<std::size_t>(at.channel);
  }
  PathChannel at(std::size_t index) const {
    return {static_cast<std::uint32_t>(index / storage::kChannelsMax),
            storage::Channel{static_cast<std::uint8_t>(index % storage::kChannelsMax)}};
  }

  sim::Random random_;
  WorldTarget& target_;
  std::vector<std::byte> memory_, truth_;
  std::unique_ptr<Disk> disk_;
  std::vector<std::unique_ptr<Peer>> peers_;  // By path and channel.
  std::vector<std::unique_ptr<Peer>> lost_;   // The target has not heard of their end.
  std::vector<TimeNs> down_until_;            // Paths that are cut.
  struct Wanted {
    std::uint32_t path = 0;
    storage::ConnectRequest request;
  };
  std::deque<Wanted> wanted_;
  std::vector<PathChannel> unwanted_;  // To be disconnected, before they are there.
  std::vector<std::unique_ptr<User>> users_;
  std::deque<std::vector<std::byte>> kept_;  // Messages that a target has kept.
  storage::Output out_;
  TimeNs now_ = kSecond;
  int begun_ = 0, answered_ = 0;
};

}  // namespace verbatim::ulp::disk
