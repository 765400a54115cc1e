#include "ulp/iser/initiator/initiator.h"

#include <cerrno>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ulp/iscsi/bench_for_test.h"
#include "ulp/storage/initiator_bench_for_test.h"

namespace verbatim::ulp::iser {
namespace {

using iscsi::Opcode;
using iscsi::ResponseHeader;
using storage::Channel;
using Kind = storage::DiskRequest::Kind;

constexpr std::string_view kAgreed("InitialR2T=Yes\0ImmediateData=Yes\0RDMAExtensions=Yes\0", 52);

/// An initiator whose target is the test: each input's output as text.
class Bench final : public storage::InitiatorBench {
 public:
  explicit Bench(iscsi::Credentials credentials = {}, iscsi::Credentials target_proves = {})
      : engine(
            {.login = {.initiator = "iqn.2026-01.test:i1",
                       .target = "iqn.2026-01.test:t1",
                       .credentials = std::move(credentials),
                       .target_proves = std::move(target_proves),
                       .random = [](MutableByteSpan out) { std::ranges::fill(out, std::byte{9}); },
                       .isid = 0x800000420000},
             .lun = 2,
             .commands = 4},
            scratch()) {
    engine.begin(0, out_);
    EXPECT_EQ(out_.connect.size(), 1u);
    EXPECT_EQ(std::to_integer<unsigned>(out_.connect[0].private_data[0]), 0xc0u);
    EXPECT_GE(out_.connect[0].sizes.inline_bytes, Connection::kHeadersBytes);  // A command.
    out_.clear();
    engine.on_established(Channel{0}, {}, 0, out_);
    login = printed();
  }

  std::string in(ResponseHeader header, std::string_view data = {}) {
    header.data_bytes = static_cast<std::uint32_t>(data.size());
    header.stat_sn = ++stat_sn_;
    if (header.max_cmd_sn == 0) header.max_cmd_sn = 100, header.exp_cmd_sn = 1;
    std::vector<std::byte> bytes;
    const auto add = [&](ByteSpan part) { bytes.insert(bytes.end(), part.begin(), part.end()); };
    add(encode(Header{}));
    add(iscsi::encode(header));
    add(std::as_bytes(std::span(data)));
    return in_bytes(std::move(bytes));
  }
  std::string in_bytes(std::vector<std::byte> bytes) {
    engine.on_message(Channel{0},
                      {.memory = {bytes.data(), static_cast<std::uint32_t>(bytes.size()), {}}}, now,
                      out_);
    return printed();
  }
  std::string answer_login(std::uint8_t flags, std::string_view text, std::uint16_t status = 0) {
    return in(
        {.opcode = Opcode::login_response, .flags = flags, .data_sn = std::uint32_t{status} << 16},
        text);
  }
  std::string answer(std::uint8_t status = 0, std::string_view sense = {}) {
    return in({.opcode = Opcode::scsi_response, .status = status, .task_tag = task_tag}, sense);
  }
  /// Through the login and the first commands, for a disk of 1,000 blocks.
  void log_in(std::string_view agreed = kAgreed) {
    answer_login(0x87, agreed);
    answer();  // TEST UNIT READY
    memory_[8] = std::byte{'V'};
    answer();
    memory_[0] = memory_[1] = memory_[2] = memory_[3] = memory_[4] = memory_[5] = {};
    store_be(&memory_[0], std::uint64_t{999});
    store_be(&memory_[8], std::uint32_t{512});
    answer();
    for (int i = 0; i < 4; ++i) answer(0x02, kInvalidField);
    ASSERT_NE(engine.facts(), nullptr);
  }
  /// A length, then fixed sense data: 5/2400.
  static constexpr std::string_view kInvalidField{
      "\0\x12\x70\0\x05\0\0\0\0\x0a\0\0\0\0\x24\0\0\0\0\0", 20};
  static constexpr std::string_view kMediumError{
      "\0\x12\x70\0\x03\0\0\0\0\x0a\0\0\0\0\x11\0\0\0\0\0", 20};

  Initiator engine;
  std::string login, sent;  // The last SEND, in hexadecimal.
  std::uint32_t task_tag = 0;

 private:
  storage::Initiator& initiator() override { return engine; }
  std::string line(const Send& send) override {
    sent = scsi::hex_of(send.header);
    const auto header = iscsi::decode_request(send.header.subspan<kHeaderBytes, 48>());
    task_tag = header->task_tag;
    const auto carrier = decode(send.header.first<kHeaderBytes>());
    std::string text = fmt::format("{} {:x}", sent.substr(56, 4), header->cmd_sn);
    const auto at = [&](const Buffer& buffer) {
      return fmt::format("+{} key {:x}",
                         buffer.base - reinterpret_cast<std::uintptr_t>(memory_.data()),
                         buffer.stag);
    };
    if (carrier->read) text += " read " + at(*carrier->read);
    if (carrier->write) text += " write " + at(*carrier->write);
    for (const Slice& slice : send.payload) text += fmt::format(" with {}", slice.bytes);
    const ByteSpan keys = send.header.subspan(76);
    if (!keys.empty()) text += " " + iscsi::readable(keys);
    return text;
  }

  std::uint32_t stat_sn_ = 0;
};

TEST(IserInitiator, LogsInAsLinuxDoes) {
  Bench bench;
  EXPECT_EQ(bench.login,
            "4387 1 InitiatorName=iqn.2026-01.test:i1 TargetName=iqn.2026-01.test:t1 "
            "SessionType=Normal InitialR2T=No ImmediateData=Yes MaxBurstLength=262144 "
            "FirstBurstLength=8192 MaxOutstandingR2T=1 MaxConnections=1 DataPDUInOrder=Yes "
            "DataSequenceInOrder=Yes InitiatorRecvDataSegmentLength=8192 "
            "TargetRecvDataSegmentLength=8192 RDMAExtensions=Yes DefaultTime2Wait=2 "
            "DefaultTime2Retain=0 ErrorRecoveryLevel=0");
  EXPECT_EQ(bench.answer_login(0x87, kAgreed), "0180 1");
  EXPECT_EQ(bench.answer(), "01c0 2 read +0 key 77");
  // INQUIRY of unit 2: 36 bytes, flags of one read buffer.
  EXPECT_EQ(bench.sent.substr(0, 2), "14");
  EXPECT_EQ(bench.sent.substr(72, 16), "0002000000000000");
  EXPECT_EQ(bench.sent.substr(120), "12000000240000000000000000000000");
}

TEST(IserInitiator, ProvesWhoItIs) {
  Bench bench({"bob", "secretofbob12"});
  EXPECT_EQ(bench.login,
            "4381 1 InitiatorName=iqn.2026-01.test:i1 TargetName=iqn.2026-01.test:t1 "
            "SessionType=Normal AuthMethod=CHAP,None");
  EXPECT_EQ(bench.answer_login(0x00, {"AuthMethod=CHAP\0", 16}), "4300 1 CHAP_A=5");
  const std::string text = iscsi::text_of({"CHAP_A=5", "CHAP_I=7", "CHAP_C=0x0102030405060708"});
  const std::byte challenge[] = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4},
                                 std::byte{5}, std::byte{6}, std::byte{7}, std::byte{8}};
  const auto response = iscsi::chap_response(std::byte{7}, "secretofbob12", challenge);
  EXPECT_EQ(bench.answer_login(0x00, text),
            "4381 1 CHAP_N=bob CHAP_R=" + iscsi::hex_text(response));
  EXPECT_EQ(bench.answer_login(0x81, {}).substr(0, 20), "4387 1 InitialR2T=No");
  EXPECT_EQ(bench.answer_login(0x87, kAgreed), "0180 1");

  Bench unneeded({"bob", "secretofbob12"});
  EXPECT_EQ(unneeded.answer_login(0x81, {"AuthMethod=None\0", 16}).substr(0, 20),
            "4387 1 InitialR2T=No");
}

/// Mutual CHAP: what a target answers to our challenge, and what comes of it.
TEST(IserInitiator, TheTargetProvesWhoItIs) {
  const auto after = [](std::string_view text, std::string_view challenge = "CHAP_C=0x0102") {
    Bench bench({"bob", "secretofbob12"}, {"tgt", "secretoftgt12"});
    bench.answer_login(0x00, {"AuthMethod=CHAP\0", 16});
    const std::string proof =
        bench.answer_login(0x00, iscsi::text_of({"CHAP_A=5", "CHAP_I=7", challenge}));
    EXPECT_TRUE(proof.ends_with("CHAP_I=9 CHAP_C=0x09090909090909090909090909090909")) << proof;
    return bench.answer_login(0x81, text);
  };
  const std::vector<std::byte> ours(16, std::byte{9});
  const auto right = iscsi::hex_text(iscsi::chap_response(std::byte{9}, "secretoftgt12", ours));
  const auto wrong = iscsi::hex_text(iscsi::chap_response(std::byte{9}, "another", ours));
  EXPECT_EQ(after(iscsi::text_of({"CHAP_N=tgt", "CHAP_R=" + right})).substr(0, 20),
            "4387 1 InitialR2T=No");
  EXPECT_EQ(after(iscsi::text_of({"CHAP_N=tgt", "CHAP_R=" + wrong})),
            "CHAP_R of target 'tgt' is wrong: it has another secret");
  EXPECT_EQ(after(iscsi::text_of({"CHAP_N=eve", "CHAP_R=" + right})),
            "the target is CHAP_N=eve: we know tgt");
  EXPECT_EQ(after({}), "the target is CHAP_N=: we know tgt");
  Bench none({"bob", "secretofbob12"}, {"tgt", "secretoftgt12"});
  EXPECT_EQ(none.answer_login(0x81, {"AuthMethod=None\0", 16}),
            "the target wants no CHAP: it must prove who it is");
}

TEST(IserInitiator, RefusedLoginsSayWhy) {
  const auto refused = [](std::uint8_t flags, std::string_view text, std::uint16_t status = 0) {
    return Bench().answer_login(flags, text, status);
  };
  EXPECT_EQ(refused(0x04, {}, 0x0203), "there is no such target (login status 0x0203)");
  EXPECT_EQ(refused(0x04, {}, 0x0201),
            "authentication has failed: the target wants another user or secret (login status "
            "0x0201)");
  EXPECT_EQ(refused(0x04, {}, 0x0299), "the target refuses (login status 0x0299)");
  EXPECT_EQ(refused(0x87, {"RDMAExtensions=No\0", 18}),
            "the target says RDMAExtensions=No: it serves iSCSI without iSER");
  EXPECT_EQ(refused(0x87, {"ImmediateData=Perhaps\0", 22}),
            "ImmediateData=Perhaps: Yes or No is expected");
  EXPECT_EQ(refused(0x81, {}), "the target answers in stage 0: we are in 1");
  Bench endless;
  std::string last;
  for (int i = 0; i < 20 && !last.contains("no end"); ++i) last = endless.answer_login(0x04, {});
  EXPECT_EQ(last, "the login has no end");
  Bench other({"bob", "secretofbob12"});
  EXPECT_EQ(other.answer_login(0x00, {"AuthMethod=KRB5\0", 16}),
            "the target wants AuthMethod=KRB5: we have CHAP");
}

TEST(IserInitiator, ReadsAndWrites) {
  Bench bench;
  bench.log_in();
  EXPECT_EQ(bench.ask(Kind::read, 1024, 4096), "01c0 8 read +8192 key 78");
  EXPECT_EQ(bench.answer(), "answer 5 error 0");
  // What goes with the command is not asked for: the address is that of the rest.
  EXPECT_EQ(bench.ask(Kind::write, 1024, 4096), "01a0 9 with 4096");
  EXPECT_EQ(bench.answer(0x02, Bench::kMediumError), fmt::format("answer 5 error {}", EIO));
  EXPECT_EQ(bench.ask(Kind::write, 0, 16384), "01a0 a write +16384 key 78 with 8192");
  EXPECT_EQ(bench.answer(0x08), fmt::format("answer 5 error {}", EAGAIN));
  EXPECT_EQ(bench.ask(Kind::flush, 0, 0), "0180 b");
  EXPECT_EQ(bench.answer(), "answer 5 error 0");
}

TEST(IserInitiator, DataUnaskedGoesInPieces) {
  Bench bench;
  bench.log_in(
      {"InitialR2T=No\0ImmediateData=No\0RDMAExtensions=Yes\0"
       "TargetRecvDataSegmentLength=4096\0",
       83});
  EXPECT_EQ(bench.ask(Kind::write, 0, 16384),
            "0120 8 write +16384 key 78, 0500 0 with 4096, 0580 0 with 4096");
}

TEST(IserInitiator, TheTargetsWindowIsKept) {
  Bench bench;
  bench.log_in();
  bench.in({.opcode = Opcode::nop_in, .transfer_tag = iscsi::kNoTag32});
  for (std::uint32_t i = 0; i < 4; ++i) bench.ask(Kind::read, 0, 512);
  storage::InitiatorOutput out;
  EXPECT_FALSE(bench.engine.on_request({.kind = Kind::flush}, 0, out));  // Four are under way.
}

TEST(IserInitiator, SilenceEndsTheSession) {
  Bench bench;
  bench.log_in();
  EXPECT_EQ(bench.on_time(4 * kSecond), "");
  EXPECT_EQ(bench.on_time(5 * kSecond), "4080 8");
  EXPECT_EQ(
      bench.in(
          {.opcode = Opcode::nop_in, .task_tag = bench.task_tag, .transfer_tag = iscsi::kNoTag32}),
      "");
  EXPECT_EQ(bench.on_time(10 * kSecond), "4080 8");
  EXPECT_EQ(bench.on_time(15 * kSecond), "the target has been silent for 10 s");

  Bench late;
  late.log_in();
  late.ask(Kind::read, 0, 512);
  for (TimeNs time = kSecond; time < 30 * kSecond; time += kSecond) {
    late.on_time(time);
    late.in({.opcode = Opcode::nop_in, .transfer_tag = iscsi::kNoTag32});
  }
  EXPECT_EQ(late.on_time(30 * kSecond), "the target does not answer a command within 30 s");
  Bench never;
  EXPECT_EQ(never.on_time(15 * kSecond), "the target does not finish the login within 15 s");
}

TEST(IserInitiator, WhatTheTargetDoesOutOfTheRules) {
  const auto after_login = [](ResponseHeader header) {
    Bench bench;
    bench.log_in();
    return bench.in(header);
  };
  EXPECT_EQ(after_login({.opcode = Opcode::scsi_response, .task_tag = 77}),
            "the target answers task 0x4d, which is not under way");
  EXPECT_EQ(after_login({.opcode = Opcode::data_in}),
            "the target sends opcode 0x25, which we have not asked for");
  EXPECT_EQ(after_login({.opcode = Opcode::reject, .response = 4}),
            "the target rejects a message of ours, reason 0x04");
  EXPECT_EQ(after_login({.opcode = Opcode::async_message, .data_sn = 0x01000000}),
            "the target ends the session, event 1");
  EXPECT_EQ(after_login({.opcode = Opcode::nop_in, .transfer_tag = 9}), "4080 8");  // It asks.
  EXPECT_EQ(Bench().in_bytes(std::vector<std::byte>(10)),
            "a message of 10 bytes: the headers have 76");
  EXPECT_EQ(Bench().in_bytes(std::vector<std::byte>(100)),
            "iSER's header begins with 0x0: 0x10 is expected");
}

TEST(IserInitiator, LogsOut) {
  Bench bench;
  bench.log_in();
  storage::InitiatorOutput out;
  bench.engine.log_out(0, out);
  EXPECT_EQ(out.on(Channel{0}).size(), 1u);
  EXPECT_EQ(bench.in({.opcode = Opcode::logout_response}), "end");
  EXPECT_EQ(bench.engine.failure(), nullptr);
}

}  // namespace
}  // namespace verbatim::ulp::iser
