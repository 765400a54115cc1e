#include "ulp/nvmeof/host/initiator.h"

#include <cerrno>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ulp/storage/initiator_bench_for_test.h"

namespace verbatim::ulp::nvmeof {
namespace {

using storage::Channel;
using Kind = storage::DiskRequest::Kind;

/// A host whose target is the test: each input's output as text, queue by queue.
class Bench final : public storage::InitiatorBench {
 public:
  explicit Bench(bool has_disk = true, bool passes_io = false)
      : engine({.subsystem = "nqn.2026-01.test:s",
                .host = "nqn.2026-01.test:h",
                .entries = 4,
                .has_disk = has_disk,
                .passes_io = passes_io},
               scratch()) {
    engine.begin(0, out_);
    printed();
    engine.on_established(Channel{0}, {}, 0, out_);
    connect = printed();
  }
  std::string in(Completion completion, Channel channel = Channel{0}) {
    std::array<std::byte, Completion::kSize> bytes{};
    encode(completion, bytes);
    engine.on_message(channel, {.memory = {bytes.data(), Completion::kSize, {}}}, now, out_);
    return printed();
  }
  std::string admin(std::uint64_t result, Status status = Status::success) {
    return in({.result = result, .command = CommandId{1}, .status = status});
  }
  /// Of the last command of the I/O queue.
  std::string answer(Status status = Status::success) {
    return in({.command = command, .status = status}, Channel{1});
  }
  std::string admin_identify(std::uint32_t capsule) {
    memory_[77] = std::byte{8};
    store_le(&memory_[536], std::uint32_t{0x100005});
    store_le(&memory_[520], std::uint16_t{0x0c});
    store_le(&memory_[1792], capsule / 16);
    return admin(0);
  }
  /// Through the login, for a disk of 1,000 blocks; commands take `capsule` bytes.
  void log_in(std::uint32_t capsule = 4160) {
    admin(1);                              // Connect
    admin(std::uint64_t{1} << 37 | 0x7f);  // CAP
    admin(0);                              // CC
    admin(1);                              // CSTS
    admin_identify(capsule);
    admin(0);  // Set Features
    store_le(&memory_[0], std::uint64_t{1000});
    memory_[130] = std::byte{9};
    admin(0);
    engine.on_established(Channel{1}, {}, now, out_);
    printed();
    in({}, Channel{1});
    ASSERT_NE(engine.facts(), nullptr);
  }
  std::string pass(AdminOpcode opcode, std::uint32_t bytes, Channel channel = Channel{0}) {
    const storage::PeerMemory data{{memory_.data(), bytes, MemoryKey{1}}, MemoryKey{0x78}};
    if (!engine.pass(channel, {.opcode = opcode}, data, now, out_)) return "busy";
    return printed();
  }

  Initiator engine;
  std::string connect;
  CommandId command{};

 private:
  storage::Initiator& initiator() override { return engine; }
  std::string line(const Send& send) override {
    const auto found = decode_command(send.header);
    command = found->id;
    std::string text = fmt::format("{:02x}", std::to_integer<unsigned>(send.header[0]));
    const DataDescriptor& data = found->data;
    if (data.kind == DataDescriptor::Kind::keyed)
      text += fmt::format(" {} bytes key {:x}{}", data.bytes, raw(data.key),
                          data.invalidates ? " invalidate" : "");
    if (data.kind == DataDescriptor::Kind::in_capsule)
      text += fmt::format(" {} in capsule", data.bytes);
    for (const Slice& slice : send.payload) text += fmt::format(" with {}", slice.bytes);
    if (send.header.size() > Command::kSize)
      text += fmt::format(" and {}", send.header.size() - Command::kSize);
    return text;
  }
};

TEST(NvmeHost, LogsIn) {
  Bench bench;
  EXPECT_EQ(bench.connect, "7f 1024 bytes key 77");  // SGL 0x40: a region's key stays.
  EXPECT_EQ(bench.admin(1), "7f");
  EXPECT_EQ(bench.admin(std::uint64_t{1} << 37 | 0x7f), "7f");
  EXPECT_EQ(bench.admin(0), "7f");
  EXPECT_EQ(bench.admin(0), "");  // Not ready.
  EXPECT_EQ(bench.on_time(100 * kMillisecond), "7f");
  EXPECT_EQ(bench.admin(1), "06 4096 bytes key 77");
}

TEST(NvmeHost, ReadsAndWrites) {
  Bench bench;
  bench.log_in();
  EXPECT_EQ(bench.ask(Kind::read, 1024, 4096), "02 4096 bytes key 78");
  EXPECT_EQ(bench.answer(), "answer 5 error 0");
  EXPECT_EQ(bench.ask(Kind::write, 1024, 4096), "01 4096 in capsule with 4096");
  EXPECT_EQ(bench.answer(Status::write_fault), fmt::format("answer 5 error {}", EIO));
  EXPECT_EQ(bench.ask(Kind::write, 0, 8192), "01 8192 bytes key 78");
  EXPECT_EQ(bench.answer(Status::capacity_exceeded), fmt::format("answer 5 error {}", ENOSPC));
  EXPECT_EQ(bench.ask(Kind::flush, 0, 0), "00");
  EXPECT_EQ(bench.answer(), "answer 5 error 0");
  EXPECT_EQ(bench.ask(Kind::write_zeroes, 0, 8192), "08");
  EXPECT_EQ(bench.answer(), "answer 5 error 0");
  EXPECT_EQ(bench.ask(Kind::discard, 0, 8192), "09 16 in capsule and 16");
  EXPECT_EQ(bench.answer(), "answer 5 error 0");
  EXPECT_EQ(bench.answer().substr(0, 26), "the target answers command");  // Twice.
}

TEST(NvmeHost, WithoutDataInCapsules) {
  Bench bench;
  bench.log_in(64);
  EXPECT_FALSE(bench.engine.facts()->can_discard);
  EXPECT_EQ(bench.ask(Kind::write, 1024, 512), "01 512 bytes key 78");
}

TEST(NvmeHost, TheQueuesSizeIsKept) {
  Bench bench;
  bench.log_in();
  for (int i = 0; i < 3; ++i) bench.ask(Kind::read, 0, 512);
  storage::InitiatorOutput out;
  EXPECT_FALSE(bench.engine.on_request({.kind = Kind::flush}, 0, out));
}

TEST(NvmeHost, RefusalsSayWhy) {
  EXPECT_EQ(Bench().admin(0, Status::connect_invalid_host),
            "this host is not admitted: nqn.2026-01.test:s must name nqn.2026-01.test:h");
  EXPECT_EQ(Bench().admin(0, Status::connect_invalid_parameters),
            "there is no such subsystem, or not for us: nqn.2026-01.test:s for nqn.2026-01.test:h");
  Bench discovery;
  discovery.admin(1);
  EXPECT_EQ(discovery.admin(0x7f), "the controller has no NVM command set: it is for discovery");
  Bench none;
  for (const std::uint64_t result :
       {std::uint64_t{1}, std::uint64_t{1} << 37 | 0x7f, std::uint64_t{0}, std::uint64_t{1}})
    none.admin(result);
  EXPECT_EQ(none.admin(0), "the target has no keyed SGLs, which RDMA needs");
}

TEST(NvmeHost, SilenceEndsTheSession) {
  Bench bench;
  bench.log_in();
  EXPECT_EQ(bench.on_time(5 * kSecond), "18");
  EXPECT_EQ(bench.in({.command = CommandId{2}}), "");
  EXPECT_EQ(bench.on_time(10 * kSecond), "18");
  EXPECT_EQ(bench.on_time(15 * kSecond), "the target does not answer Keep Alive within 5000 ms");
  Bench never;
  EXPECT_EQ(never.on_time(15 * kSecond), "the target does not finish the login within 15 s");
}

TEST(NvmeHost, AnAnswerBeforeItsTimeIsNone) {
  EXPECT_EQ(Bench().in({}, Channel{1}), "an answer on a queue that is not connected");
}

TEST(NvmeHost, LogsOut) {
  Bench bench;
  bench.log_in();
  storage::InitiatorOutput out;
  bench.engine.log_out(0, out);
  EXPECT_EQ(bench.admin(0), "end, end");
}

TEST(NvmeHost, WithoutADiskCommandsOfTheUsersArePassed) {
  Bench bench(false);
  bench.admin(7);     // Connect
  bench.admin(0x7f);  // CAP of a discovery controller
  bench.admin(0);
  bench.admin(1);
  EXPECT_EQ(bench.pass(AdminOpcode::get_log_page, 512), "busy") << "not logged in";
  EXPECT_EQ(bench.admin(0), "") << "no I/O queue";
  ASSERT_NE(bench.engine.facts(), nullptr);
  EXPECT_EQ(bench.engine.controller_id(), 7);
  EXPECT_EQ(bench.pass(AdminOpcode::get_log_page, 512), "02 512 bytes key 78");
  EXPECT_EQ(bench.pass(AdminOpcode::identify, 0), "busy") << "one at a time";
  EXPECT_FALSE(bench.engine.take_answer());
  bench.in({.result = 9, .command = CommandId{3}, .status = Status::invalid_log_page});
  const auto answer = bench.engine.take_answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->result, 9u);
  EXPECT_EQ(answer->status, Status::invalid_log_page);
  EXPECT_FALSE(bench.engine.take_answer()) << "once";
  EXPECT_FALSE(bench.engine.was_refused()) << "the login was not";
  EXPECT_EQ(bench.pass(AdminOpcode::identify, 0), "06");
  EXPECT_EQ(bench.on_time(10 * kSecond), "18");
  bench.in({.command = CommandId{2}});
  EXPECT_EQ(bench.on_time(31 * kSecond),
            "the target does not answer a program's command within 30 s");
}

TEST(NvmeHost, CommandsArePassedToAnIoQueueWithoutADisk) {
  Bench bench(false, true);
  bench.admin(7);                              // Connect
  bench.admin(std::uint64_t{1} << 37 | 0x7f);  // CAP
  bench.admin(0);
  bench.admin(1);
  EXPECT_EQ(bench.admin_identify(4160), "09") << "Set Features";
  EXPECT_EQ(bench.admin(0), "connect 1") << "no namespace is asked for";
  storage::InitiatorOutput out;
  bench.engine.on_established(Channel{1}, {}, 0, out);
  ASSERT_EQ(bench.engine.facts(), nullptr);
  bench.in({}, Channel{1});
  ASSERT_NE(bench.engine.facts(), nullptr);
  EXPECT_EQ(bench.pass(AdminOpcode{0x02}, 512, Channel{1}), "02 512 bytes key 78");
  EXPECT_EQ(bench.pass(AdminOpcode::identify, 0), "busy") << "one at a time on both queues";
  bench.in({.command = CommandId{3}, .status = Status::lba_out_of_range}, Channel{1});
  ASSERT_EQ(bench.engine.take_answer()->status, Status::lba_out_of_range);
  EXPECT_EQ(bench.in({.command = CommandId{3}}, Channel{1}),
            "the target answers command 3, which is not under way");
}

}  // namespace
}  // namespace verbatim::ulp::nvmeof
