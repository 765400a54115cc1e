#include "ulp/iscsi/tcp_connection.h"

#include <algorithm>

#include <fmt/format.h>

namespace verbatim::ulp::iscsi {

using storage::Output;

namespace {

constexpr std::array<std::byte, 3> kPadding{};

}  // namespace

storage::Verdict TcpService::on_meeting(const Meeting& meeting, TimeNs now) {
  constexpr std::uint32_t kReceives = 262144;
  Connection::Setup setup{
      .sessions = &sessions_, .own = meeting.own, .peer = meeting.peer, .begun_at = now};
  setup.ours.target_receives = kReceives;
  setup.ours.initial_r2t = sessions_.limits().initial_r2t ? 1 : 0;
  return storage::Accept{.session = std::make_unique<TcpConnection>(std::move(setup)),
                         .private_data = {},
                         .sizes = {},
                         .replaces = {}};
}

ReceiveUse TcpConnection::on_message(const Message& message, TimeNs now, Output& out) {
  begin_input();
  chunk_ = message.bytes();
  kept_.reset();
  pump(now, out);
  if (chunk_.empty() || is_closing()) return chunk_ = {}, ReceiveUse::done;
  kept_ = message.receive;
  return ReceiveUse::kept;
}

ByteSpan TcpConnection::take(std::size_t bytes) {
  const ByteSpan taken = chunk_.first(std::min(bytes, chunk_.size()));
  chunk_ = chunk_.subspan(taken.size());
  return taken;
}

bool TcpConnection::take_message(TimeNs now, Output& out) {
  while (!chunk_.empty()) {
    if (data_left_ > 0) {
      take_data(take(data_left_), out);
      return true;
    }
    if (skip_ > 0) {
      skip_ -= static_cast<std::uint32_t>(take(skip_).size());
      continue;
    }
    const bool has_header = in_.size() >= kHeaderBytes;
    const std::size_t whole =
        kHeaderBytes + (has_header ? header_.more_bytes + padded(header_.data_bytes) : 0);
    const ByteSpan part = take(whole - in_.size());
    in_.insert(in_.end(), part.begin(), part.end());
    if (in_.size() < whole) break;
    if (!has_header && on_header(out)) continue;
    if (is_closing()) return true;
    const auto data =
        ByteSpan(in_).subspan(kHeaderBytes + header_.more_bytes).first(header_.data_bytes);
    on_message_header(header_, data, {}, now, out);
    in_.clear();
    return true;
  }
  if (kept_) out.work.push(PostAgain{*kept_});
  kept_.reset();
  return false;
}

/// Returns whether more bytes are to be taken before the message is served.
bool TcpConnection::on_header(Output& out) {
  const HeaderSpan bytes(in_.data(), kHeaderBytes);
  const auto header = decode_request(bytes);
  if (!header) {
    on_bad_header(header.error(), bytes, out);
    skip_ = 4u * std::to_integer<std::uint32_t>(in_[4]) + padded(load_be24(&in_[5]));
    in_.clear();
    return true;
  }
  header_ = *header;
  if (header_.opcode == Opcode::data_out && header_.transfer_tag() != kNoTag32) {
    in_.clear();
    return begin_data(out);
  }
  if (header_.data_bytes > kDataBytesMax) {
    close(fmt::format("a message of opcode {:#x} with {} bytes of data: {} are allowed",
                      static_cast<unsigned>(header_.opcode), header_.data_bytes, kDataBytesMax),
          out);
    return false;
  }
  return header_.more_bytes + header_.data_bytes > 0;
}

/// A Data-Out that was asked for; of a command that is over, its bytes are dropped.
bool TcpConnection::begin_data(Output& out) {
  Command* const command = find_command(header_.task_tag);
  data_left_ = 0;
  skip_ = header_.more_bytes + padded(header_.data_bytes);
  if (command == nullptr || !command->is_moving || command->transfer_tag != header_.transfer_tag())
    return true;
  if (header_.data_sn() != command->data_sn || header_.buffer_offset() != command->fetch_offset ||
      header_.data_bytes > command->r2t_end - command->fetch_offset || header_.more_bytes > 0) {
    close(fmt::format(
              "Data-Out {} with {} bytes at {}: number {} with at most {} at {} is expected",
              header_.data_sn(), header_.data_bytes, header_.buffer_offset(), command->data_sn,
              command->r2t_end - command->fetch_offset, command->fetch_offset),
          out);
    return false;
  }
  ++command->data_sn;
  filled_ = command;
  data_left_ = header_.data_bytes;
  skip_ = padded(data_left_) - data_left_;
  if (data_left_ == 0) end_data(*command, out);
  return true;
}

void TcpConnection::take_data(ByteSpan data, Output& out) {
  data_left_ -= static_cast<std::uint32_t>(data.size());
  if (filled_ == nullptr) return;
  filled_->into.fill(data);
  filled_->fetch_offset += static_cast<std::uint32_t>(data.size());
  if (data_left_ == 0) end_data(*filled_, out);
}

void TcpConnection::end_data(Command& command, Output& out) {
  filled_ = nullptr;
  const bool has_all = command.fetch_offset == command.r2t_end;
  if (has_all != header_.has(kFinal))
    return close(fmt::format("Data-Out's F bit is {} at {}: the R2T ends at {}",
                             header_.has(kFinal) ? 1 : 0, command.fetch_offset, command.r2t_end),
                 out);
  if (!has_all) return;
  if (command.fetch_offset == command.fetch_end) return moved(command);
  solicit(command, out);
}

void TcpConnection::solicit(Command& command, Output& out) {
  const std::uint32_t bytes =
      std::min(parameters().max_burst, command.fetch_end - command.fetch_offset);
  command.transfer_tag = next_transfer_tag();
  command.data_sn = 0;
  command.r2t_end = command.fetch_offset + bytes;
  ResponseHeader request{.opcode = Opcode::ready_to_transfer,
                         .lun = command.lun,
                         .task_tag = command.task_tag,
                         .transfer_tag = command.transfer_tag,
                         .data_sn = command.sent_sn++,
                         .offset = command.fetch_offset,
                         .residual = bytes};
  number(request, false);
  send(request, {}, nullptr, kNoTag, out);
}

bool TcpConnection::stop_fetch(Command& command) {
  if (filled_ == &command) filled_ = nullptr;
  return true;
}

void TcpConnection::send(const ResponseHeader& header, ByteSpan data, const Command*, Tag done,
                         Output& out) {
  const auto padding = ByteSpan(kPadding);
  const std::uint32_t own = padded(header.data_bytes) - header.data_bytes;
  out.work.push(Send{.header = sessions().add_header(padding.first(padding_owed_), encode(header),
                                                     data, padding.first(own)),
                     .done = done});
  padding_owed_ = 0;
}

/// Cuts the slices where Data-In PDUs and bursts end, so that each PDU has whole ones.
void TcpConnection::deliver(Command& command, std::span<const Slice> from, Output& out) {
  const Parameters& agreed = parameters();
  const std::uint32_t bytes = static_cast<std::uint32_t>(ulp::bytes_of(from));
  const std::uint32_t pdu = std::min(agreed.initiator_receives, agreed.max_burst);
  command.parts.clear();
  std::uint32_t offset = 0;
  for (SliceCursor cursor(from); !cursor.is_at_end();) {
    const std::uint32_t to_burst = agreed.max_burst - offset % agreed.max_burst;
    const std::uint32_t to_pdu = pdu - offset % agreed.max_burst % pdu;
    const Slice part = cursor.next(std::min(to_burst, to_pdu));
    command.parts.push_back(part);
    cursor.advance(part.bytes);
    offset += part.bytes;
  }
  delivery_ = {.command = &command, .bytes = bytes};
  static_cast<void>(out);
}

bool TcpConnection::continue_delivery(Output& out) {
  if (delivery_.command == nullptr) return true;
  Command& command = *delivery_.command;
  const Parameters& agreed = parameters();
  const std::uint32_t pdu = std::min(agreed.initiator_receives, agreed.max_burst);
  while (delivery_.part < command.parts.size()) {
    if (!has_room(out)) return false;
    const std::uint32_t in_burst = delivery_.offset % agreed.max_burst;
    const std::uint32_t bytes = std::min(
        {pdu - in_burst % pdu, agreed.max_burst - in_burst, delivery_.bytes - delivery_.offset});
    const std::size_t first = delivery_.part;
    for (std::uint32_t left = bytes; left > 0; ++delivery_.part)
      left -= command.parts[delivery_.part].bytes;
    const bool ends =
        in_burst + bytes == agreed.max_burst || delivery_.offset + bytes == delivery_.bytes;
    ResponseHeader data{.opcode = Opcode::data_in,
                        .flags = ends ? kFinal : std::uint8_t{0},
                        .data_bytes = bytes,
                        .task_tag = command.task_tag,
                        .transfer_tag = kNoTag32,
                        .data_sn = command.sent_sn++,
                        .offset = delivery_.offset};
    number(data, false);
    const auto padding = ByteSpan(kPadding);
    out.work.push(
        Send{.header = sessions().add_header(padding.first(padding_owed_), encode(data), {}),
             .payload = std::span(command.parts).subspan(first, delivery_.part - first)});
    padding_owed_ = padded(bytes) - bytes;
    delivery_.offset += bytes;
  }
  delivery_ = {};
  return true;
}

}  // namespace verbatim::ulp::iscsi
