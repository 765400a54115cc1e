#include "ulp/iser/initiator/initiator.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace verbatim::ulp::iser {

using iscsi::Opcode;
using iscsi::RequestHeader;
using iscsi::ResponseHeader;
using storage::Channel;
using storage::InitiatorOutput;
using storage::PeerMemory;

namespace {

constexpr Channel kChannel{0};
constexpr std::uint32_t kUnexpected = 8;  // Messages of the target that answer no command.
constexpr std::uint32_t kZeroesAt = 4096;
constexpr std::uint32_t kArenaBytes = 20000;
constexpr std::uint32_t kPingTag = 0xffff'fff0, kLogoutTag = 0xffff'fff1;
constexpr std::uint32_t kLunMax = 0x3fff;

/// A unit's number as messages have it (SAM-5, 4.7): peripheral, then flat space addressing.
std::uint64_t lun_of(std::uint16_t number) {
  const std::uint64_t first = number < 256 ? number : 0x4000u | (number & kLunMax);
  return first << 48;
}

}  // namespace

Initiator::Initiator(Settings settings, const PeerMemory& scratch)
    : settings_(std::move(settings)),
      scratch_(scratch),
      lun_(lun_of(settings_.lun)),
      login_(settings_.login),
      commands_(settings_.commands) {
  arena_.reserve(kArenaBytes);
  std::memset(scratch_.data(), 0, scratch_.bytes());
}

PeerMemory Initiator::scratch(std::uint32_t offset, std::uint32_t bytes) const {
  return {{scratch_.data() + offset, bytes, scratch_.here.local_key}, scratch_.remote_key};
}

void Initiator::begin(TimeNs now, InitiatorOutput& out) {
  const std::byte flags[] = {std::byte{kNoZeroBased | kNoInvalidate}, {}, {}, {}};
  began_ = last_heard_ = now;
  next_look_ = now + kLook;
  out.connect.push({.channel = kChannel,
                    .private_data = to_private_data(flags),
                    .sizes = {.sends = settings_.commands * 2u + kUnexpected,
                              .receives = settings_.commands + kUnexpected,
                              .receive_bytes = Connection::kReceiveBytes,
                              .inline_bytes = Connection::kHeadersBytes}});
}

storage::Failure Initiator::on_rejected(Channel, int reason, ByteSpan) {
  constexpr int kNobodyListens = 8, kProtocolRefuses = 28;  // IBA 12.6.7.2.
  // Over iWARP an errno value.
  if (reason == kNobodyListens || reason == -ECONNREFUSED)
    return {"no iSER target listens there", true};
  if (reason == kProtocolRefuses) return {"the target refuses the connection", true};
  return {fmt::format("the connection is rejected, reason {}", reason), false};
}

void Initiator::on_established(Channel, ByteSpan, TimeNs now, InitiatorOutput& out) {
  arena_.clear();
  last_heard_ = now;
  is_established_ = true;
  send_login(login_.first(), out);
}

void Initiator::send_login(InitiatorLogin::Request request, InitiatorOutput& out) {
  request.header.is_immediate = true;
  send({}, request.header, std::as_bytes(std::span(request.text)), {}, out);
}

ReceiveUse Initiator::on_message(Channel, const Message& message, TimeNs now,
                                 InitiatorOutput& out) {
  arena_.clear();
  last_heard_ = now;
  if (!is_closing_) on_bytes(message.bytes(), now, out);
  if (probe_.access().deadline(commands_.size() > 0) <= now) look_at_access(now, out);
  return ReceiveUse::done;
}

void Initiator::on_bytes(ByteSpan bytes, TimeNs now, InitiatorOutput& out) {
  if (bytes.size() < Connection::kHeadersBytes)
    return close(fmt::format("a message of {} bytes: the headers have 76", bytes.size()), false,
                 out);
  const auto carrier = decode(bytes.first<kHeaderBytes>());
  if (!carrier || carrier->type != Type::control)
    return close(fmt::format("iSER's header begins with {:#x}: 0x10 is expected",
                             std::to_integer<unsigned>(bytes[0])),
                 false, out);
  const auto header = iscsi::decode_response(bytes.subspan<kHeaderBytes, iscsi::kHeaderBytes>());
  if (!header)
    return close(fmt::format("the target sends opcode {:#x}, which is none of a target's",
                             std::to_integer<unsigned>(bytes[kHeaderBytes])),
                 false, out);
  const ByteSpan data = bytes.subspan(Connection::kHeadersBytes);
  if (header->data_bytes > data.size())
    return close(fmt::format("a message announces {} bytes of data and has {}", header->data_bytes,
                             data.size()),
                 false, out);
  on_pdu(*header, data.first(header->data_bytes), now, out);
}

void Initiator::on_pdu(const ResponseHeader& header, ByteSpan data, TimeNs now,
                       InitiatorOutput& out) {
  take_numbers(header);
  if (!login_.is_complete()) {
    if (header.opcode == Opcode::login_response) return on_login(header, data, now, out);
    return close("the target does not answer the login, but something else", false, out);
  }
  switch (header.opcode) {
    case Opcode::scsi_response:
      return on_response(header, data, now, out);
    case Opcode::nop_in:
      return on_nop(header, out);
    case Opcode::async_message:
      return on_async(header, out);
    case Opcode::logout_response:
      is_closing_ = true;
      return static_cast<void>(out.on(kChannel).push(Disconnect{""}));
    case Opcode::reject:
      return close(
          fmt::format("the target rejects a message of ours, reason {:#04x}", header.response),
          false, out);
    default:
      return close(fmt::format("the target sends opcode {:#x}, which we have not asked for",
                               raw(header.opcode)),
                   false, out);
  }
}

/// RFC 7143, 4.2.2: what is older than what we know says nothing.
void Initiator::take_numbers(const ResponseHeader& header) {
  const bool has_status = header.opcode != Opcode::nop_in || header.task_tag != iscsi::kNoTag32;
  if (has_status) exp_stat_sn_ = header.stat_sn + 1;
  const bool is_nonsense = static_cast<std::int32_t>(header.max_cmd_sn - header.exp_cmd_sn) < -1;
  if (is_nonsense) return;
  const bool is_first = !login_.is_complete();
  if (is_first || static_cast<std::int32_t>(header.max_cmd_sn - max_cmd_sn_) > 0)
    max_cmd_sn_ = header.max_cmd_sn;
}

void Initiator::on_login(const ResponseHeader& header, ByteSpan data, TimeNs now,
                         InitiatorOutput& out) {
  auto next = login_.on_response(header, data);
  if (const storage::Failure* const why = login_.failure())
    return close(why->words, why->is_final, out);
  if (next) return send_login(std::move(*next), out);
  probe(now, out);
}

void Initiator::probe(TimeNs now, InitiatorOutput& out) {
  if (const storage::Failure* const why = probe_.failure())
    return close(why->words, why->is_final, out);
  if (probe_.facts() != nullptr) {
    facts_ = *probe_.facts();
    facts_->requests_max = settings_.commands;
    return probe_.access().put_off(now);
  }
  Command* const command = is_window_open() ? commands_.take() : nullptr;
  if (command == nullptr) return close("the target's window is closed from the first", false, out);
  command->is_probe = true;
  const scsi::DiskCommand scsi = *probe_.command();
  send_command(*command, scsi, scratch(0, scsi.data_bytes), now, out);
}

/// Asks how well the port reaches the unit now; if there is no room, at the next look.
void Initiator::look_at_access(TimeNs now, InitiatorOutput& out) {
  if (!facts_ || is_closing_ || is_logging_out_ || !is_window_open()) return;
  Command* const command = commands_.take();
  if (command == nullptr) return;
  command->is_probe = true;
  probe_.access().on_asked(now);
  const scsi::DiskCommand scsi = scsi::PortAccess::command();
  send_command(*command, scsi, scratch(0, scsi.data_bytes), now, out);
}

bool Initiator::on_request(const storage::DiskRequest& request, TimeNs now, InitiatorOutput& out) {
  arena_.clear();
  if (!facts_ || is_closing_ || !is_window_open()) return false;
  Command* const command = commands_.take();
  if (command == nullptr) return false;
  command->request = request;
  const scsi::DiskCommand scsi = scsi::command_of(request, *facts_);
  PeerMemory memory = request.memory;
  if (scsi.is_zero_block) memory = scratch(kZeroesAt, scsi.data_bytes);
  send_command(*command, scsi, memory, now, out);
  return true;
}

void Initiator::send_command(Command& command, const scsi::DiskCommand& scsi,
                             const PeerMemory& memory, TimeNs now, InitiatorOutput& out) {
  const bool writes = scsi.direction == scsi::DataDirection::to_target;
  command.reads = scsi.direction == scsi::DataDirection::from_target;
  command.data_bytes = scsi.data_bytes;
  command.sent_at = now;
  RequestHeader header{.opcode = Opcode::scsi_command,
                       .flags = iscsi::kFinal,
                       .lun = lun_,
                       .task_tag = raw(commands_.tag_of(command)),
                       .word_20 = scsi.data_bytes,
                       .cdb = scsi.cdb};
  const iscsi::Parameters& agreed = login_.parameters();
  Header buffers;
  std::uint32_t immediate = 0, unasked = 0;
  if (command.reads) {
    header.flags |= iscsi::kReads;
    buffers.read = Buffer{raw(memory.remote_key), memory.address()};
  } else if (writes) {
    header.flags |= iscsi::kWrites;
    const std::uint32_t first = std::min(agreed.first_burst, scsi.data_bytes);
    if (agreed.immediate_data != 0) immediate = std::min(first, agreed.target_receives);
    unasked = agreed.may_send_unsolicited() ? first : immediate;
    if (unasked < scsi.data_bytes)
      buffers.write = Buffer{raw(memory.remote_key), memory.address() + unasked};
    if (immediate < unasked) header.flags &= static_cast<std::uint8_t>(~iscsi::kFinal);
  }
  header.data_bytes = immediate;
  header.cmd_sn = cmd_sn_++;
  const std::span<Slice> parts = command.parts;
  parts[0] = {memory.data(), immediate, memory.here.local_key};
  send(buffers, header, {}, parts.first(immediate > 0 ? 1 : 0), out);
  for (Slice& part : parts.subspan(1)) part = {memory.data(), 0, memory.here.local_key};
  send_unasked(command, immediate, unasked, parts.subspan(1), out);
}

/// Data-Out, as far as FirstBurstLength lets it.
void Initiator::send_unasked(const Command& command, std::uint32_t from, std::uint32_t to,
                             std::span<Slice> parts, InitiatorOutput& out) {
  const std::uint32_t most = login_.parameters().target_receives;
  for (std::uint32_t number = 0; from < to; ++number) {
    const std::uint32_t bytes = std::min(to - from, most);
    RequestHeader header{.opcode = Opcode::data_out,
                         .flags = from + bytes == to ? iscsi::kFinal : std::uint8_t{0},
                         .data_bytes = bytes,
                         .lun = lun_,
                         .task_tag = raw(commands_.tag_of(command)),
                         .word_20 = iscsi::kNoTag32};
    header.set_data(number, from);
    parts[number].data += from;
    parts[number].bytes = bytes;
    send({}, header, {}, parts.subspan(number, 1), out);
    from += bytes;
  }
}

void Initiator::send_immediate(RequestHeader header, InitiatorOutput& out) {
  header.is_immediate = true;
  header.flags |= iscsi::kFinal;
  header.cmd_sn = cmd_sn_;
  send({}, header, {}, {}, out);
}

void Initiator::send(const Header& buffers, RequestHeader header, ByteSpan text,
                     std::span<const Slice> payload, InitiatorOutput& out) {
  if (header.opcode == Opcode::login) header.cmd_sn = cmd_sn_;
  header.exp_stat_sn = exp_stat_sn_;
  const std::size_t at = arena_.size();
  const auto add = [this](ByteSpan bytes) {
    VERBATIM_ASSERT(arena_.size() + bytes.size() <= kArenaBytes);
    arena_.insert(arena_.end(), bytes.begin(), bytes.end());
  };
  add(encode(buffers));
  add(iscsi::encode(header));
  add(text);
  out.on(kChannel).push(Send{.header = ByteSpan(arena_).subspan(at), .payload = payload});
}

void Initiator::on_response(const ResponseHeader& header, ByteSpan data, TimeNs now,
                            InitiatorOutput& out) {
  Command* const command = commands_.find(Tag{header.task_tag});
  if (command == nullptr)
    return close(
        fmt::format("the target answers task {:#x}, which is not under way", header.task_tag),
        false, out);
  ByteSpan sense;
  if (data.size() >= 2)
    sense = data.subspan(
        2, std::min<std::size_t>(load_be<std::uint16_t>(data.data()), data.size() - 2));
  const bool is_short = (header.flags & iscsi::kUnderflow) != 0;
  const std::uint32_t missing = is_short ? std::min(header.residual, command->data_bytes) : 0;
  // Response 1: the target itself has failed.
  const auto status = scsi::Status{header.response == 0 ? header.status : std::uint8_t{0xff}};
  const std::uint32_t read = command->reads ? command->data_bytes - missing : 0;
  const bool is_probe = command->is_probe;
  const Tag user = command->request.user;
  commands_.give_back(*command);
  if (is_probe && facts_)
    return probe_.access().on_report(status, sense, ByteSpan(scratch_.data(), read), now);
  if (is_probe) {
    probe_.on_answer(status, sense, ByteSpan(scratch_.data(), read));
    return probe(now, out);
  }
  const int error = scsi::error_of(status, sense);
  if (error != 0) probe_.access().on_answer(sense, now);
  out.answers.push({user, error == 0 && missing > 0 ? EIO : error});
}

/// The target asks whether we are there, or answers when we did.
void Initiator::on_nop(const ResponseHeader& header, InitiatorOutput& out) {
  if (header.task_tag == kPingTag) is_asked_ = false;
  if (header.transfer_tag == iscsi::kNoTag32) return;
  send_immediate({.opcode = Opcode::nop_out,
                  .lun = header.lun,
                  .task_tag = iscsi::kNoTag32,
                  .word_20 = header.transfer_tag},
                 out);
}

void Initiator::on_async(const ResponseHeader& header, InitiatorOutput& out) {
  // The event is in byte 36, where other messages have DataSN.
  const auto event = static_cast<std::uint8_t>(header.data_sn >> 24);
  if (event == 0) return;  // SCSI's: a unit attention follows.
  close(fmt::format("the target ends the session, event {}", event), false, out);
}

void Initiator::on_time(TimeNs now, InitiatorOutput& out) {
  arena_.clear();
  if (now < next_look_) return;
  next_look_ = now + kLook;
  if (is_closing_) return;
  if (!facts_) {
    if (elapsed(began_, now) >= kLoginPatience)
      close(is_established_ ? "the target does not finish the login within 15 s"
                            : "nobody answers there within 15 s",
            false, out);
    return;
  }
  bool is_late = false;
  commands_.for_each([&](const Command& command) {
    is_late = is_late || elapsed(command.sent_at, now) >= kCommandPatience;
  });
  if (is_late) return close("the target does not answer a command within 30 s", false, out);
  if (probe_.access().deadline(commands_.size() > 0) <= now) look_at_access(now, out);
  if (elapsed(last_heard_, now) < kSilence) return static_cast<void>(is_asked_ = false);
  if (!is_asked_) {
    is_asked_ = true;
    asked_at_ = now;
    return send_immediate(
        {.opcode = Opcode::nop_out, .lun = lun_, .task_tag = kPingTag, .word_20 = iscsi::kNoTag32},
        out);
  }
  if (elapsed(asked_at_, now) >= kSilence) close("the target has been silent for 10 s", false, out);
}

void Initiator::log_out(TimeNs, InitiatorOutput& out) {
  arena_.clear();
  if (is_closing_ || is_logging_out_) return;
  is_logging_out_ = true;
  if (!login_.is_complete()) {
    is_closing_ = true;
    return static_cast<void>(out.on(kChannel).push(Disconnect{""}));
  }
  send_immediate({.opcode = Opcode::logout, .task_tag = kLogoutTag}, out);
}

void Initiator::close(std::string words, bool is_final, InitiatorOutput& out) {
  is_closing_ = true;
  failure_ = {std::move(words), is_final};
  out.on(kChannel).push(Disconnect{"the session is over"});
}

}  // namespace verbatim::ulp::iser
