#include "ulp/iscsi/connection.h"

#include <algorithm>

#include <fmt/format.h>

namespace verbatim::ulp::iscsi {

using storage::Output;

Connection::~Connection() {
  if (full_ != nullptr) {
    full_->commands.for_each([this](Command& one) { sessions().give_back_stash(one.stash); });
    full_.reset();
  }
  if (session_ != nullptr) sessions().end(*session_);
}

void Connection::on_done(Tag tag, CompletionStatus status, TimeNs now, Output& out) {
  begin_input();
  now_ = now;
  if (tag == kCloseTag && setup_.is_iser && words_.empty()) {
    // After a logout the initiator disconnects: libiscsi cannot take it from the target.
  } else if (tag == kCloseTag) {
    out.work.push(Disconnect{words_.c_str()});
    ends_at_ = kNever;
  } else if (Command* const command = full_ == nullptr ? nullptr : full_->commands.find(tag)) {
    if (command->is_fetching && status == CompletionStatus::success) {
      moved(*command);
    } else if (command->is_fetching) {
      fetch_failed(*command);
    } else {
      full_->tasks.on_done(command->task, sessions().task_output());
      give_back(*command);
    }
  }
  pump(now, out);
}

void Connection::on_pages(Tag tag, storage::StoreStatus status, std::span<const Slice> pages,
                          TimeNs now, Output& out) {
  begin_input();
  if (full_ != nullptr) full_->tasks.on_pages(tag, status, pages, sessions().task_output());
  pump(now, out);
}

void Connection::on_stored(Tag tag, storage::StoreStatus status, TimeNs now, Output& out) {
  begin_input();
  if (full_ != nullptr) full_->tasks.on_stored(tag, status, sessions().task_output());
  pump(now, out);
}

void Connection::on_end(TimeNs now, Output& out) {
  begin_input();
  is_over_ = is_closing_ = true;
  ends_at_ = kNever;
  if (full_ != nullptr) full_->tasks.on_end(sessions().task_output());
  pump(now, out);
}

bool Connection::is_idle() const {
  return is_over_ && (full_ == nullptr || full_->tasks.is_idle());
}

void Connection::resume(TimeNs now, Output& out) {
  begin_input();
  pump(now, out);
}

void Connection::pump(TimeNs now, Output& out) {
  now_ = now;
  for (;;) {
    if (!carry_out_tasks(now, out)) return static_cast<void>(out.more = true);
    if (is_closing_) return;
    if (!has_room(out)) return static_cast<void>(out.more = true);
    if (!take_message(now, out)) return;
  }
}

TimeNs Connection::deadline() const {
  if (is_over_) return kNever;
  if (held_) return held_->due;
  if (is_closing_) return ends_at_;
  if (end_words_ || wakes_replaced_) return 0;
  if (is_waiting()) return heard_at_ + kReplaceStep;
  if (login_ != nullptr || initiator_.empty()) return setup_.begun_at + kLoginTime;
  if (is_discovery()) return heard_at_ + kDiscoveryTime;
  const TimeNs ping = pinged_at_ == kNever ? heard_at_ + kPingAfter : pinged_at_ + kPingTime;
  return std::min(ping, full_->tasks.deadline());
}

void Connection::on_time(TimeNs now, Output& out) {
  begin_input();
  now_ = now;
  const bool is_logged_in = login_ == nullptr && !initiator_.empty() && !is_waiting();
  if (held_ && now >= held_->due) send_held(out);
  if (is_closing_) {
    if (now >= ends_at_ && !is_over_) out.work.push(Disconnect{words_.c_str()}), ends_at_ = kNever;
  } else if (end_words_) {
    close(*end_words_, out);
  } else if (is_waiting()) {
    wakes_replaced_ = false;
    heard_at_ = now;
    if (find_replaced() == nullptr) complete_login(out);
  } else if (!is_logged_in) {
    if (now >= setup_.begun_at + kLoginTime) close("no login within 15 s", out);
  } else if (is_discovery()) {
    if (now >= heard_at_ + kDiscoveryTime)
      close(fmt::format("{} has asked nothing for 60 s", initiator_), out);
  } else if (pinged_at_ != kNever && now >= pinged_at_ + kPingTime) {
    close(fmt::format("{} has not answered a NOP-In for 30 s", initiator_), out);
  } else if (pinged_at_ == kNever && now >= heard_at_ + kPingAfter) {
    pinged_at_ = now;
    ResponseHeader ping{.opcode = Opcode::nop_in, .transfer_tag = next_transfer_tag()};
    number(ping, false);
    send(ping, {}, nullptr, kNoTag, out);
  }
  if (full_ != nullptr && !is_closing_) full_->tasks.on_time(now, sessions().task_output());
  pump(now, out);
}

void Connection::close(std::string words, Output& out) {
  if (is_closing_) return;
  words_ = std::move(words);
  is_closing_ = true;
  out.work.push(Disconnect{words_.c_str()});
}

void Connection::close_after_message(std::string words) {
  words_ = std::move(words);
  is_closing_ = true;
  ends_at_ = now_ + kLastTime;
}

void Connection::number(ResponseHeader& header, bool counts) {
  header.stat_sn = stat_sn_;
  if (counts) ++stat_sn_;
  header.exp_cmd_sn = exp_cmd_sn_;
  const std::uint32_t window = sessions().limits().window;
  const std::uint32_t open = full_ == nullptr ? 0 : std::min(full_->open, window);
  const std::uint32_t last = exp_cmd_sn_ + window - open - 1;
  // It never goes back (RFC 7143, 4.2.2.1).
  if (static_cast<std::int32_t>(last - max_cmd_sn_) > 0) max_cmd_sn_ = last;
  header.max_cmd_sn = max_cmd_sn_;
}

std::uint32_t Connection::next_transfer_tag() {
  if (++transfer_tag_ == kNoTag32) transfer_tag_ = 1;
  return transfer_tag_;
}

/// ib_iser and libiscsi post receives of 128 bytes for data once a session is there.
std::uint32_t Connection::data_bytes_max() const {
  constexpr std::uint32_t kMax = 8192, kIserMax = 128;
  if (setup_.is_iser && session_ != nullptr) return kIserMax;
  return std::min(parameters_.initiator_receives, kMax);
}

void Connection::on_message_header(const RequestHeader& header, ByteSpan data,
                                   const RemoteBuffers& buffers, TimeNs now, Output& out) {
  now_ = heard_at_ = now;
  pinged_at_ = kNever;
  if (held_) send_held(out);  // The initiator has not waited for it.
  if (login_ == nullptr && initiator_.empty()) {
    login_ = std::make_unique<Login>(sessions(), setup_.ours, setup_.is_iser, setup_.own);
    exp_cmd_sn_ = header.cmd_sn;
    max_cmd_sn_ = exp_cmd_sn_ - 1;
  }
  if (login_ == nullptr) return on_request(header, data, buffers, out);
  if (header.opcode == Opcode::login && !is_waiting()) return on_login(header, data, out);
  close(fmt::format("a message of opcode {:#x} within the login", raw(header.opcode)), out);
}

bool Connection::takes_number(const RequestHeader& header) {
  if (header.is_immediate || header.opcode == Opcode::data_out || header.opcode == Opcode::snack)
    return true;
  const bool fits = static_cast<std::int32_t>(max_cmd_sn_ - header.cmd_sn) >= 0;
  if (header.cmd_sn != exp_cmd_sn_ || !fits) return false;  // Ignored (RFC 7143, 4.2.2.1).
  ++exp_cmd_sn_;
  return true;
}

void Connection::on_request(const RequestHeader& header, ByteSpan data,
                            const RemoteBuffers& buffers, Output& out) {
  if (!takes_number(header)) return;
  switch (header.opcode) {
    case Opcode::nop_out:
      return on_nop(header, data, out);
    case Opcode::text:
      return on_text(header, data, out);
    case Opcode::logout:
      return on_logout(header, out);
    case Opcode::snack:
      return reject(RejectReason::snack, header, out);
    case Opcode::login:
      return reject(RejectReason::protocol_error, header, out);
    default:
      break;
  }
  if (full_ == nullptr) return reject(RejectReason::protocol_error, header, out);  // Discovery.
  if (header.opcode == Opcode::scsi_command) return on_command(header, data, buffers, out);
  if (header.opcode == Opcode::task_management) return on_management(header, out);
  on_data_out(header, data, out);
}

void Connection::on_nop(const RequestHeader& header, ByteSpan data, Output& out) {
  if (header.task_tag == kNoTag32) return;  // The answer to our ping.
  data = data.first(std::min<std::size_t>(data.size(), data_bytes_max()));
  ResponseHeader answer{.opcode = Opcode::nop_in,
                        .data_bytes = static_cast<std::uint32_t>(data.size()),
                        .lun = header.lun,
                        .task_tag = header.task_tag,
                        .transfer_tag = kNoTag32};
  number(answer, true);
  send(answer, data, nullptr, kNoTag, out);
}

void Connection::on_text(const RequestHeader& header, ByteSpan data, Output& out) {
  if (text_in_.size() + data.size() > kTextBytesMax)
    return reject(RejectReason::protocol_error, header, out);
  text_in_.append(reinterpret_cast<const char*>(data.data()), data.size());
  if (!header.has(kContinue)) {
    // Who asks on with our tag gets the rest of the answer.
    const std::string text = std::exchange(text_in_, {});
    if (header.transfer_tag() == kNoTag32) text_out_ = text_answer(text);
  }
  const std::size_t bytes = header.has(kContinue) ? 0 : text_out_.size();
  const std::size_t part = std::min<std::size_t>(bytes, data_bytes_max());
  const bool is_last = part == text_out_.size() && !header.has(kContinue);
  ResponseHeader answer{.opcode = Opcode::text_response,
                        .flags = is_last ? kFinal : std::uint8_t{0},
                        .data_bytes = static_cast<std::uint32_t>(part),
                        .lun = header.lun,
                        .task_tag = header.task_tag,
                        .transfer_tag = is_last ? kNoTag32 : next_transfer_tag()};
  if (part < bytes) answer.flags |= kContinue;
  number(answer, true);
  const std::string text = text_out_.substr(0, part);
  text_out_.erase(0, part);
  if (is_discovery()) return answer_discovery(answer, text, kNoTag, out);
  send(answer, std::as_bytes(std::span(text)), nullptr, kNoTag, out);
}

std::string Connection::text_answer(std::string_view text) const {
  std::string answer;
  const auto keys = parse_keys(text);
  if (!keys) return answer;
  for (const Key& key : *keys) {
    if (key.name == "SendTargets")
      add_targets(key.value, answer);
    else
      add_key(answer, key.name, "NotUnderstood");
  }
  return answer;
}

/// "All": in discovery sessions alone. A name, or nothing: this session's target (RFC 7143, App.
/// C).
void Connection::add_targets(std::string_view which, std::string& text) const {
  constexpr std::size_t kTargetsBytesMax = 64 << 10;
  std::string_view last;
  for (const auto& target : setup_.sessions->targets()) {
    const bool is_own = session_ != nullptr && session_->target == target;
    if (session_ != nullptr ? !is_own : !target->is_shown_to(initiator_)) continue;
    if (which != "All" && !which.empty() && which != target->name()) continue;
    if (text.size() > kTargetsBytesMax) return;
    if (target->name() != last) add_key(text, "TargetName", target->name());
    last = target->name();
    for (const SocketAddress& at : target->addresses_for(setup_.own))
      add_key(text, "TargetAddress", fmt::format("{},{}", at.text(), target->tag()));
  }
}

void Connection::on_logout(const RequestHeader& header, Output& out) {
  enum Reason : std::uint8_t { close_session = 0, close_connection = 1 };
  enum Response : std::uint8_t { closed = 0, no_connection = 1, no_recovery = 2 };
  Response response = no_recovery;
  if (header.low_flags() == close_session) response = closed;
  if (header.low_flags() == close_connection)
    response = header.connection_id() == connection_id_ ? closed : no_connection;
  ResponseHeader answer{
      .opcode = Opcode::logout_response, .response = response, .task_tag = header.task_tag};
  answer.offset = parameters_.time_to_wait << 16 | parameters_.time_to_retain;
  number(answer, true);
  const bool ends = response == closed;
  send(answer, {}, nullptr, ends ? kCloseTag : kNoTag, out);
  if (ends) close_after_message("");
}

void Connection::reject(RejectReason reason, HeaderSpan header, Output& out) {
  ResponseHeader answer{.opcode = Opcode::reject,
                        .response = static_cast<std::uint8_t>(reason),
                        .data_bytes = kHeaderBytes};
  number(answer, true);
  send(answer, header, nullptr, kNoTag, out);
}

void Connection::reject(RejectReason reason, const RequestHeader& header, Output& out) {
  const auto bytes = encode(header);
  reject(reason, HeaderSpan(bytes), out);
}

void Connection::on_bad_header(RejectReason reason, HeaderSpan header, Output& out) {
  if (login_ == nullptr && !initiator_.empty()) return reject(reason, header, out);
  close(fmt::format("a message of opcode {:#x} before the login",
                    std::to_integer<unsigned>(header[0]) & 0x3f),
        out);
}

}  // namespace verbatim::ulp::iscsi
