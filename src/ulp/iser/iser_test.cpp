#include "ulp/iser/wire/header.h"
#include "ulp/iser/world_for_test.h"

namespace verbatim::ulp::iser {
namespace {

using scsi::bytes_of_hex;
using scsi::hex_of;

TEST(IserHeader, OfLinux) {
  constexpr std::string_view kHex = "14000000000000000000000000000000000081bcff2fba4c3fda7500";
  const auto bytes = bytes_of_hex(kHex);
  const auto header = decode(std::span<const std::byte, kHeaderBytes>(bytes.data(), kHeaderBytes));
  ASSERT_TRUE(header);
  EXPECT_FALSE(header->write);
  EXPECT_EQ(header->read, (Buffer{0x81bc, 0xff2fba4c3fda7500}));
  EXPECT_EQ(hex_of(encode(*header)), kHex);
  const auto unknown = bytes_of_hex("40" + std::string(54, '0'));
  EXPECT_FALSE(decode(std::span<const std::byte, kHeaderBytes>(unknown.data(), kHeaderBytes)));
}

/// One connection, each input's output as text.
class IserBench : public iscsi::TargetBench {
 public:
  explicit IserBench(std::uint8_t flags = kNoZeroBased,
                     std::string_view whither = "TargetName=iqn.2026-01.test:t1") {
    const std::byte data[] = {std::byte{flags}, {}, {}, {}};
    Meeting meeting{.reads = {.initiator = 8, .responder = 1}};
    meeting.private_data = to_private_data(data);
    auto verdict = service_.on_meeting(meeting, 0);
    accept = std::move(std::get<storage::Accept>(verdict));
    store_ = std::make_unique<storage::StoreBench>(disk, *accept.session);
    const std::string text = iscsi::text_of(
        {"InitiatorName=iqn.2026-01.test:i1", whither, "ImmediateData=Yes", "RDMAExtensions=Yes"});
    login_answer = ask({.opcode = iscsi::Opcode::login,
                        .is_immediate = true,
                        .flags = 0x87,
                        .lun = 0x23d0000010000},
                       text);
  }
  ~IserBench() {
    accept.session->on_end(0, out_);
    printed();
    EXPECT_TRUE(accept.session->is_idle());
  }

  std::string ask(iscsi::RequestHeader request, const std::string& text) {
    request.data_bytes = static_cast<std::uint32_t>(text.size());
    return in(hex_of(encode(Header{})) + hex_of(iscsi::encode(request)) +
              hex_of(std::as_bytes(std::span(text))));
  }
  std::string time(TimeNs at) {
    now_ = at;
    accept.session->on_time(at, out_);
    return printed();
  }
  std::string in(std::string_view hex) {
    bytes_ = bytes_of_hex(hex);
    const Message message{.memory = {bytes_.data(), static_cast<std::uint32_t>(bytes_.size()), {}}};
    accept.session->on_message(message, now_, out_);
    return printed();
  }
  std::string store() { return store_->answer(0, now_, out_), printed(); }
  std::string done() {
    accept.session->on_done(tag_, CompletionStatus::success, now_, out_);
    return printed();
  }
  storage::Accept accept;
  std::string login_answer;
  std::string sent;  // The last SEND.

 private:
  std::string printed() {
    std::string text;
    const auto add = [&text](const std::string& one) { text += (text.empty() ? "" : ", ") + one; };
    for (const auto& request : out_.store) {
      store_->take(request);
      add(std::visit(
          Overloaded{[](const storage::Borrow& b) {
                       return fmt::format("borrow +{} {}", b.offset, b.bytes);
                     },
                     [](const storage::Put& p) { return fmt::format("put +{}", p.offset); },
                     [](const storage::GiveBack&) { return std::string("give back"); },
                     [](const auto&) { return std::string("other"); }},
          request));
    }
    for (const Work& work : out_.work) {
      add(std::visit(Overloaded{[this](const Send& s) { return line(s); },
                                [this](const Write& w) { return line(w, "WRITE", w.to); },
                                [this](const Read& r) { return line(r, "READ", r.from); },
                                [](const Disconnect& d) { return std::string(d.reason); },
                                [](const PostAgain&) { return std::string("post"); }},
                     work));
    }
    out_.clear();
    return text;
  }
  std::string line(const Send& send) {
    if (send.done != kNoTag) tag_ = send.done;
    sent = hex_of(send.header);
    std::string text = fmt::format("SEND {}", sent.substr(56, 8));
    if (send.invalidate) text += fmt::format(" invalidate 0x{:x}", raw(*send.invalidate));
    return text;
  }
  template <typename Moved>
  std::string line(const Moved& moved, const char* name, const RemoteRange& at) {
    if (moved.done != kNoTag) tag_ = moved.done;
    return fmt::format("{} {} at 0x{:x} key 0x{:x}", name, at.bytes, at.address,
                       raw(at.remote_key));
  }

  Service service_{*sessions};
  std::unique_ptr<storage::StoreBench> store_;
  storage::Output out_;
  std::vector<std::byte> bytes_;
  Tag tag_{};
  TimeNs now_ = 0;
};

// Bytes of ib_iser but for CmdSN, which begins with 0 here.
TEST(IserTarget, InquiryOfLinuxIsAnsweredAsLinuxAnswersIt) {
  IserBench bench;
  EXPECT_EQ(bench.login_answer, "SEND 23870000");
  EXPECT_EQ(bench.in("14000000000000000000000000000000000081bcff2fba4c3fda7500"
                     "01c1000000000000000000000000000001000000000000240000000000000002"
                     "12000000240000000000000000000000"),
            "WRITE 36 at 0xff2fba4c3fda7500 key 0x81bc, SEND 21800000 invalidate 0x81bc");
  EXPECT_EQ(bench.sent.substr(0, 128),
            "10000000000000000000000000000000000000000000000000000000"
            "2180000000000000000000000000000001000000"
            "00000000"
            "00000002"
            "00000001"
            "00000008");
  EXPECT_EQ(bench.done(), "");
}

TEST(IserTarget, WriteIsReadBehindItsImmediateData) {
  IserBench bench;
  std::string data;
  for (int i = 0; i < 512; ++i) data += "aa";
  EXPECT_EQ(
      bench.in("18000000000076aaff4600ae8aa4d000000000000000000000000000"
               "01a10000000002000000000000000000000000010000040000000000000000022a00000000000000"
               "0200000000000000" +
               data),
      "borrow +0 1024");
  EXPECT_EQ(bench.store(), "READ 512 at 0xff4600ae8aa4d000 key 0x76aa");
  EXPECT_EQ(bench.disk[511], std::byte{0xaa});
  EXPECT_EQ(bench.done(), "put +0");
  EXPECT_EQ(bench.store(), "SEND 21800000 invalidate 0x76aa");
  EXPECT_EQ(bench.done(), "");
}

/// One line with both sides' values.
TEST(IserTarget, WhatThePeerDoesOutOfTheRules) {
  const std::string header = "18000000000076aaff4600ae8aa4d000000000000000000000000000";
  const std::string write =
      "0000000000000000000000010000040000000000000000022a00000000000000"
      "0200000000000000";
  EXPECT_EQ(IserBench().in("10"), "a message of 1 bytes: iSER's header has 28");
  EXPECT_EQ(IserBench().in(header), "a message of 28 bytes: the headers have 76");
  EXPECT_EQ(IserBench().in("90" + header.substr(2)),
            "iSER's header begins with 0x90: 0x10 is expected");
  EXPECT_EQ(IserBench().in(header + "01a1000000000200" + write + "aa"),
            "a message announces 512 bytes of data and has 1: if it is libiscsi 1.19, it needs "
            "ImmediateData=No");
  IserBench no_buffer;
  EXPECT_EQ(no_buffer.in("10" + header.substr(2) + "01a1000000000000" + write), "borrow +0 1024");
  EXPECT_EQ(no_buffer.store(), "data from 0 to 1024 has no buffer: 0 bytes came unasked");
  EXPECT_EQ(IserBench().in("20" + header.substr(2)), "");  // Hello, which Linux ignores, too.
}

TEST(IserTarget, LibiscsiIsToldImmediateDataNo) {
  IserBench linux_host, libiscsi(kNoZeroBased | kNoInvalidate);
  const auto has = [](const IserBench& bench, std::string_view text) {
    return bench.sent.find(hex_of(std::as_bytes(std::span(text)))) != std::string::npos;
  };
  EXPECT_TRUE(has(linux_host, "ImmediateData=Yes"));
  EXPECT_TRUE(has(libiscsi, "ImmediateData=No"));
  EXPECT_EQ(std::to_integer<unsigned>(linux_host.accept.private_data[0]), 0x80u);
  EXPECT_EQ(std::to_integer<unsigned>(libiscsi.accept.private_data[0]), 0xc0u);
}

/// ib_iser has one receive in a discovery session, which it posts with a request: a ping would find
/// none. And open-iscsi loses an answer that comes before its own call to send has returned.
TEST(IserTarget, DiscoveryIsAnsweredAfterAPauseAndNotPinged) {
  const iscsi::RequestHeader send_targets{.opcode = iscsi::Opcode::text,
                                          .is_immediate = true,
                                          .flags = iscsi::kFinal,
                                          .word_20 = iscsi::kNoTag32};
  const std::string all = iscsi::text_of({"SendTargets=All"});
  IserBench bench(kNoZeroBased, "SessionType=Discovery");
  EXPECT_EQ(bench.login_answer, "");
  EXPECT_EQ(bench.accept.session->deadline(), 50 * kMillisecond);
  EXPECT_EQ(bench.time(49 * kMillisecond), "");
  EXPECT_EQ(bench.time(50 * kMillisecond), "SEND 23870000");
  EXPECT_EQ(bench.ask(send_targets, all), "");
  EXPECT_EQ(bench.accept.session->deadline(), 100 * kMillisecond);
  EXPECT_EQ(bench.time(100 * kMillisecond), "SEND 24800000");
  EXPECT_EQ(bench.ask(send_targets, all), "");
  EXPECT_EQ(bench.ask(send_targets, all), "SEND 24800000");  // Who does not wait has it at once.
  EXPECT_EQ(bench.time(kSecond), "SEND 24800000");
  EXPECT_EQ(bench.time(15 * kSecond), "");
  EXPECT_EQ(bench.time(61 * kSecond), "iqn.2026-01.test:i1 has asked nothing for 60 s");
}

TEST(IserTarget, DiscoveryThatIsRefusedIsToldSo) {
  IserBench bench(kNoZeroBased, "SessionType=Other");
  EXPECT_EQ(bench.login_answer, "");
  EXPECT_EQ(bench.time(50 * kMillisecond), "SEND 23040000");
  EXPECT_EQ(bench.done(), "login refused: SessionType=Other: Normal or Discovery is expected");
}

/// A header of the driver's buffers would be copied there, and need a completion to come back.
TEST(IserTarget, ResponsesWithoutDataFitInline) {
  const IserBench bench;
  EXPECT_GE(bench.accept.sizes.inline_bytes, Connection::kHeadersBytes);
}

TEST(IserTarget, NoReadsAreRefused) {
  iscsi::TargetBench bench;
  Service service(*bench.sessions);
  EXPECT_TRUE(std::holds_alternative<Rejection>(service.on_meeting({}, 0)));
}

class IscsiWorld : public testing::TestWithParam<bool> {};

TEST_P(IscsiWorld, NothingIsLostDoubledOrAnsweredTwice) {
  for (std::uint64_t seed = 1; seed <= 150 && !HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    World world(seed, GetParam());
    world.run(120);
  }
}

INSTANTIATE_TEST_SUITE_P(Carriers, IscsiWorld, testing::Bool(),
                         [](const auto& row) { return row.param ? "Iser" : "Tcp"; });

}  // namespace
}  // namespace verbatim::ulp::iser
