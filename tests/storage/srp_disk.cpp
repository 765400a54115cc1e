// Disks of SRP targets by the initiator of src/ulp/srp/initiator: each target is a line as
// `srp_daemon` writes it. Writes and reads regions of each disk, all at once, every byte compared;
// logs in again if a session ends, and writes again: the target's memory may be a new one.
//
//   srp_disk ROUNDS LINE...     exit status 3: a target has refused the login
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/assert.h"
#include "service/loop.h"
#include "sim/random.h"
#include "ulp/rdma/driver.h"
#include "ulp/srp/initiator/add_target_line.h"

namespace verbatim::ulp::srp {
namespace {

constexpr int kExitFailed = 1, kExitRefused = 3;
constexpr std::uint32_t kDepth = 8, kRegionBytes = 64 << 10;
constexpr TimeNs kPause = 200 * kMillisecond;  // Before the next login.
constexpr storage::Channel kChannel{};

[[noreturn]] void give_up(const std::string& what, int status = kExitFailed) {
  fmt::print(stderr, "srp_disk: {}\n", what);
  std::fflush(stdout);
  std::exit(status);
}
template <typename T>
T must(Result<T> result) {
  if (!result) give_up(result.error().text);
  return std::move(*result);
}

/// One disk. Each of its places writes its region and reads it back, round after round.
class Disk final : public service::Source {
 public:
  /// `number`: disks of one memory have regions of their own.
  Disk(rdma::Driver& driver, const std::string& line, std::uint32_t rounds, std::uint32_t number)
      : driver_(driver),
        target_(must(parse_add_target(line))),
        rounds_(rounds),
        number_(number),
        random_(number) {
    constexpr int kRights =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    const rdma::Device& device = driver_.device();
    scratch_.emplace(must(rdma::BufferPool::create(device, 1, storage::kScratchBytes, kRights)));
    data_.emplace(must(rdma::BufferPool::create(device, kDepth, kRegionBytes, kRights)));
    const auto gids = device.port().gids;
    const ByteSpan gid = std::as_bytes(std::span(gids.at(0).bytes));
    settings_ = settings_for(target_, load_be<std::uint64_t>(&gid[8]));
  }
  void begin(TimeNs now) {
    ++sessions_;
    begins_at_ = kNever;
    for (Place& place : places_) {
      place.is_waiting = false;
      place.is_writing = true;
    }
    session_ = std::make_unique<Initiator>(settings_, memory_of(*scratch_, 0));
    session_->begin(now, out_);
    carry_out(now);
  }
  void on_established(ByteSpan private_data, TimeNs now) {
    session_->on_established(kChannel, private_data, now, out_);
    carry_out(now);
  }
  ReceiveUse on_message(const Message& message, TimeNs now) {
    const ReceiveUse use = session_->on_message(kChannel, message, now, out_);
    carry_out(now);
    return use;
  }
  void on_done(Tag tag, CompletionStatus status, TimeNs now) {
    session_->on_done(kChannel, tag, status, now, out_);
    carry_out(now);
  }
  void on_end(const rdma::End& end, TimeNs now) {
    if (const auto& rejected = end.rejected) {
      const PrivateData& data = rejected->private_data;
      const auto failure =
          session_->on_rejected(kChannel, rejected->reason, {data.begin(), data.size()});
      if (failure.is_final) give_up(failure.words, kExitRefused);
      fmt::print("{}\n", failure.words);
    }
    const auto* const failure = session_->failure();
    const std::string words = failure != nullptr ? failure->words : end.words;
    if (!words.empty()) fmt::print("{}\n", words);
    std::fflush(stdout);
    is_done_ = is_leaving_;
    if (!is_done_) begins_at_ = now + kPause;
  }
  TimeNs deadline() const override { return std::min(begins_at_, session_->deadline()); }
  void on_time(TimeNs now) override {
    if (begins_at_ <= now) return begin(now);
    if (begins_at_ != kNever) return;
    session_->on_time(now, out_);
    carry_out(now);
  }

  rdma::ConnectionId connection() const { return connection_; }
  bool is_done() const { return is_done_; }
  std::string text() const {
    return fmt::format("{}: {} bytes, {} rounds, {} sessions", name_, bytes_, rounds_done_,
                       sessions_);
  }

 private:
  struct Place {
    bool is_writing = true, is_waiting = false;
    std::uint32_t bytes = 0;
    std::uint64_t seed = 0;
  };

  static storage::PeerMemory memory_of(const rdma::BufferPool& pool, std::uint32_t index) {
    return {pool.at(index), pool.region().remote_key()};
  }
  rdma::ServicePlace where() const {
    if (target_.is_by_ip()) return rdma::IpService{target_.to};
    return rdma::InfinibandService{
        .service = *target_.service, .gid = *target_.gid, .pkey = target_.pkey};
  }

  void carry_out(TimeNs now) {
    for (;;) {
      for (const auto& request : out_.connect)
        connection_ = must(driver_.connect(
            where(), {.sizes = request.sizes, .private_data = request.private_data}));
      const bool more = out_.more;
      const auto answers = out_.answers;
      if (!out_.on(kChannel).empty()) driver_.carry_out(connection_, out_.on(kChannel), now);
      out_.clear();
      for (const auto& answer : answers) on_answer(answer, now);
      if (!more) break;
      session_->resume(now, out_);
    }
    ask(now);
  }

  /// What each place wants, as far as the session takes it.
  void ask(TimeNs now) {
    if (session_->facts() == nullptr || is_leaving_) return;
    if (rounds_done_ >= rounds_) return leave(now);
    name_ = session_->facts()->name;
    bytes_ = session_->facts()->bytes;
    for (std::uint32_t i = 0; i < kDepth; ++i) {
      Place& place = places_[i];
      if (place.is_waiting) continue;
      const storage::PeerMemory memory = memory_of(*data_, i);
      if (place.bytes == 0) place = next_place();
      if (place.is_writing) fill(place, memory);
      if (!session_->on_request({.kind = place.is_writing ? storage::DiskRequest::Kind::write
                                                          : storage::DiskRequest::Kind::read,
                                 .offset = (std::uint64_t{number_} * kDepth + i) * kRegionBytes,
                                 .bytes = place.bytes,
                                 .memory = memory,
                                 .user = Tag{i + 1}},
                                now, out_))
        return;
      place.is_waiting = true;
      for (const auto& work : out_.on(kChannel)) driver_.carry_out(connection_, {&work, 1}, now);
      out_.clear();
    }
  }
  /// In order, as soon as nothing is under way.
  void leave(TimeNs now) {
    for (const Place& place : places_) {
      if (place.is_waiting) return;
    }
    is_leaving_ = true;
    session_->log_out(now, out_);
    carry_out(now);
  }
  Place next_place() {
    constexpr std::uint32_t kBlock = 512;
    return {.bytes = kBlock * static_cast<std::uint32_t>(1 + random_.below(kRegionBytes / kBlock)),
            .seed = random_.below(1u << 30)};
  }
  static void fill(const Place& place, const storage::PeerMemory& memory) {
    sim::Random bytes(place.seed);
    for (std::uint32_t at = 0; at < place.bytes; at += 8)
      store_be(memory.data() + at, std::uint64_t{bytes.below(~0u)} << 32 | bytes.below(~0u));
  }

  void on_answer(const storage::DiskAnswer& answer, TimeNs) {
    const std::uint32_t index = raw(answer.user) - 1;
    Place& place = places_[index];
    place.is_waiting = false;
    if (answer.error == EAGAIN) return;
    if (answer.error != 0) give_up(fmt::format("a request failed: error {}", answer.error));
    const storage::PeerMemory memory = memory_of(*data_, index);
    if (place.is_writing) {
      place.is_writing = false;
      std::fill_n(memory.data(), place.bytes, std::byte{});
      return;
    }
    const std::vector<std::byte> found(memory.data(), memory.data() + place.bytes);
    fill(place, memory);
    if (!std::equal(found.begin(), found.end(), memory.data()))
      give_up(fmt::format("region {} has other bytes than were written", index));
    place = {};
    ++rounds_done_;
  }

  rdma::Driver& driver_;
  const AddTarget target_;
  const std::uint32_t rounds_, number_;
  sim::Random random_;
  InitiatorSettings settings_;
  std::optional<rdma::BufferPool> scratch_, data_;
  std::unique_ptr<Initiator> session_;
  storage::InitiatorOutput out_;
  rdma::ConnectionId connection_{};
  TimeNs begins_at_ = kNever;
  std::array<Place, kDepth> places_{};
  std::string name_ = "no session";
  std::uint64_t bytes_ = 0;
  std::uint32_t rounds_done_ = 0, sessions_ = 0;
  bool is_leaving_ = false, is_done_ = false;
};

/// All of a process, on one device.
class Disks final : public rdma::Handler {
 public:
  Disks(service::Loop& loop, std::uint32_t rounds, std::span<char*> lines) {
    constexpr std::uint32_t kReceives = 2048;
    driver_ = must(rdma::Driver::create(
        *this, {.receives = kReceives, .receive_bytes = Initiator::kResponseBytes}));
    if (auto attached = driver_->attach(loop); !attached) give_up(attached.error().text);
    for (const char* const line : lines) {
      const auto number = static_cast<std::uint32_t>(disks_.size());
      disks_.push_back(std::make_unique<Disk>(*driver_, line, rounds, number));
      loop.add(*disks_.back());
      disks_.back()->begin(loop.now());
    }
  }
  bool are_done() const {
    return std::ranges::all_of(disks_, [](const auto& disk) { return disk->is_done(); });
  }
  void print() const {
    for (const auto& disk : disks_) fmt::print("{}\n", disk->text());
  }

 private:
  Disk& disk_of(rdma::ConnectionId connection) {
    return **std::ranges::find(disks_, connection,
                               [](const auto& disk) { return disk->connection(); });
  }
  void on_requested(const rdma::Requested&, TimeNs) override {}
  void on_established(const rdma::Established& established, TimeNs now, WorkList&) override {
    const PrivateData& data = established.private_data;
    disk_of(established.connection).on_established({data.begin(), data.size()}, now);
  }
  ReceiveUse on_message(rdma::ConnectionId connection, const Message& message, TimeNs now,
                        WorkList&) override {
    return disk_of(connection).on_message(message, now);
  }
  void on_done(rdma::ConnectionId connection, Tag tag, CompletionStatus status, TimeNs now,
               WorkList&) override {
    disk_of(connection).on_done(tag, status, now);
  }
  void on_end(rdma::ConnectionId connection, const rdma::End& end, TimeNs now) override {
    disk_of(connection).on_end(end, now);
  }

  std::unique_ptr<rdma::Driver> driver_;
  std::vector<std::unique_ptr<Disk>> disks_;
};

}  // namespace
}  // namespace verbatim::ulp::srp

int main(int argc, char** argv) {
  using namespace verbatim;
  if (argc < 3) ulp::srp::give_up("srp_disk ROUNDS LINE...");
  const auto loop = ulp::srp::must(service::Loop::create());
  ulp::srp::Disks disks(*loop, static_cast<std::uint32_t>(std::atoi(argv[1])),
                        std::span(argv, static_cast<std::size_t>(argc)).subspan(2));
  while (!disks.are_done()) loop->turn();
  disks.print();
  return 0;
}
