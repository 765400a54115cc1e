// Reads of our initiators, in one thread: what bench/storage.py measures.
//
//   bench_storage load URL DEPTH BYTES SECONDS SPIN     random reads; SPIN: always, or microseconds
//   bench_storage idle URL SESSIONS SECONDS             sessions that are logged in and do nothing

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>

#include "bench/expect.h"
#include "service/loop.h"
#include "ulp/disk/disk.h"
#include "ulp/disk/target.h"
#include "ulp/rdma/buffer_pool.h"
#include "ulp/rdma/driver.h"

namespace verbatim {
namespace {

using bench::expect;
using bench::fail;
using ulp::disk::Ask;
using ulp::disk::Disk;
using ulp::disk::PathChannel;
using ulp::storage::Channel;

constexpr std::uint32_t kReceiveBytes = 76 + 8192;
/// The disk is filled by so many writes of this size at a time.
constexpr std::uint32_t kFillDepth = 16, kFillBytes = 64 << 10;

struct Options {
  std::string url;
  std::uint32_t disks = 1, depth = 1;
  std::uint32_t buffers = 1, buffer_bytes = 4096;  // Of a disk.
  TimeNs spin = kNever;
};

/// Disks of one target, all in one thread.
class Client final : ulp::rdma::Handler {
 public:
  explicit Client(const Options& options) : options_(options) {
    loop_ = expect(service::Loop::create());
    driver_ = expect(ulp::rdma::Driver::create(*this, {.connections_max = 4 * options.disks + 16,
                                                       .receives = 4 * options.disks + 256,
                                                       .receive_bytes = kReceiveBytes,
                                                       .header_bytes = 2048,
                                                       .spin = options.spin}));
    constexpr int kRights =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    const std::uint32_t bytes = std::max(options.buffer_bytes, ulp::storage::kScratchBytes);
    const auto buffers = [&](std::uint32_t count, std::uint32_t size) {
      return expect(ulp::rdma::BufferPool::create(driver_->device(), count, size, kRights));
    };
    pool_ = buffers(options.disks * (options.buffers + 1), bytes);
    own_ = buffers(options.depth, options.buffer_bytes);
    expect(driver_->attach(*loop_));
    for (std::uint32_t i = 0; i < options.disks; ++i) open_disk(i);
  }
  ~Client() override {
    for (auto& one : mounts_) one->disk->end(loop_->now());
    const TimeNs until = loop_->now() + 5 * kSecond;
    while (!all([](const Mount& one) { return one.disk->is_over(); }) && loop_->now() < until)
      turn();
    driver_->disconnect_all(loop_->now());
    while (driver_->connection_count() > 0 && loop_->now() < until) turn();
    mounts_.clear();
  }

  void turn() {
    loop_->turn(loop_->now() + 100 * kMillisecond);
    for (auto& one : mounts_) {
      for (const Channel channel : std::exchange(one->not_connected, {}))
        one->disk->on_end({0, channel}, "not connected", loop_->now());
      if (one->disk->deadline() <= loop_->now()) one->disk->on_time(loop_->now());
    }
    serve();
  }
  /// Registered memory of `buffer_bytes`: as many as the depth.
  ulp::storage::PeerMemory own_memory(std::uint32_t index) const {
    return {own_->at(index), own_->region().remote_key()};
  }
  Disk& disk(std::size_t index = 0) { return *mounts_[index]->disk; }
  TimeNs now() const { return loop_->now(); }
  /// Called with what is answered, which it may ask again, as soon as the disk has returned.
  std::function<void(Ask&)> on_answered = [](Ask&) {};

 private:
  struct Mount final : ulp::disk::Outside {
    explicit Mount(Client& owner) : client(owner) {}
    void connect(std::uint32_t, const ulp::storage::ConnectRequest& request) override {
      const auto connection = client.driver_->connect(
          target.place, {.sizes = request.sizes, .private_data = request.private_data});
      if (!connection) return not_connected.push_back(request.channel);
      connections[static_cast<std::size_t>(request.channel)] = *connection;
      client.places_[*connection] = {this, request.channel};
    }
    void carry_out(PathChannel at, std::span<const ulp::Work> work) override {
      if (const auto& one = connections[static_cast<std::size_t>(at.channel)])
        client.driver_->carry_out(*one, work, client.loop_->now());
    }
    void disconnect(PathChannel at) override {
      if (const auto& one = connections[static_cast<std::size_t>(at.channel)])
        client.driver_->disconnect(*one, "", client.loop_->now());
    }
    void on_answered(Ask& ask) override { client.answered_.push_back(&ask); }
    void tell(const std::string& line) override { fmt::print(stderr, "{}\n", line); }

    Client& client;
    ulp::disk::Target target;
    std::array<std::optional<ulp::rdma::ConnectionId>, ulp::storage::kChannelsMax> connections;
    std::vector<Channel> not_connected;
    std::unique_ptr<Disk> disk;
  };
  struct Place {
    Mount* mount = nullptr;
    Channel channel{};
  };

  void serve() {
    while (!answered_.empty()) {
      Ask& ask = *answered_.back();
      answered_.pop_back();
      on_answered(ask);
    }
  }
  template <typename Is>
  bool all(Is is) const {
    return std::ranges::all_of(mounts_, [&](const auto& one) { return is(*one); });
  }
  /// Each is an initiator of its own: a second login of the same one ends the first.
  void open_disk(std::uint32_t index) {
    auto mount = std::make_unique<Mount>(*this);
    ulp::disk::Identity self = identity_;
    self.session += index;
    auto target = ulp::disk::parse_target(options_.url, self);
    if (!target) fail(target.error().text);
    mount->target = std::move(*target);
    const auto memory = [&](std::uint32_t i) {
      return ulp::storage::PeerMemory{pool_->at(index * (options_.buffers + 1) + i),
                                      pool_->region().remote_key()};
    };
    ulp::storage::PeerMemory scratch = memory(options_.buffers);
    scratch.here.bytes = ulp::storage::kScratchBytes;
    Disk::Settings settings{
        .new_sessions = {[&at = mount->target,
                          own = ulp::disk::OwnSide{.scratch = scratch, .guid = self.session}] {
          return at.begin(own);
        }},
        .buffers = {}};
    for (std::uint32_t i = 0; i < options_.buffers; ++i) settings.buffers.push_back(memory(i));
    mount->disk = std::make_unique<Disk>(std::move(settings), *mount);
    Disk& disk = *mount->disk;
    mounts_.push_back(std::move(mount));
    disk.begin(loop_->now());
    while (disk.facts() == nullptr && disk.refusal() == nullptr) turn();
    if (disk.facts() == nullptr) fail(*disk.refusal());
  }

  void on_requested(const ulp::rdma::Requested&, TimeNs) override {}
  void on_established(const ulp::rdma::Established& established, TimeNs now,
                      ulp::WorkList&) override {
    const auto [mount, channel] = places_[established.connection];
    const auto& data = established.private_data;
    mount->disk->on_established({0, channel}, {data.begin(), data.size()}, now);
  }
  ulp::ReceiveUse on_message(ulp::rdma::ConnectionId id, const ulp::Message& message, TimeNs now,
                             ulp::WorkList&) override {
    const auto [mount, channel] = places_[id];
    const ulp::ReceiveUse use = mount->disk->on_message({0, channel}, message, now);
    serve();
    return use;
  }
  void on_done(ulp::rdma::ConnectionId id, ulp::Tag tag, CompletionStatus status, TimeNs now,
               ulp::WorkList&) override {
    const auto [mount, channel] = places_[id];
    mount->disk->on_done({0, channel}, tag, status, now);
    serve();
  }
  void on_end(ulp::rdma::ConnectionId id, const ulp::rdma::End& end, TimeNs now) override {
    const auto [mount, channel] = places_[id];
    places_.erase(id);
    mount->connections[static_cast<std::size_t>(channel)].reset();
    mount->disk->on_end({0, channel}, end.words, now);
  }

  const Options options_;
  const ulp::disk::Identity identity_ = ulp::disk::own_identity();
  std::unique_ptr<service::Loop> loop_;
  std::unique_ptr<ulp::rdma::Driver> driver_;
  std::optional<ulp::rdma::BufferPool> pool_, own_;
  std::vector<Ask*> answered_;
  std::vector<std::unique_ptr<Mount>> mounts_;
  std::unordered_map<ulp::rdma::ConnectionId, Place> places_;
};

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& at) {
    return static_cast<double>(at.tv_sec) + 1e-6 * static_cast<double>(at.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// What a disk in memory was never given takes none, and would be read from one page of zeroes.
void fill(Client& client) {
  constexpr std::uint64_t kPart = 1 << 20;
  std::vector<std::byte> memory(kPart, std::byte{0x5a});
  const std::uint64_t bytes = client.disk().facts()->bytes;
  for (std::uint64_t at = 0; at < bytes; at += kPart) {
    Ask ask{.kind = Ask::Kind::write,
            .offset = at,
            .bytes = std::min(kPart, bytes - at),
            .data = memory.data()};
    bool is_answered = false;
    client.on_answered = [&](Ask&) { is_answered = true; };
    client.disk().ask(ask, client.now());
    while (!is_answered) client.turn();
    if (ask.error != 0) fail(std::strerror(ask.error));
  }
}

/// Prints reads, seconds, and this side's processor seconds.
void load(Client& client, std::uint32_t depth, std::uint32_t bytes, double seconds) {
  const std::uint64_t places = client.disk().facts()->bytes / bytes;
  std::vector<ulp::storage::PeerMemory> memory;
  for (std::uint32_t i = 0; i < depth; ++i) memory.push_back(client.own_memory(i));
  std::vector<Ask> asks(depth);
  std::mt19937_64 random(1);
  const auto ask = [&](Ask& one) {
    one.offset = random() % places * bytes;
    one.begun = 0;
    one.is_answered = false;
    client.disk().ask(one, client.now());
  };
  std::uint64_t done = 0;
  client.on_answered = [&](Ask& one) {
    if (one.error != 0) fail(std::strerror(one.error));
    ++done;
    ask(one);
  };
  for (std::uint32_t i = 0; i < depth; ++i) {
    asks[i].kind = Ask::Kind::read;
    asks[i].bytes = bytes;
    asks[i].data = memory[i].data();
    asks[i].registered = &memory[i];
    ask(asks[i]);
  }
  const auto run_until = [&](TimeNs until) {
    while (client.now() < until) client.turn();
  };
  run_until(client.now() + 200 * kMillisecond);
  done = 0;
  fmt::print("measuring\n");
  std::fflush(stdout);
  const TimeNs begin = client.now();
  const double before = processor_seconds();
  run_until(begin + static_cast<TimeNs>(seconds * 1e9));
  fmt::print("reads {} seconds {:.6f} processor {:.6f}\n", done,
             1e-9 * static_cast<double>(client.now() - begin), processor_seconds() - before);
  std::fflush(stdout);
}

std::uint32_t number(const char* text) {
  return static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

int run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "load" && argc == 7) {
    const std::uint32_t depth = number(argv[3]), bytes = number(argv[4]);
    const bool polls = std::string(argv[6]) == "always";
    Client client({.url = argv[2],
                   .depth = depth,
                   .buffers = std::max(depth, kFillDepth),
                   .buffer_bytes = std::max(bytes, kFillBytes),
                   .spin = polls ? kNever : number(argv[6]) * kMicrosecond});
    fill(client);
    load(client, depth, bytes, std::atof(argv[5]));
    std::_Exit(0);  // What is under way is the target's to end.
  }
  if (what == "idle" && argc == 5) {
    Client client({.url = argv[2], .disks = number(argv[3]), .spin = 0});
    fmt::print("idle\n");
    std::fflush(stdout);
    const TimeNs until = client.now() + number(argv[4]) * kSecond;
    while (client.now() < until) client.turn();
    return 0;
  }
  fmt::print(stderr, "see the first lines of bench/storage_load.cpp\n");
  return 2;
}

}  // namespace
}  // namespace verbatim

int main(int argc, char** argv) { return verbatim::run(argc, argv); }
