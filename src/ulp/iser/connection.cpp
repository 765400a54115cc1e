#include "ulp/iser/connection.h"

#include <fmt/format.h>

#include "ulp/iser/wire/header.h"

namespace verbatim::ulp::iser {

using iscsi::Command;
using storage::Output;

storage::Verdict Service::on_meeting(const Meeting& meeting, TimeNs now) {
  constexpr std::uint32_t kUnexpected = 4;  // Messages beyond the window: NOP, task management.
  if (meeting.reads.initiator == 0)
    return Rejection{{}, "the initiator allows no RDMA READ: its responder resources are 0"};
  const auto flags = meeting.private_data.empty()
                         ? std::uint8_t{0}
                         : std::to_integer<std::uint8_t>(meeting.private_data[0]);
  const bool may_invalidate = (flags & kNoInvalidate) == 0;
  iscsi::Connection::Setup setup{.sessions = &sessions_,
                                 .own = meeting.own,
                                 .peer = meeting.peer,
                                 .is_iser = true,
                                 .begun_at = now};
  setup.ours.rdma_extensions = 1;
  setup.ours.initial_r2t = sessions_.limits().initial_r2t ? 1 : 0;
  setup.ours.initiator_receives = 262144;
  // libiscsi 1.19 announces immediate data, and sends none. It is known by what it cannot do.
  if (!may_invalidate) setup.ours.immediate_data = 0;
  const std::byte answer[] = {
      std::byte{static_cast<std::uint8_t>(kNoZeroBased | (may_invalidate ? 0 : kNoInvalidate))},
      {},
      {},
      {}};
  return storage::Accept{.session = std::make_unique<Connection>(std::move(setup), may_invalidate),
                         .private_data = to_private_data(answer),
                         .sizes = {.receives = sessions_.limits().window + kUnexpected,
                                   .receive_bytes = Connection::kReceiveBytes,
                                   .inline_bytes = Connection::kHeadersBytes},
                         .replaces = {}};
}

ReceiveUse Connection::on_message(const Message& message, TimeNs now, Output& out) {
  begin_input();
  if (!is_closing()) on_bytes(message.bytes(), now, out);
  pump(now, out);
  return ReceiveUse::done;
}

void Connection::on_bytes(ByteSpan bytes, TimeNs now, Output& out) {
  if (bytes.size() < kHeaderBytes)
    return close(fmt::format("a message of {} bytes: iSER's header has 28", bytes.size()), out);
  const auto header = decode(bytes.first<kHeaderBytes>());
  if (!header)
    return close(fmt::format("iSER's header begins with {:#x}: 0x10 is expected",
                             std::to_integer<unsigned>(bytes[0])),
                 out);
  if (header->type != Type::control) return;  // Hello.
  if (bytes.size() < kHeadersBytes)
    return close(fmt::format("a message of {} bytes: the headers have 76", bytes.size()), out);
  const auto pdu = bytes.subspan<kHeaderBytes, iscsi::kHeaderBytes>();
  const auto request = iscsi::decode_request(pdu);
  if (!request) return on_bad_header(request.error(), pdu, out);
  const ByteSpan rest = bytes.subspan(kHeadersBytes);
  const std::size_t declared = std::size_t{request->more_bytes} + request->data_bytes;
  if (declared > rest.size())
    return close(fmt::format("a message announces {} bytes of data and has {}: if it is libiscsi "
                             "1.19, it needs ImmediateData=No",
                             declared, rest.size()),
                 out);
  iscsi::RemoteBuffers buffers;
  if (header->read)
    buffers.reads = {header->read->base, request->expected_bytes(), MemoryKey{header->read->stag}};
  if (header->write)
    buffers.writes = {header->write->base, request->expected_bytes(),
                      MemoryKey{header->write->stag}};
  on_message_header(*request, rest.subspan(request->more_bytes, request->data_bytes), buffers, now,
                    out);
}

void Connection::send(const iscsi::ResponseHeader& header, ByteSpan data, const Command* ends,
                      Tag done, Output& out) {
  Send message{.header = sessions().add_header(encode(Header{}), iscsi::encode(header), data),
               .done = done};
  if (ends != nullptr && may_invalidate_) {
    if (ends->buffers.reads.bytes > 0)
      message.invalidate = ends->buffers.reads.remote_key;
    else if (ends->buffers.writes.bytes > 0)
      message.invalidate = ends->buffers.writes.remote_key;
  }
  out.work.push(message);
}

void Connection::deliver(Command& command, std::span<const Slice> from, Output& out) {
  const RemoteRange& to = command.buffers.reads;
  const std::uint64_t bytes = ulp::bytes_of(from);
  if (bytes > to.bytes)
    return close(fmt::format("{} bytes to read: the initiator's buffer has {}", bytes, to.bytes),
                 out);
  out.work.push(Write{from, {to.address, static_cast<std::uint32_t>(bytes), to.remote_key}});
}

/// The initiator's address is that of the first byte which does not come unasked.
void Connection::solicit(Command& command, Output& out) {
  const RemoteRange& from = command.buffers.writes;
  if (from.bytes == 0 || command.fetch_offset < command.unsolicited_bytes)
    return close(fmt::format("data from {} to {} has no buffer: {} bytes came unasked",
                             command.fetch_offset, command.fetch_end, command.unsolicited_have),
                 out);
  command.parts.clear();
  for (iscsi::SliceCursor cursor = command.into; !cursor.is_at_end();) {
    command.parts.push_back(cursor.next(command.fetch_end - command.fetch_offset));
    cursor.advance(command.parts.back().bytes);
  }
  const std::uint32_t skip = command.fetch_offset - command.unsolicited_bytes;
  out.work.push(
      Read{command.parts,
           {from.address + skip, command.fetch_end - command.fetch_offset, from.remote_key},
           tag_of(command)});
}

}  // namespace verbatim::ulp::iser
