#include "ulp/iscsi/connection.h"

#include "ulp/iscsi/bench_for_test.h"
#include "ulp/iscsi/tcp_connection.h"

namespace verbatim::ulp::iscsi {
namespace {

/// A connection over TCP: each request's messages as text.
class TcpBench {
 public:
  TcpBench(TargetBench& target, std::uint64_t isid, bool is_discovery = false)
      : target_(target), service_(*target.sessions) {
    Meeting meeting;
    meeting.own = *SocketAddress::parse("10.0.0.1", 3260);
    session = std::move(std::get<storage::Accept>(service_.on_meeting(meeting, now)).session);
    store_ = std::make_unique<storage::StoreBench>(target_.disk, *session);
    std::string keys = text_of({"InitiatorName=iqn.2026-01.test:i1", "ImmediateData=Yes"});
    add_key(keys, is_discovery ? "SessionType" : "TargetName",
            is_discovery ? "Discovery" : kTargetName);
    login = ask({.opcode = Opcode::login, .is_immediate = true, .flags = 0x87, .lun = isid << 16},
                keys);
  }
  ~TcpBench() {
    if (session != nullptr) end();
  }
  void end() {
    session->on_end(now, out_), printed();
    while (!store_->waiting.empty()) store();
    EXPECT_TRUE(session->is_idle());
    EXPECT_EQ(store_->loans(), 0u);
    session.reset();
  }

  std::string ask(RequestHeader header, const std::string& data = "") {
    header.data_bytes = static_cast<std::uint32_t>(data.size());
    const auto head = encode(header);
    std::vector<std::byte> bytes(head.begin(), head.end());
    const auto body = std::as_bytes(std::span(data));
    bytes.insert(bytes.end(), body.begin(), body.end());
    bytes.resize(padded(static_cast<std::uint32_t>(bytes.size())));
    const Message message{.memory = {bytes.data(), static_cast<std::uint32_t>(bytes.size()), {}}};
    session->on_message(message, now, out_);
    return printed();
  }
  /// READ or WRITE (10) of the first blocks.
  static RequestHeader command(bool writes, std::uint32_t tag, std::uint32_t cmd_sn,
                               std::uint8_t blocks = 1) {
    RequestHeader header{.opcode = Opcode::scsi_command,
                         .flags = static_cast<std::uint8_t>(kFinal | (writes ? kWrites : kReads)),
                         .task_tag = tag,
                         .word_20 = blocks * 512u};
    header.cmd_sn = cmd_sn;
    header.cdb[0] = std::byte{writes ? std::uint8_t{0x2a} : std::uint8_t{0x28}};
    header.cdb[8] = std::byte{blocks};
    return header;
  }
  std::string data_out(std::uint32_t transfer, std::uint32_t number, std::uint32_t offset,
                       std::size_t bytes, bool is_last = true) {
    RequestHeader header{.opcode = Opcode::data_out,
                         .flags = is_last ? kFinal : std::uint8_t{0},
                         .task_tag = 1,
                         .word_20 = transfer};
    header.set_data(number, offset);
    return ask(header, std::string(bytes, 'x'));
  }
  std::string store() { return store_->answer(0, now, out_), printed(); }
  std::string done() {
    session->on_done(tag_, CompletionStatus::success, now, out_);
    return printed();
  }
  std::string time(TimeNs at) { return now = at, session->on_time(now, out_), printed(); }

  TimeNs now = 0;
  std::unique_ptr<storage::Session> session;
  std::string login;
  std::string text;  // Of the last message.
  ResponseHeader last;

 private:
  std::string printed() {
    std::string lines;
    const auto add = [&lines](const std::string& one) {
      lines += (lines.empty() ? "" : ", ") + one;
    };
    for (const auto& request : out_.store) {
      store_->take(request);
      if (!std::holds_alternative<storage::GiveBack>(request)) add("store");
    }
    for (const Work& work : out_.work) {
      if (const auto* const send = std::get_if<Send>(&work)) add(line(*send));
      if (const auto* const over = std::get_if<Disconnect>(&work))
        add(fmt::format("end '{}'", over->reason));
    }
    EXPECT_FALSE(out_.more);
    out_.clear();
    return lines;
  }
  std::string line(const Send& send) {
    if (send.done != kNoTag) tag_ = send.done;
    last = *decode_response(HeaderSpan(send.header.data(), kHeaderBytes));
    const ByteSpan data = send.header.subspan(kHeaderBytes);
    text = readable(data.first(std::min<std::size_t>(data.size(), last.data_bytes)));
    std::string line = fmt::format("{:02x} {:02x}", static_cast<unsigned>(last.opcode), last.flags);
    if (last.response != 0 || last.status != 0)
      line += fmt::format(" {:02x} {:02x}", last.response, last.status);
    return line;
  }

  TargetBench& target_;
  TcpService service_;
  std::unique_ptr<storage::StoreBench> store_;
  storage::Output out_;
  Tag tag_{};
};

TEST(IscsiConnection, ReadIsDeliveredThenAnswered) {
  TargetBench target;
  TcpBench tcp(target, 1);
  EXPECT_EQ(tcp.login, "23 87");
  EXPECT_EQ(tcp.ask(TcpBench::command(false, 1, 0)), "store");
  EXPECT_EQ(tcp.store(), "25 80, 21 80");
  EXPECT_EQ(tcp.last.stat_sn, 2u);
  EXPECT_EQ(tcp.last.exp_cmd_sn, 1u);
  EXPECT_EQ(tcp.done(), "");
}

TEST(IscsiConnection, WriteIsAskedForBehindItsImmediateData) {
  TargetBench target;
  TcpBench tcp(target, 1);
  EXPECT_EQ(tcp.ask(TcpBench::command(true, 1, 0, 2), std::string(512, 'i')), "store");
  EXPECT_EQ(tcp.store(), "31 80");
  EXPECT_EQ(tcp.last.offset, 512u);
  EXPECT_EQ(tcp.last.residual, 512u);
  EXPECT_EQ(tcp.data_out(tcp.last.transfer_tag, 0, 512, 100, false), "");
  EXPECT_EQ(tcp.data_out(tcp.last.transfer_tag, 1, 612, 412), "store");
  EXPECT_EQ(tcp.store(), "21 80");
  EXPECT_EQ(tcp.done(), "");
  EXPECT_EQ(target.disk[511], std::byte{'i'});
  EXPECT_EQ(target.disk[1023], std::byte{'x'});
}

/// The initiator may have a response before this side knows that it has left.
TEST(IscsiConnection, ATaskTagIsFreeWithItsResponse) {
  TargetBench target;
  TcpBench tcp(target, 1);
  EXPECT_EQ(tcp.ask(TcpBench::command(false, 1, 0)), "store");
  EXPECT_EQ(tcp.ask(TcpBench::command(false, 1, 1)), "3f 80 07 00");  // It is under way.
  EXPECT_EQ(tcp.store(), "25 80, 21 80");
  EXPECT_EQ(tcp.ask(TcpBench::command(false, 1, 2)), "store");
  EXPECT_EQ(tcp.ask(TcpBench::command(false, 257, 3)), "store");  // Of the same low bits.
  EXPECT_EQ(tcp.ask(TcpBench::command(false, 1, 4)), "3f 80 07 00");
  EXPECT_EQ(tcp.store(), "25 80, 21 80");
  EXPECT_EQ(tcp.last.task_tag, 1u);
  EXPECT_EQ(tcp.ask(TcpBench::command(false, 257, 5)), "3f 80 07 00");
  EXPECT_EQ(tcp.store(), "25 80, 21 80");
  EXPECT_EQ(tcp.last.task_tag, 257u);
}

/// RFC 7143, 4.2.2.1: what is not in the window is ignored.
TEST(IscsiConnection, CommandsOutOfTheWindowAreIgnored) {
  TargetBench target;
  TcpBench tcp(target, 1);
  for (const std::uint32_t cmd_sn : {1u, 8u, 100u, 0xffffffffu})
    EXPECT_EQ(tcp.ask(TcpBench::command(false, 1, cmd_sn)), "");
  EXPECT_EQ(tcp.ask(TcpBench::command(false, 1, 0)), "store");
  EXPECT_EQ(tcp.ask(TcpBench::command(false, 2, 0)), "");
}

/// What a peer does out of the rules: the protocol's refusal, or the end with both sides' values.
TEST(IscsiConnection, OutOfTheRules) {
  TargetBench target;
  const auto write = [&](std::uint32_t transfer_offset, auto then) {
    TcpBench tcp(target, 1);
    tcp.ask(TcpBench::command(true, 1, 0, 2));
    tcp.store();
    return then(tcp, tcp.last.transfer_tag + transfer_offset);
  };
  EXPECT_EQ(write(0, [](auto& tcp, auto t) { return tcp.data_out(t, 27, 0, 1024); }),
            "end 'Data-Out 27 with 1024 bytes at 0: number 0 with at most 1024 at 0 is expected'");
  EXPECT_EQ(write(0, [](auto& tcp, auto t) { return tcp.data_out(t, 0, 512, 512); }),
            "end 'Data-Out 0 with 512 bytes at 512: number 0 with at most 1024 at 0 is expected'");
  EXPECT_EQ(write(0, [](auto& tcp, auto t) { return tcp.data_out(t, 0, 0, 512); }),
            "end 'Data-Out's F bit is 1 at 512: the R2T ends at 1024'");
  EXPECT_EQ(write(5, [](auto& tcp, auto t) { return tcp.data_out(t, 0, 0, 1024); }), "");
  EXPECT_EQ(write(0, [](auto& tcp, auto) { return tcp.data_out(kNoTag32, 0, 0, 512); }),
            "end '512 bytes of unsolicited data at 0: 0 at 0 are expected'");
  TcpBench long_data(target, 1);
  EXPECT_EQ(long_data.ask(TcpBench::command(true, 1, 0, 1), std::string(1024, 'i')),
            "end '1024 bytes of data with a command of 512: ImmediateData=Yes, InitialR2T=Yes, "
            "FirstBurstLength=8192'");
  TcpBench other(target, 2);
  EXPECT_EQ(other.ask({.opcode = Opcode::snack}), "3f 80 03 00");
  RequestHeader both = TcpBench::command(true, 1, 0);
  both.flags |= kReads;
  EXPECT_EQ(other.ask(both), "3f 80 05 00");
  TcpBench early(target, 3, true);
  EXPECT_EQ(early.ask(TcpBench::command(false, 1, 0)), "3f 80 04 00");
}

TEST(IscsiConnection, DiscoveryTellsTargetsThatAdmit) {
  TargetBench target;
  ASSERT_TRUE(target.sessions->add(*Target::create("iqn.2026-01.test:closed")));
  TcpBench tcp(target, 1, true);
  const std::string all = "TargetName=iqn.2026-01.test:t1 TargetAddress=10.0.0.1:3260,1";
  EXPECT_EQ(
      tcp.ask({.opcode = Opcode::text, .is_immediate = true, .flags = kFinal, .word_20 = kNoTag32},
              text_of({"SendTargets=All"})),
      "24 80");
  EXPECT_EQ(tcp.text, all);
  EXPECT_EQ(tcp.ask({.opcode = Opcode::logout, .is_immediate = true, .flags = kFinal}), "26 80");
  EXPECT_EQ(tcp.done(), "end ''");
}

TEST(IscsiConnection, TaskManagement) {
  TargetBench target;
  TcpBench tcp(target, 1);
  const auto manage = [&tcp](std::uint8_t function, std::uint32_t task = 0, std::uint64_t lun = 0) {
    return tcp.ask({.opcode = Opcode::task_management,
                    .is_immediate = true,
                    .flags = static_cast<std::uint8_t>(kFinal | function),
                    .lun = lun,
                    .task_tag = 9,
                    .word_20 = task});
  };
  EXPECT_EQ(manage(1, 7), "22 80 01 00");              // There is no such task.
  EXPECT_EQ(manage(5, 0, 5ull << 48), "22 80 02 00");  // There is no such unit.
  EXPECT_EQ(manage(3), "22 80 05 00");
  EXPECT_EQ(manage(8), "22 80 04 00");
  // A write that waits for its data is aborted: no response but that of the abort.
  tcp.ask(TcpBench::command(true, 1, 0));
  EXPECT_EQ(tcp.store(), "31 80");
  const std::uint32_t transfer = tcp.last.transfer_tag;
  EXPECT_EQ(manage(1, 1), "22 80");
  EXPECT_EQ(tcp.data_out(transfer, 0, 0, 512), "");  // Too late: it is dropped.
  EXPECT_EQ(target.disk[0], std::byte{});
  EXPECT_EQ(manage(5), "22 80");
  EXPECT_EQ(manage(6), "22 80");
  EXPECT_EQ(manage(7), "22 80");
  EXPECT_EQ(tcp.done(), "end 'the initiator has reset the target'");
}

/// RFC 7143, 6.3.5: the login waits until the old session's commands are over.
TEST(IscsiConnection, SameInitiatorPortReplacesItsSession) {
  TargetBench target;
  TcpBench old(target, 1);
  old.ask(TcpBench::command(false, 1, 0));
  TcpBench other(target, 2), again(target, 1);
  EXPECT_EQ(other.login, "23 87");
  EXPECT_EQ(again.login, "");
  EXPECT_EQ(again.session->deadline(), 0u);
  EXPECT_EQ(again.time(1), "");
  EXPECT_EQ(other.time(1), "");
  EXPECT_EQ(old.time(1), "end 'the initiator has logged in again'");
  EXPECT_EQ(again.time(kSecond), "");
  old.end();
  EXPECT_EQ(again.time(2 * kSecond), "23 87");
}

TEST(IscsiConnection, PeerThatVanishesIsNoticed) {
  TargetBench target;
  TcpBench tcp(target, 1);
  EXPECT_EQ(tcp.time(15 * kSecond), "20 80");
  EXPECT_EQ(tcp.ask({.opcode = Opcode::nop_out,
                     .is_immediate = true,
                     .flags = kFinal,
                     .task_tag = kNoTag32,
                     .word_20 = tcp.last.transfer_tag}),
            "");
  EXPECT_EQ(tcp.time(31 * kSecond), "20 80");
  EXPECT_EQ(tcp.time(61 * kSecond), "end 'iqn.2026-01.test:i1 has not answered a NOP-In for 30 s'");
}

/// RFC 7143, 4.3: nothing but text and logout.
TEST(IscsiConnection, DiscoverySessionIsNotPinged) {
  TargetBench target;
  TcpBench tcp(target, 1, true);
  EXPECT_EQ(tcp.login, "23 87");
  EXPECT_EQ(tcp.time(59 * kSecond), "");
  EXPECT_EQ(tcp.session->deadline(), 60 * kSecond);
  EXPECT_EQ(tcp.time(60 * kSecond), "end 'iqn.2026-01.test:i1 has asked nothing for 60 s'");
}

TEST(IscsiConnection, PingIsEchoed) {
  TargetBench target;
  TcpBench tcp(target, 1);
  EXPECT_EQ(
      tcp.ask({.opcode = Opcode::nop_out, .flags = kFinal, .task_tag = 4, .word_20 = kNoTag32},
              "hello"),
      "20 80");
  EXPECT_EQ(tcp.text, "hello");
}

TEST(IscsiConnection, SessionsAreBounded) {
  TargetBench target;
  std::vector<std::unique_ptr<TcpBench>> all;
  for (std::uint64_t i = 1; i <= 4; ++i) all.push_back(std::make_unique<TcpBench>(target, i));
  TcpBench fifth(target, 5);
  EXPECT_EQ(fifth.login, "23 04");
  EXPECT_EQ(fifth.last.data_sn, 0x03020000u);
  EXPECT_EQ(fifth.done(), "end 'login refused: iqn.2026-01.test:i1: there are 4 sessions already'");
}

TEST(IscsiConnection, WithoutAPlaceForItsDataACommandIsBusy) {
  TargetBench target({.sessions = 1, .window = 8, .stashes = 1});
  TcpBench tcp(target, 1);
  EXPECT_EQ(tcp.ask(TcpBench::command(true, 1, 0), std::string(512, 'i')), "store");
  EXPECT_EQ(tcp.ask(TcpBench::command(true, 2, 1), std::string(512, 'i')), "21 80 00 08");
  EXPECT_EQ(tcp.store(), "store");
}

TEST(IscsiConnection, LoginHasItsTime) {
  TargetBench target;
  TcpService service(*target.sessions);
  auto session = std::move(std::get<storage::Accept>(service.on_meeting({}, 0)).session);
  storage::Output out;
  EXPECT_EQ(session->deadline(), 15 * kSecond);
  session->on_time(15 * kSecond, out);
  EXPECT_STREQ(std::get<Disconnect>(out.work[0]).reason, "no login within 15 s");
}

/// An administrator takes the unit away and gives another: the session goes on.
TEST(IscsiConnection, UnitsComeAndGoUnderASession) {
  TargetBench target;
  scsi::LogicalUnit other(storage::UnitId{8}, {}, TargetBench::settings());
  TcpBench bench(target, 1);
  TargetSettings settings{.admits_any = true};
  ASSERT_TRUE(settings.units.add(1, other));
  target.target->set(std::move(settings));
  target.sessions->refresh(*target.target);
  EXPECT_EQ(bench.ask(TcpBench::command(false, 1, 0)).substr(0, 2), "21") << "no such unit";
  EXPECT_EQ(bench.last.status, 2) << "check condition";
  RequestHeader ready{
      .opcode = Opcode::scsi_command, .flags = kFinal, .lun = std::uint64_t{1} << 48};
  ready.task_tag = 2;
  ready.cmd_sn = 1;
  bench.ask(ready);
  EXPECT_EQ(bench.last.status, 2) << "reported LUNs data has changed";
  ready.task_tag = 3;
  ready.cmd_sn = 2;
  bench.ask(ready);
  EXPECT_EQ(bench.last.status, 0);
}

TEST(IscsiConnection, ASessionEndsWithItsAdmission) {
  for (const bool is_removed : {false, true}) {
    TargetBench target;
    TcpBench bench(target, 1);
    if (is_removed) {
      target.sessions->remove(*target.target);
    } else {
      target.target->set({});
      target.sessions->refresh(*target.target);
    }
    EXPECT_EQ(bench.session->deadline(), 0u);
    EXPECT_EQ(bench.time(1).substr(0, 3), "end");
  }
}

}  // namespace
}  // namespace verbatim::ulp::iscsi
