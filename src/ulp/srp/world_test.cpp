#include <deque>
#include <map>
#include <vector>

#include "sim/random.h"
#include "ulp/srp/bench_for_test.h"

namespace verbatim::ulp::srp {
namespace {

/// An initiator and a target by seed: commands of all kinds of descriptors, aborts and resets, a
/// store that answers late and in any order, a request limit that moves, channels that end at any
/// time. Checks that each command is answered once, with the right bytes, that credits add up, and
/// that all receives and all that was lent come back.
class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) { connect(); }
  ~World() {
    cut();
    for (const auto& session : bench_.ports->sessions()) EXPECT_EQ(session, nullptr);
  }
  void run(int commands) {
    for (int steps = 0; over_ < commands && steps < 300 * commands; ++steps) {
      if (begun_ < commands) begin();
      step();
      ASSERT_FALSE(testing::Test::HasFailure());
    }
    EXPECT_EQ(over_, commands);
    EXPECT_TRUE(ops_.empty());
    EXPECT_EQ(bench_.disk, truth_);
  }

 private:
  static constexpr std::uint32_t kRegions = 16, kRegionBlocks = 60;
  /// A command of the initiator's, at the beginning of a region of its own. Its memory begins at
  /// tag << 32; a table lies at the end of that.
  struct Op {
    bool writes = false, is_aborted = false;
    std::uint32_t region = 0;
    std::vector<std::byte> data, table;
    std::uint32_t received = 0;
  };
  struct Job {
    Work work;
    std::vector<std::byte> header;
  };

  void connect() {
    auto verdict = bench_.meet(TargetBench::login_of(static_cast<std::uint8_t>(random_.below(2))));
    session_ = std::move(std::get<storage::Accept>(verdict).session);
    store_ = std::make_unique<storage::StoreBench>(bench_.disk, *session_,
                                                   random_.below(2) == 0 ? 1 << 20 : 1000);
    credits_ = 8;
    is_over_ = false;
    receives_.clear();
  }

  /// The connection is over: its work comes back, then the store's answers.
  void cut() {
    while (!jobs_.empty()) {
      const Tag tag = done_of(jobs_.front().work);
      jobs_.pop_front();
      if (tag == kNoTag) continue;
      session_->on_done(tag, CompletionStatus::flushed, now_, out_);
      take();
    }
    is_over_ = true;
    session_->on_end(now_, out_);
    take();
    jobs_.clear();
    while (!store_->waiting.empty()) {
      store_->answer(random_.below(store_->waiting.size()), now_, out_);
      take();
    }
    EXPECT_TRUE(session_->is_idle());
    EXPECT_EQ(store_->loans(), 0u);
    session_.reset();
    managing_.clear();
    for (const auto& [tag, op] : ops_) forget(op);
    ops_.clear();
  }

  /// What was not acknowledged may be there or not.
  void forget(const Op& op) {
    ++over_;
    if (op.writes) std::ranges::copy(region(bench_.disk, op), region(truth_, op).begin());
  }
  static MutableByteSpan region(std::vector<std::byte>& disk, const Op& op) {
    return std::span(disk).subspan(std::size_t{op.region} * kRegionBlocks * kBlock, op.data.size());
  }
  static Tag done_of(const Work& work) {
    return std::visit(
        Overloaded{[](const Send& one) { return one.done; },
                   [](const Read& one) { return one.done; },
                   [](const Write& one) { return one.done; }, [](const auto&) { return kNoTag; }},
        work);
  }

  void step() {
    now_ += random_.below(3) * kMillisecond;
    switch (random_.below(4)) {
      case 0:
      case 1:
        if (!jobs_.empty()) return finish_job();
        break;
      case 2:
        if (store_->waiting.empty()) break;
        store_->answer(random_.below(store_->waiting.size()), now_, out_);
        return take();
      default:
        break;
    }
    if (random_.below(50) == 0)
      static_cast<Channel&>(*session_).set_request_limit(
          static_cast<std::uint16_t>(2 + random_.below(7)));
    session_->on_time(now_, out_);
    take();
    if (random_.below(40) == 0) manage();
    if (random_.below(400) != 0) return;
    cut();
    connect();
  }

  void begin() {
    if (credits_ < 2) return;  // One is for task management.
    const auto place = static_cast<std::uint32_t>(random_.below(kRegions));
    for (const auto& [tag, op] : ops_) {
      if (op.region == place) return;
    }
    const std::uint64_t tag = ++tag_;
    Op& op = ops_[tag];
    op.region = place;
    op.writes = random_.below(2) == 0;
    const auto blocks = static_cast<std::uint16_t>(1 + random_.below(kRegionBlocks));
    op.data.resize(std::size_t{blocks} * kBlock);
    if (op.writes)
      std::ranges::generate(op.data, [this] { return static_cast<std::byte>(random_.below(256)); });
    CommandText command{.tag = tag,
                        .attribute = static_cast<std::uint8_t>(random_.below(3)),
                        .writes = op.writes,
                        .cdb = blocks_cdb(op.writes, place * kRegionBlocks, blocks)};
    if (op.writes && op.data.size() <= 8192 && random_.below(2) == 0) {
      command.immediate = op.data;
    } else {
      describe(command, op);
    }
    ++begun_;
    --credits_;
    send(command.bytes());
  }

  void describe(CommandText& command, Op& op) {
    const auto bytes = static_cast<std::uint32_t>(op.data.size());
    const auto key = MemoryKey{static_cast<std::uint32_t>(command.tag)};
    command.is_indirect = random_.below(3) != 0;
    const std::uint64_t ranges = command.is_indirect ? 1 + random_.below(90) : 1;
    for (std::uint32_t at = 0; at < bytes;) {
      const bool is_last = command.ranges.size() + 1 >= ranges;
      const auto part =
          is_last ? bytes - at
                  : std::min(bytes - at,
                             static_cast<std::uint32_t>(random_.below(2 * bytes / ranges + 1)));
      command.ranges.push_back({(command.tag << 32) + at, part, key});
      at += part;
    }
    if (!command.is_indirect) return;
    for (const RemoteRange& range : command.ranges) CommandText::add(op.table, range);
    command.table = {(command.tag << 32) + bytes, static_cast<std::uint32_t>(op.table.size()), key};
    if (random_.below(2) == 0) command.inlined = random_.below(command.ranges.size() + 1);
  }

  void manage() {
    if (credits_ < 1 || !managing_.empty() || ops_.empty()) return;
    --credits_;
    const std::uint64_t tag = std::uint64_t{1} << 63 | ++tag_;
    auto op = ops_.begin();
    std::advance(op, static_cast<long>(random_.below(ops_.size())));
    const bool resets = random_.below(4) == 0;
    const TaskManagement wanted{tag, 0, resets ? Function::unit_reset : Function::abort_task,
                                op->first};
    for (auto& [name, one] : ops_) {
      if (resets || name == op->first) managing_[tag].push_back(name);
    }
    send(encode(wanted));
  }

  void send(ByteSpan bytes) {
    const ReceiveId id{++receive_};
    auto& kept = receives_[receive_];
    kept.assign(bytes.begin(), bytes.end());
    const Message message{.receive = id,
                          .memory = {kept.data(), static_cast<std::uint32_t>(kept.size()), {}}};
    if (session_->on_message(message, now_, out_) == ReceiveUse::done) receives_.erase(receive_);
    take();
    EXPECT_LE(receives_.size(), 8u);
  }

  void take() {
    for (;;) {
      for (const auto& request : out_.store) store_->take(request);
      for (const Work& work : out_.work) {
        if (is_over_) break;
        if (const auto* const end = std::get_if<Disconnect>(&work)) ADD_FAILURE() << end->reason;
        if (const auto* const again = std::get_if<PostAgain>(&work)) {
          EXPECT_EQ(receives_.erase(raw(again->receive)), 1u);
          continue;
        }
        Job job{work, {}};
        if (const auto* const one = std::get_if<Send>(&work))
          job.header.assign(one->header.begin(), one->header.end());
        jobs_.push_back(std::move(job));
      }
      const bool more = out_.more;
      out_.clear();
      if (!more) return;
      session_->resume(now_, out_);
    }
  }

  MutableByteSpan memory_of(const RemoteRange& range) {
    const auto op = ops_.find(range.address >> 32);
    EXPECT_NE(op, ops_.end()) << "a command that is over";
    if (op == ops_.end()) return {};
    EXPECT_EQ(raw(range.remote_key), op->first);
    const auto offset = static_cast<std::uint32_t>(range.address);
    const auto bytes = static_cast<std::uint32_t>(op->second.data.size());
    auto& memory = offset >= bytes ? op->second.table : op->second.data;
    const std::uint32_t from = offset >= bytes ? offset - bytes : offset;
    EXPECT_LE(std::size_t{from} + range.bytes, memory.size());
    if (&memory == &op->second.data && !op->second.writes) op->second.received += range.bytes;
    return std::span(memory).subspan(from, range.bytes);
  }

  void finish_job() {
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    if (std::holds_alternative<Send>(job.work)) {
      on_message(job.header);
    } else if (const auto* const write = std::get_if<Write>(&job.work)) {
      MutableByteSpan to = memory_of(write->to);
      for (const Slice& slice : write->from) {
        std::memcpy(to.data(), slice.data, slice.bytes);
        to = to.subspan(slice.bytes);
      }
      EXPECT_TRUE(to.empty());
    } else if (const auto* const read = std::get_if<Read>(&job.work)) {
      ByteSpan from = memory_of(read->from);
      for (const Slice& slice : read->into) {
        std::memcpy(slice.data, from.data(), slice.bytes);
        from = from.subspan(slice.bytes);
      }
      EXPECT_TRUE(from.empty());
    }
    const Tag done = done_of(job.work);
    if (done == kNoTag) return;
    session_->on_done(done, CompletionStatus::success, now_, out_);
    take();
  }

  void on_message(ByteSpan bytes) {
    credits_ += static_cast<std::int32_t>(load_be<std::uint32_t>(&bytes[4]));
    EXPECT_LE(credits_, 8);
    if (opcode_of(bytes) == Opcode::credit_request)
      return send(encode_answer(Opcode::credit_response, *tag_of(bytes)));
    const auto response = decode_response(bytes);
    ASSERT_TRUE(response);
    if (const auto managed = managing_.find(response->tag); managed != managing_.end()) {
      EXPECT_EQ(response->code, ResponseCode::complete);
      // Whatever was ended has no answer any more, and its memory is not touched.
      for (const std::uint64_t tag : managed->second) {
        const auto op = ops_.find(tag);
        if (op == ops_.end()) continue;
        forget(op->second);
        ops_.erase(op);
      }
      managing_.erase(managed);
      return;
    }
    const auto found = ops_.find(response->tag);
    ASSERT_NE(found, ops_.end()) << "command " << response->tag << " was answered before";
    on_response(*response, found->second);
    ops_.erase(found);
  }

  void on_response(const Response& response, const Op& op) {
    if (response.status == raw(scsi::Status::check_condition)) {
      // The unit attention after a reset.
      EXPECT_EQ(response.sense[2] & std::byte{0xf}, std::byte{6});
      return forget(op);
    }
    ++over_;
    ++answered_;
    EXPECT_EQ(response.status, 0);
    if (op.writes) {
      std::ranges::copy(op.data, region(truth_, op).begin());
    } else {
      EXPECT_EQ(op.received, op.data.size());
      EXPECT_TRUE(std::ranges::equal(op.data, region(truth_, op)));
    }
  }

 public:
  int answered() const { return answered_; }

 private:
  sim::Random random_;
  TargetBench bench_;
  std::unique_ptr<storage::Session> session_;
  std::unique_ptr<storage::StoreBench> store_;
  storage::Output out_;
  TimeNs now_ = kSecond;

  std::vector<std::byte> truth_ = std::vector<std::byte>(1000 * kBlock);
  std::map<std::uint64_t, Op> ops_;                               // By tag.
  std::map<std::uint64_t, std::vector<std::uint64_t>> managing_;  // What they end.
  std::map<std::uint32_t, std::vector<std::byte>> receives_;      // That the target has kept.
  std::deque<Job> jobs_;
  std::int32_t credits_ = 0;
  std::uint64_t tag_ = 0;
  std::uint32_t receive_ = 0;
  bool is_over_ = false;
  int begun_ = 0, over_ = 0, answered_ = 0;
};

TEST(SrpWorld, EachCommandIsAnsweredOnceWithTheRightBytes) {
  int answered = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    World world(seed);
    world.run(150);
    answered += world.answered();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  // Not all are ended by someone.
  EXPECT_GT(answered, 60 * 150 / 2);
}

}  // namespace
}  // namespace verbatim::ulp::srp
