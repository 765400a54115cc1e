#include "ulp/srp/bench_for_test.h"

namespace verbatim::ulp::srp {
namespace {

/// One channel, each input's output as text.
class ChannelBench {
 public:
  explicit ChannelBench(TargetBench& target, std::uint8_t action = 0,
                        std::uint32_t page = 1 << 30) {
    auto verdict = target.meet(TargetBench::login_of(action));
    accept = std::move(std::get<storage::Accept>(verdict));
    store_ = std::make_unique<storage::StoreBench>(target.disk, *accept.session, page);
  }
  ~ChannelBench() {
    if (accept.session == nullptr) return;
    accept.session->on_end(0, out_);
    printed();
    while (!store_->waiting.empty()) store();
    EXPECT_TRUE(accept.session->is_idle());
    EXPECT_EQ(store_->loans(), 0u);
  }
  ChannelBench(const ChannelBench&) = delete;
  ChannelBench& operator=(const ChannelBench&) = delete;

  std::string in(const CommandText& command) { return in(command.bytes()); }
  std::string in(ByteSpan bytes) {
    auto& kept = messages_.emplace_back(bytes.begin(), bytes.end());
    const Message message{.receive = ReceiveId{static_cast<std::uint32_t>(messages_.size())},
                          .memory = {kept.data(), static_cast<std::uint32_t>(kept.size()), {}}};
    const ReceiveUse use = accept.session->on_message(message, 0, out_);
    return printed(use == ReceiveUse::kept ? "kept" : "");
  }
  std::string manage(Function function, std::uint64_t task = 0) {
    return in(encode(TaskManagement{99, 0, function, task}));
  }
  std::string store() { return store_->answer(0, 0, out_), printed(); }
  /// What was to be told first of all that has not been.
  std::string done() {
    const Work job = jobs_.front();
    jobs_.erase(jobs_.begin());
    Tag tag = kNoTag;
    if (const auto* const read = std::get_if<Read>(&job)) {
      tag = read->done;
      if (!table.empty() && read->into.size() == 1 && read->into[0].local_key == MemoryKey{3})
        std::ranges::copy(table, read->into[0].data);
    }
    if (const auto* const send = std::get_if<Send>(&job)) tag = send->done;
    accept.session->on_done(tag, CompletionStatus::success, 0, out_);
    return printed();
  }
  std::string time(TimeNs now) { return accept.session->on_time(now, out_), printed(); }
  Channel& channel() { return static_cast<Channel&>(*accept.session); }

  storage::Accept accept;
  std::vector<std::byte> table;  // What a READ of a table reads.

 private:
  std::string printed(std::string text = "") {
    const auto add = [&text](const std::string& one) { text += (text.empty() ? "" : ", ") + one; };
    for (const auto& request : out_.store) {
      store_->take(request);
      add(std::visit(Overloaded{[](const storage::Borrow& b) {
                                  return fmt::format("borrow +{} {}", b.offset, b.bytes);
                                },
                                [](const storage::Put& p) {
                                  return fmt::format("put +{} {}", p.offset, bytes_of(p.from));
                                },
                                [](const storage::GiveBack&) { return std::string("give back"); },
                                [](const auto&) { return std::string("other"); }},
                     request));
    }
    for (const Work& work : out_.work) {
      add(std::visit([this](const auto& one) { return line(one); }, work));
      const auto* const send = std::get_if<Send>(&work);
      const auto* const read = std::get_if<Read>(&work);
      if ((send != nullptr && send->done != kNoTag) || (read != nullptr && read->done != kNoTag))
        jobs_.push_back(work);
    }
    EXPECT_FALSE(out_.more);
    out_.clear();
    return text;
  }
  std::string line(const Send& send) {
    const auto response = decode_response(send.header);
    if (!response)
      return fmt::format("SEND {:02x} {}", raw(*opcode_of(send.header)),
                         load_be<std::uint32_t>(&send.header[4]));
    std::string text =
        fmt::format("RSP {} {:02x} {:+}", response->tag, response->status, response->request_limit);
    if (response->code) text += fmt::format(" code {}", raw(*response->code));
    if (!response->sense.empty())
      text += " sense " + scsi::hex_of(response->sense.subspan(2, 1)) +
              scsi::hex_of(response->sense.subspan(12, 2));
    if (response->out_residual != 0) text += fmt::format(" out {:+}", response->out_residual);
    if (response->in_residual != 0) text += fmt::format(" in {:+}", response->in_residual);
    return text + (send.solicited ? " solicited" : "");
  }
  std::string line(const Write& one) { return line("WRITE", one.from, one.to); }
  std::string line(const Read& one) { return line("READ", one.into, one.from); }
  static std::string line(const PostAgain&) { return "post"; }
  static std::string line(const Disconnect& one) { return fmt::format("end '{}'", one.reason); }
  static std::string line(const char* name, std::span<const Slice> slices, const RemoteRange& at) {
    EXPECT_EQ(bytes_of(slices), at.bytes);
    return fmt::format("{} {} at {:x}/{}{}", name, at.bytes, at.address, raw(at.remote_key),
                       slices.size() > 1 ? fmt::format(" of {}", slices.size()) : "");
  }

  std::unique_ptr<storage::StoreBench> store_;
  storage::Output out_;
  std::deque<std::vector<std::byte>> messages_;
  std::vector<Work> jobs_;
};

CommandText reads(std::uint64_t tag, std::vector<RemoteRange> ranges, std::uint16_t blocks = 2) {
  return {.tag = tag,
          .cdb = blocks_cdb(false, 8, blocks),
          .ranges = std::move(ranges),
          .table = {0xf000, 32, MemoryKey{9}},
          .is_indirect = false};
}
CommandText writes(std::uint64_t tag, std::vector<RemoteRange> ranges, std::uint16_t blocks = 2) {
  CommandText command = reads(tag, std::move(ranges), blocks);
  command.writes = true;
  command.cdb = blocks_cdb(true, 8, blocks);
  return command;
}
const RemoteRange kOne{0x1000, 1024, MemoryKey{7}};
const std::vector<RemoteRange> kTwo{{0x1000, 700, MemoryKey{7}}, {0x2000, 324, MemoryKey{8}}};
CommandText indirect(CommandText command, std::size_t inlined = 255) {
  command.is_indirect = true;
  command.inlined = inlined;
  return command;
}

TEST(SrpChannel, Ladders) {
  TargetBench target;
  ChannelBench bench(target);
  EXPECT_EQ(bench.accept.sizes.receives, 10u);
  EXPECT_EQ(bench.in(CommandText{.tag = 4, .cdb = {std::byte{0}}}), "kept, post, RSP 4 00 +1");
  EXPECT_EQ(bench.done(), "");
  EXPECT_EQ(bench.in(reads(5, {kOne})), "kept, borrow +4096 1024");
  EXPECT_EQ(bench.store(), "WRITE 1024 at 1000/7, post, RSP 5 00 +1");
  EXPECT_EQ(bench.done(), "give back");
  EXPECT_EQ(bench.in(writes(6, {kOne})), "kept, borrow +4096 1024");
  EXPECT_EQ(bench.store(), "READ 1024 at 1000/7");
  EXPECT_EQ(bench.done(), "put +4096 1024");
  EXPECT_EQ(bench.store(), "post, RSP 6 00 +1");
  EXPECT_EQ(bench.done(), "");
}

TEST(SrpChannel, IndirectDescriptorsScatter) {
  TargetBench target;
  ChannelBench bench(target, 0, 512);
  EXPECT_EQ(bench.in(indirect(reads(5, kTwo))), "kept, borrow +4096 1024");
  EXPECT_EQ(bench.store(), "WRITE 700 at 1000/7 of 2, WRITE 324 at 2000/8, post, RSP 5 00 +1");
  EXPECT_EQ(bench.done(), "give back");
  EXPECT_EQ(bench.in(indirect(writes(6, kTwo))), "kept, borrow +4096 1024");
  EXPECT_EQ(bench.store(), "READ 700 at 1000/7 of 2, READ 324 at 2000/8");
  EXPECT_EQ(bench.done(), "put +4096 1024");
}

TEST(SrpChannel, TableThatIsNotInTheMessageIsReadAndOthersWait) {
  TargetBench target;
  ChannelBench bench(target);
  for (const RemoteRange& range : kTwo) CommandText::add(bench.table, range);
  EXPECT_EQ(bench.in(indirect(reads(5, kTwo), 1)), "kept, READ 32 at f000/9");
  EXPECT_EQ(bench.in(reads(6, {kOne})), "kept");
  EXPECT_EQ(bench.in(indirect(reads(7, kTwo), 0)), "kept");
  EXPECT_EQ(bench.in(reads(8, {kOne})), "kept");
  EXPECT_EQ(bench.manage(Function::abort_task, 8), "");
  EXPECT_EQ(bench.done(), "borrow +4096 1024, borrow +4096 1024, RSP 99 00 +1 code 0");
  EXPECT_EQ(bench.store(),
            "WRITE 700 at 1000/7, WRITE 324 at 2000/8, post, RSP 5 00 +1, "
            "READ 32 at f000/9, post");
}

TEST(SrpChannel, TableWithTooLittleIsRefused) {
  TargetBench target;
  ChannelBench bench(target);
  for (RemoteRange range : kTwo) range.bytes = 512, CommandText::add(bench.table, range);
  bench.table[31] = std::byte{0};
  bench.table[30] = std::byte{1};
  EXPECT_EQ(bench.in(indirect(reads(5, kTwo), 1)), "kept, READ 32 at f000/9");
  EXPECT_EQ(bench.done(), "post, RSP 5 02 +1 sense 050e03");
  EXPECT_EQ(bench.accept.session->take_refusal(),
            "a command whose buffers do not fit: 768 bytes are described, 1024 expected");
}

TEST(SrpChannel, ImmediateData) {
  TargetBench target;
  ChannelBench bench(target);
  CommandText command = writes(5, {});
  command.immediate.assign(1024, std::byte{0x5a});
  EXPECT_EQ(bench.in(command), "kept, borrow +4096 1024");
  EXPECT_EQ(bench.store(), "put +4096 1024");
  EXPECT_EQ(bench.store(), "post, RSP 5 00 +1");
  EXPECT_EQ(target.disk[4096 + 1023], std::byte{0x5a});
  auto bytes = command.bytes();
  bytes.pop_back();
  EXPECT_EQ(bench.in(bytes), "RSP 5 02 +1 sense 050e03");
  EXPECT_EQ(bench.accept.session->take_refusal(),
            "a command whose buffers do not fit: 1023 bytes of immediate data are there, 1024 "
            "expected");
}

TEST(SrpChannel, ResidualsAndRefusals) {
  TargetBench target;
  ChannelBench bench(target);
  EXPECT_EQ(bench.in(reads(5, {kOne}, 1)), "kept, borrow +4096 512");
  EXPECT_EQ(bench.store(), "WRITE 512 at 1000/7, post, RSP 5 00 +1 in -512");
  EXPECT_EQ(bench.done(), "give back");
  EXPECT_EQ(bench.in(reads(6, {kOne}, 3)), "kept, borrow +4096 1024");
  EXPECT_EQ(bench.store(), "WRITE 1024 at 1000/7, post, RSP 6 00 +1 in +512");
  EXPECT_EQ(bench.done(), "give back");
  CommandText command = reads(7, {kOne});
  command.lun = 0x0009000000000000;
  EXPECT_EQ(bench.in(command), "kept, post, RSP 7 02 +1 sense 052500");
  command = reads(8, {kOne});
  command.cdb[2] = std::byte{0xff};
  auto bytes = command.bytes();
  bytes[1] = std::byte{kNotifyFailure};
  EXPECT_EQ(bench.in(bytes), "kept, post, RSP 8 02 +1 sense 052100 solicited");
}

TEST(SrpChannel, Management) {
  TargetBench target;
  ChannelBench bench(target);
  EXPECT_EQ(bench.manage(Function::abort_task, 5), "RSP 99 00 +1 code 0");
  EXPECT_EQ(bench.manage(Function::clear_auto_contingent_allegiance), "RSP 99 00 +1 code 4");
  auto unknown = encode(TaskManagement{99, 0, Function::abort_task, 0});
  unknown[30] = std::byte{0x10};
  EXPECT_EQ(bench.in(unknown), "RSP 99 00 +1 code 4");
  EXPECT_EQ(bench.in(writes(5, {kOne})), "kept, borrow +4096 1024");
  EXPECT_EQ(bench.manage(Function::abort_task, 5), "");
  // Both credits come back with the one answer.
  EXPECT_EQ(bench.store(), "give back, post, RSP 99 00 +2 code 0");
  EXPECT_EQ(bench.in(writes(6, {kOne})), "kept, borrow +4096 1024");
  EXPECT_EQ(bench.store(), "READ 1024 at 1000/7");
  EXPECT_EQ(bench.manage(Function::unit_reset), "");
  EXPECT_EQ(bench.done(), "give back, post, RSP 99 00 +2 code 0");
  ChannelBench another(target, kAnotherChannel);
  EXPECT_EQ(bench.manage(Function::abort_task_set), "RSP 99 00 +1 code 4");
}

TEST(SrpChannel, Credits) {
  TargetBench target;
  ChannelBench bench(target);
  // Fewer: those that come back are kept until the limit holds.
  bench.channel().set_request_limit(6);
  for (std::uint64_t tag = 0; tag < 8; ++tag)
    EXPECT_EQ(bench.in(reads(tag, {kOne})), "kept, borrow +4096 1024");
  EXPECT_EQ(bench.store(), "WRITE 1024 at 1000/7, post, RSP 0 00 +0");
  EXPECT_EQ(bench.store(), "WRITE 1024 at 1000/7, post, RSP 1 00 +0");
  EXPECT_EQ(bench.store(), "WRITE 1024 at 1000/7, post, RSP 2 00 +1");
  for (int i = 0; i < 5; ++i) bench.store();
  for (int i = 0; i < 8; ++i) EXPECT_EQ(bench.done(), "give back");
  // More: no response is to come, so the initiator is asked.
  bench.channel().set_request_limit(8);
  EXPECT_EQ(bench.time(1), "SEND 81 2");
  EXPECT_EQ(bench.time(2), "");
  EXPECT_EQ(bench.in(encode_answer(Opcode::credit_response, 1)), "");
  EXPECT_EQ(bench.in(encode_answer(Opcode::credit_response, 1)), "SEND 80 0");
  EXPECT_EQ(bench.done(), "end 'SRP_CRED_RSP 1 answers nothing'");
}

TEST(SrpChannel, WhoBreaksTheRulesIsLoggedOutWithBothNumbers) {
  const std::vector<std::byte> short_one(15), unknown(16, std::byte{0x77});
  std::vector<std::byte> cut(40);
  cut[0] = std::byte{raw(Opcode::command)};
  const std::pair<std::vector<std::byte>, std::string> rows[] = {
      {short_one, "a message of 15 bytes: the shortest has 16"},
      {unknown, "a message of type 0x77 is no initiator's, or answers nothing"},
      {cut, "a command of 40 bytes: the shortest has 48"},
  };
  for (const auto& [bytes, words] : rows) {
    TargetBench target;
    ChannelBench bench(target);
    EXPECT_EQ(bench.in(bytes), "SEND 80 0");
    EXPECT_EQ(bench.in(bytes), "");
    EXPECT_EQ(bench.done(), fmt::format("end '{}'", words));
  }
  TargetBench target;
  ChannelBench bench(target);
  for (std::uint64_t tag = 0; tag < 8; ++tag) bench.in(reads(tag, {kOne}));
  EXPECT_EQ(bench.in(reads(9, {kOne})), "SEND 80 0");
  EXPECT_EQ(bench.time(5 * kSecond), "end 'more requests than the 8 that were granted'");
  ChannelBench orderly(target, kAnotherChannel);
  EXPECT_EQ(orderly.in(encode_answer(Opcode::initiator_logout, 0)), "end ''");
}

std::string refusal(const storage::Verdict& verdict) {
  const auto* const rejection = std::get_if<Rejection>(&verdict);
  if (rejection == nullptr) return "accepted";
  const PrivateData& data = rejection->private_data;
  const auto reject = decode_login_reject({data.begin(), data.size()});
  EXPECT_TRUE(reject && reject->tag == 5);
  return rejection->words;
}

TEST(SrpLogin, Refusals) {
  TargetBench target;
  const auto with = [&](const auto& change) {
    LoginRequest login = TargetBench::login_of();
    change(login);
    return refusal(target.meet(login));
  };
  EXPECT_EQ(with([](auto& l) { l.request_bytes = 8261; }),
            "messages of 8261 bytes: 64 to 8260 are taken (reason 0x10002)");
  EXPECT_EQ(with([](auto& l) { l.request_bytes = 63; }),
            "messages of 63 bytes: 64 to 8260 are taken (reason 0x10002)");
  EXPECT_EQ(with([](auto& l) { l.target = port_id(9); }),
            "there is no port 0x00000000000000000000000000000009; one is "
            "0x00000000000000000000000000000002 (reason 0x10003)");
  EXPECT_EQ(with([](auto& l) { l.formats = 1; }),
            "descriptors of formats 0x1: 0x6 are known (reason 0x10004)");
  EXPECT_EQ(with([](auto& l) { l.initiator = port_id(4); }),
            "port 0x00000000000000000000000000000002 does not admit initiator "
            "0x00000000000000000000000000000004 (reason 0x10006)");
  EXPECT_EQ(with([](auto& l) { l.flags = 3; }),
            "multichannel action 3: 0 and 1 are known (reason 0x10005)");
  EXPECT_EQ(refusal(target.meet(TargetBench::login_of(), 0)),
            "the initiator allows no RDMA READ: its responder resources are 0 (reason 0x10000)");
  target.port->set_enabled(false);
  EXPECT_EQ(with([](auto&) {}),
            "port 0x00000000000000000000000000000002 is not enabled (reason 0x10001)");
  const auto nothing = Service(*target.ports).on_meeting(Meeting{}, 0);
  EXPECT_EQ(std::get<Rejection>(nothing).words, "0 bytes that are no SRP login");
}

TEST(SrpLogin, Channels) {
  TargetBench target;
  const auto answer_of = [](const storage::Accept& accept) {
    const PrivateData& data = accept.private_data;
    return *decode_login_response({data.begin(), data.size()});
  };
  ChannelBench first(target);
  EXPECT_EQ(answer_of(first.accept), (LoginResponse{8, 5, 8260, 8260, 6, kImmediateData}));
  ChannelBench second(target, kAnotherChannel);
  EXPECT_EQ(answer_of(second.accept).flags, kImmediateData | kChannelsKept);
  EXPECT_EQ(&first.channel().session(), &second.channel().session());
  EXPECT_EQ(refusal(target.meet(TargetBench::login_of(kAnotherChannel))),
            "initiator 0x00000000000000000000000000000003 has 2 channels: that many may be "
            "(reason 0x10006)");
  EXPECT_EQ(first.in(writes(1, {kOne})), "kept, borrow +4096 1024");
  EXPECT_EQ(first.store(), "READ 1024 at 1000/7");
  {
    ChannelBench again(target);
    // Nothing of the former channels is written behind what comes now.
    EXPECT_EQ(first.done(), "give back, post, RSP 1 02 +1 sense 0b4b00");
    EXPECT_EQ(first.in(writes(2, {kOne})), "");
    EXPECT_EQ(answer_of(again.accept).flags, kImmediateData | kChannelsEnded);
    EXPECT_EQ(again.accept.replaces, (std::vector<storage::Session*>{first.accept.session.get(),
                                                                     second.accept.session.get()}));
    EXPECT_NE(&first.channel().session(), &again.channel().session());
    EXPECT_EQ(refusal(target.meet(TargetBench::login_of())),
              "there are 3 channels: that many may be (reason 0x10001)");
  }
  ChannelBench last(target, kAnotherChannel);
  EXPECT_NE(&first.channel().session(), &last.channel().session());
}

}  // namespace
}  // namespace verbatim::ulp::srp
