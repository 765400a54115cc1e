#include "ulp/iser/world_for_test.h"

#include <algorithm>

#include "ulp/iser/wire/header.h"

namespace verbatim::ulp::iser {

using iscsi::Opcode;
using iscsi::RequestHeader;
using iscsi::ResponseHeader;

World::World(std::uint64_t seed, bool is_iser) : random_(seed), is_iser_(is_iser) { connect(); }

World::~World() {
  cut();
  EXPECT_EQ(bench_.sessions->free_stashes(), 6u);
  EXPECT_EQ(begun_, answered_ + lost_);
  for (const auto& session : bench_.sessions->sessions()) EXPECT_EQ(session, nullptr);
}

void World::connect() {
  const std::byte flags[] = {std::byte{kNoZeroBased}, {}, {}, {}};
  Meeting meeting{.reads = {.initiator = 8, .responder = 1}};
  meeting.private_data = to_private_data(flags);
  auto verdict = is_iser_ ? iser_.on_meeting(meeting, now_) : tcp_.on_meeting(meeting, now_);
  session_ = std::move(std::get<storage::Accept>(verdict).session);
  store_ = std::make_unique<storage::StoreBench>(bench_.disk, *session_);
  in_.clear();
  is_logged_in_ = is_over_ = false;
  cmd_sn_ = 1, max_cmd_sn_ = 0, stat_sn_ = 0;
  std::string text =
      iscsi::text_of({"InitiatorName=iqn.2026-01.test:i1", "TargetName=iqn.2026-01.test:t1",
                      "RDMAExtensions=Yes", "InitialR2T=No"});
  const char* const sizes[] = {"512", "4096", "262144"};
  if (!is_iser_)
    iscsi::add_key(text, "MaxRecvDataSegmentLength", sizes[random_.below(std::size(sizes))]);
  iscsi::add_key(text, "MaxBurstLength", random_.below(2) == 0 ? "4608" : "262144");
  RequestHeader login{
      .opcode = Opcode::login, .is_immediate = true, .flags = 0x87, .lun = 0x23d0000010000};
  login.cmd_sn = cmd_sn_;
  send(login, std::as_bytes(std::span(text)));
}

/// The connection is over: its work comes back, then the store's answers.
void World::cut() {
  while (!jobs_.empty()) {
    const Tag tag = std::visit(
        Overloaded{[](const Send& one) { return one.done; },
                   [](const Read& one) { return one.done; },
                   [](const Write& one) { return one.done; }, [](const auto&) { return kNoTag; }},
        jobs_.front().work);
    jobs_.pop_front();
    if (tag == kNoTag) continue;
    session_->on_done(tag, CompletionStatus::flushed, now_, out_);
    take(out_);
  }
  is_over_ = true;
  session_->on_end(now_, out_);
  take(out_);
  jobs_.clear();
  while (!store_->waiting.empty()) {
    store_->answer(random_.below(store_->waiting.size()), now_, out_);
    take(out_);
  }
  EXPECT_TRUE(session_->is_idle());
  EXPECT_EQ(store_->loans(), 0u);
  session_.reset();
  messages_.clear();
  // What was not acknowledged may be there or not.
  for (const auto& [tag, op] : ops_) {
    ++lost_;
    const auto bytes = static_cast<long>(op.data.size());
    const auto from = bench_.disk.begin() + op.region * kRegionBlocks * kBlock;
    if (op.writes) std::copy(from, from + bytes, region(op.region, op.data.size()).begin());
  }
  ops_.clear();
}

MutableByteSpan World::region(std::uint32_t index, std::size_t bytes) {
  return std::span(truth_).subspan(std::size_t{index} * kRegionBlocks * kBlock, bytes);
}

void World::run(int commands) {
  for (int steps = 0; answered_ + lost_ < commands && steps < 200 * commands; ++steps) {
    if (begun_ < commands) begin();
    step();
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_EQ(answered_ + lost_, commands);
  // Everything is as the initiator believes.
  EXPECT_TRUE(ops_.empty());
  EXPECT_EQ(bench_.disk, truth_);
}

void World::step() {
  now_ += random_.below(3) * kMillisecond;
  switch (random_.below(4)) {
    case 0:
      return deliver();
    case 1:
      return jobs_.empty() ? deliver() : finish_job();
    case 2:
      if (store_->waiting.empty()) return jobs_.empty() ? deliver() : finish_job();
      store_->answer(random_.below(store_->waiting.size()), now_, out_);
      return take(out_);
    default:
      break;
  }
  session_->on_time(now_, out_);
  take(out_);
  if (random_.below(400) != 0) return;
  cut();
  connect();
}

void World::begin() {
  if (!is_logged_in_ || static_cast<std::int32_t>(max_cmd_sn_ - cmd_sn_) < 0) return;
  const auto place = static_cast<std::uint32_t>(random_.below(kRegions));
  for (const auto& [tag, op] : ops_) {
    if (op.region == place) return;
  }
  Op& op = ops_[++tag_];
  op.region = place;
  op.writes = random_.below(2) == 0;
  const auto blocks = static_cast<std::uint16_t>(1 + random_.below(kRegionBlocks));
  op.data.resize(std::size_t{blocks} * kBlock);
  if (op.writes)
    std::ranges::generate(op.data, [this] { return static_cast<std::byte>(random_.below(256)); });
  RequestHeader header{.opcode = Opcode::scsi_command,
                       .flags = static_cast<std::uint8_t>(
                           iscsi::kFinal | (op.writes ? iscsi::kWrites : iscsi::kReads)),
                       .task_tag = tag_,
                       .word_20 = static_cast<std::uint32_t>(op.data.size())};
  header.cmd_sn = cmd_sn_++;
  header.cdb[0] = std::byte{op.writes ? std::uint8_t{0x2a} : std::uint8_t{0x28}};
  store_be(&header.cdb[2], place * kRegionBlocks);
  store_be(&header.cdb[7], blocks);
  if (op.writes && random_.below(2) == 0)
    op.sent = static_cast<std::uint32_t>(std::min<std::size_t>(
        op.data.size(), random_.below(3) == 0 ? 8192 : 4 * random_.below(300)));
  ++begun_;
  if (op.writes && !waits_for_r2t_ && random_.below(2) == 0) return send_unasked(header, op);
  send(header, ByteSpan(op.data).first(op.sent), tag_);
}

/// With the command, and behind it as far as FirstBurstLength lets it.
void World::send_unasked(const RequestHeader& command, Op& op) {
  const std::uint32_t with_it = op.sent;
  op.sent = static_cast<std::uint32_t>(std::min<std::size_t>(8192, op.data.size()));
  RequestHeader first = command;
  if (with_it < op.sent) first.flags &= static_cast<std::uint8_t>(~iscsi::kFinal);
  send(first, ByteSpan(op.data).first(with_it), command.task_tag);
  std::uint32_t number = 0;
  for (std::uint32_t at = with_it; at < op.sent; ++number) {
    const auto bytes = std::min(op.sent - at, static_cast<std::uint32_t>(1 + random_.below(5000)));
    RequestHeader data{.opcode = Opcode::data_out,
                       .flags = at + bytes == op.sent ? iscsi::kFinal : std::uint8_t{0},
                       .task_tag = command.task_tag,
                       .word_20 = iscsi::kNoTag32};
    data.set_data(number, at);
    send(data, ByteSpan(op.data).subspan(at, bytes));
    at += bytes;
  }
}

void World::send(RequestHeader header, ByteSpan data, std::uint32_t op_tag) {
  header.data_bytes = static_cast<std::uint32_t>(data.size());
  std::vector<std::byte> bytes;
  const auto add = [&bytes](ByteSpan part) { bytes.insert(bytes.end(), part.begin(), part.end()); };
  if (is_iser_) {
    Header buffers;
    const std::uint64_t base = std::uint64_t{op_tag} << 32;
    if (op_tag != 0 && op_of(op_tag).writes && op_of(op_tag).sent < op_of(op_tag).data.size())
      buffers.write = Buffer{op_tag, base + op_of(op_tag).sent};
    if (op_tag != 0 && !op_of(op_tag).writes) buffers.read = Buffer{op_tag, base};
    add(encode(buffers));
  }
  add(iscsi::encode(header));
  add(data);
  if (!is_iser_) bytes.resize(iscsi::padded(static_cast<std::uint32_t>(bytes.size())));
  messages_.push_back(std::move(bytes));
}

/// Over TCP any part of what has been sent, also of several messages.
void World::deliver() {
  if (messages_.empty() || is_over_) return;
  std::vector<std::byte> bytes;
  if (is_iser_) {
    bytes = std::move(messages_.front());
    messages_.pop_front();
  } else {
    while (messages_.size() > 1) {
      messages_[0].insert(messages_[0].end(), messages_[1].begin(), messages_[1].end());
      messages_.erase(messages_.begin() + 1);
    }
    auto& all = messages_.front();
    const auto part = static_cast<long>(1 + random_.below(all.size()));
    bytes.assign(all.begin(), all.begin() + part);
    all.erase(all.begin(), all.begin() + part);
    if (all.empty()) messages_.pop_front();
  }
  const Message message{.receive = ReceiveId{1},
                        .memory = {bytes.data(), static_cast<std::uint32_t>(bytes.size()), {}}};
  session_->on_message(message, now_, out_);
  take(out_);
}

void World::take(storage::Output& out) {
  for (;;) {
    for (const auto& request : out.store) store_->take(request);
    for (const Work& work : out.work) {
      if (is_over_) break;
      if (const auto* const end = std::get_if<Disconnect>(&work)) ADD_FAILURE() << end->reason;
      Job job{work, {}};
      if (const auto* const one = std::get_if<Send>(&work))
        job.header.assign(one->header.begin(), one->header.end());
      if (!std::holds_alternative<PostAgain>(work)) jobs_.push_back(std::move(job));
    }
    const bool more = out.more;
    out.clear();
    if (!more) return;
    session_->resume(now_, out);
  }
}

World::Op& World::op_of(std::uint32_t tag) {
  const auto op = ops_.find(tag);
  if (op != ops_.end()) return op->second;
  ADD_FAILURE() << "command " << tag << " is not there, or was answered before";
  static Op none;
  return none = {};
}

MutableByteSpan World::memory_of(const RemoteRange& range) {
  const auto tag = static_cast<std::uint32_t>(range.address >> 32);
  EXPECT_EQ(raw(range.remote_key), tag);
  Op& op = op_of(tag);
  const auto offset = static_cast<std::uint32_t>(range.address);
  EXPECT_LE(std::size_t{offset} + range.bytes, op.data.size());
  if (std::size_t{offset} + range.bytes > op.data.size()) return {};
  return std::span(op.data).subspan(offset, range.bytes);
}

void World::finish_job() {
  const Job job = std::move(jobs_.front());
  jobs_.pop_front();
  Tag done = kNoTag;
  if (const auto* const one = std::get_if<Send>(&job.work)) {
    std::vector<std::byte> bytes = job.header;
    for (const Slice& slice : one->payload)
      bytes.insert(bytes.end(), slice.data, slice.data + slice.bytes);
    EXPECT_TRUE(!one->invalidate || ops_.contains(raw(*one->invalidate)));
    on_bytes(bytes);
    done = one->done;
  } else if (const auto* const write = std::get_if<Write>(&job.work)) {
    MutableByteSpan to = memory_of(write->to);
    op_of(static_cast<std::uint32_t>(write->to.address >> 32)).received += write->to.bytes;
    for (const Slice& slice : write->from) {
      std::memcpy(to.data(), slice.data, slice.bytes);
      to = to.subspan(slice.bytes);
    }
    done = write->done;
  } else if (const auto* const read = std::get_if<Read>(&job.work)) {
    ByteSpan from = memory_of(read->from);
    for (const Slice& slice : read->into) {
      std::memcpy(slice.data, from.data(), slice.bytes);
      from = from.subspan(slice.bytes);
    }
    done = read->done;
  }
  if (done == kNoTag) return;
  session_->on_done(done, CompletionStatus::success, now_, out_);
  take(out_);
}

void World::on_bytes(ByteSpan bytes) {
  if (is_iser_) bytes = bytes.subspan(kHeaderBytes);
  in_.insert(in_.end(), bytes.begin(), bytes.end());
  for (;;) {
    if (in_.size() < iscsi::kHeaderBytes) return;
    const auto header = iscsi::decode_response(iscsi::HeaderSpan(in_.data(), iscsi::kHeaderBytes));
    ASSERT_TRUE(header);
    const std::size_t whole =
        iscsi::kHeaderBytes + (is_iser_ ? header->data_bytes : iscsi::padded(header->data_bytes));
    if (in_.size() < whole) return;
    on_pdu(*header, ByteSpan(in_).subspan(iscsi::kHeaderBytes, header->data_bytes));
    in_.erase(in_.begin(), in_.begin() + static_cast<long>(whole));
  }
}

void World::on_pdu(const ResponseHeader& header, ByteSpan data) {
  if (static_cast<std::int32_t>(header.max_cmd_sn - max_cmd_sn_) > 0)
    max_cmd_sn_ = header.max_cmd_sn;
  switch (header.opcode) {
    case Opcode::login_response:
      EXPECT_EQ(header.data_sn, 0u);
      is_logged_in_ = true;
      stat_sn_ = header.stat_sn;
      return;
    case Opcode::scsi_response:
      return on_response(header);
    case Opcode::data_in:
      return on_data_in(header, data);
    case Opcode::ready_to_transfer:
      return on_ready(header);
    case Opcode::nop_in:
      return;
    default:
      ADD_FAILURE() << "opcode " << static_cast<unsigned>(header.opcode);
  }
}

void World::on_response(const ResponseHeader& header) {
  EXPECT_EQ(header.stat_sn, ++stat_sn_);
  if (!ops_.contains(header.task_tag)) return static_cast<void>(op_of(header.task_tag));
  const Op op = std::move(ops_.at(header.task_tag));
  ops_.erase(header.task_tag);
  ++answered_;
  const MutableByteSpan truth = region(op.region, op.data.size());
  if (header.status == raw(scsi::Status::busy)) return;  // No place for unasked data.
  EXPECT_EQ(header.status, 0);
  if (op.writes) return static_cast<void>(std::ranges::copy(op.data, truth.begin()));
  EXPECT_EQ(op.received, op.data.size());
  EXPECT_TRUE(std::ranges::equal(op.data, truth));
}

void World::on_data_in(const ResponseHeader& header, ByteSpan data) {
  Op& op = op_of(header.task_tag);
  EXPECT_EQ(header.data_sn, op.data_sn++);
  EXPECT_EQ(header.offset, op.received);
  ASSERT_LE(op.received + data.size(), op.data.size());
  std::ranges::copy(data, op.data.begin() + op.received);
  op.received += static_cast<std::uint32_t>(data.size());
}

void World::on_ready(const ResponseHeader& header) {
  Op& op = op_of(header.task_tag);
  const std::uint32_t end = header.offset + header.residual;
  ASSERT_LE(end, op.data.size());
  std::uint32_t number = 0;
  for (std::uint32_t at = header.offset; at < end; ++number) {
    const auto bytes = std::min(end - at, static_cast<std::uint32_t>(1 + random_.below(5000)));
    RequestHeader data{.opcode = Opcode::data_out,
                       .flags = at + bytes == end ? iscsi::kFinal : std::uint8_t{0},
                       .task_tag = header.task_tag,
                       .word_20 = header.transfer_tag};
    data.set_data(number, at);
    send(data, ByteSpan(op.data).subspan(at, bytes));
    at += bytes;
  }
}

}  // namespace verbatim::ulp::iser
