#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/overloaded.h"
#include "ulp/srp/channel.h"

/// What the task set wants: data between pages and descriptors, responses.
namespace verbatim::ulp::srp {

using storage::Output;

void Channel::begin_move(Request& request, bool is_read, std::span<const Slice> slices,
                         std::uint32_t offset, Output& out) {
  const Buffer& buffer = is_read ? request.command.out : request.command.in;
  const std::uint64_t bytes = ulp::bytes_of(slices);
  if (offset + bytes > buffer.bytes)
    return close(fmt::format("{} bytes at {} to move: the initiator's buffer has {}", bytes, offset,
                             buffer.bytes),
                 out);
  move_ = {.request = requests_.tag_of(request),
           .is_read = is_read,
           .buffer = &buffer,
           .slices = slices,
           .left = bytes};
  for (; move_.range < buffer.count() && offset >= buffer[move_.range].bytes; ++move_.range)
    offset -= buffer[move_.range].bytes;
  move_.range_offset = offset;
  request.parts.clear();
  // They are pointed to: they must not be moved.
  if (buffer.count() > 1) request.parts.reserve(slices.size() + buffer.count());
}

/// The next bytes of the pages. Without a copy of the slices, if all of them are wanted.
std::span<const Slice> Channel::take_slices(std::uint32_t bytes, std::vector<Slice>& parts) {
  if (move_.slice_offset == 0 && bytes == move_.left) return std::exchange(move_.slices, {});
  const std::size_t begin = parts.size();
  while (bytes > 0) {
    const Slice& slice = move_.slices.front();
    const std::uint32_t part = std::min(bytes, slice.bytes - move_.slice_offset);
    if (part > 0) parts.push_back({slice.data + move_.slice_offset, part, slice.local_key});
    bytes -= part;
    move_.slice_offset += part;
    if (move_.slice_offset < slice.bytes) continue;
    move_.slices = move_.slices.subspan(1);
    move_.slice_offset = 0;
  }
  return std::span(parts).subspan(begin);
}

/// Returns false if `out` has no room for all of it.
bool Channel::continue_move(Output& out) {
  if (move_.left == 0) return true;
  Request* const request = requests_.find(move_.request);
  if (request == nullptr || is_over_) move_ = {};
  for (; move_.left > 0; ++move_.range, move_.range_offset = 0) {
    if (!out.has_room()) return false;
    const RemoteRange whole = (*move_.buffer)[move_.range];
    const auto bytes = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(whole.bytes - move_.range_offset, move_.left));
    if (bytes == 0) continue;
    const RemoteRange range{whole.address + move_.range_offset, bytes, whole.remote_key};
    const std::span<const Slice> slices = take_slices(bytes, request->parts);
    move_.left -= bytes;
    if (!move_.is_read) {
      out.work.push(Write{slices, range});
    } else {
      out.work.push(Read{slices, range, move_.left == 0 ? move_.request : kNoTag});
    }
  }
  return true;
}

void Channel::fetch(const scsi::Fetch& one, Output& out) {
  Request* const request = request_of(one.task);
  if (request == nullptr) return;
  if (request->command.out.format != Format::immediate && ulp::bytes_of(one.into) > 0) {
    request->is_fetching = true;
    return begin_move(*request, true, one.into, one.data_offset, out);
  }
  ByteSpan from = request->command.immediate;
  from = from.subspan(std::min<std::size_t>(from.size(), one.data_offset));
  const bool is_whole = from.size() >= ulp::bytes_of(one.into) && !setup_.session->is_replaced;
  for (const Slice& slice : one.into) {
    if (!is_whole || slice.bytes == 0) break;
    std::memcpy(slice.data, from.data(), slice.bytes);
    from = from.subspan(slice.bytes);
  }
  (is_whole ? fetched_ : failed_).push_back(one.task);
}

void Channel::deliver(const scsi::Deliver& one, Output& out) {
  if (Request* const request = request_of(one.task)) begin_move(*request, false, one.from, 0, out);
}

void Channel::respond(const scsi::Respond& one, Output& out) {
  Request* const request = requests_.find(Tag{static_cast<std::uint32_t>(one.request)});
  if (request == nullptr) return;
  request->task = one.task;
  request->is_answered = true;
  give_receive(*request, out);
  send_response({.tag = request->command.tag,
                 .status = raw(one.status),
                 .out_residual = one.residual.out,
                 .in_residual = one.residual.in,
                 .sense = one.sense},
                request->command.notification, requests_.tag_of(*request), out);
}

void Channel::act(const scsi::Action& action, Output& out) {
  std::visit(Overloaded{
                 [&](const scsi::Fetch& one) { fetch(one, out); },
                 [&](const scsi::Deliver& one) { deliver(one, out); },
                 [&](const scsi::Respond& one) { respond(one, out); },
                 // The READs are under way: their end says so.
                 [](const scsi::Cancel&) {},
                 [&](const scsi::Drop& one) {
                   const Tag tag{static_cast<std::uint32_t>(one.request)};
                   if (Request* const request = requests_.find(tag)) drop(*request, out);
                 },
                 [&](const scsi::Managed& one) { on_managed(one, out); },
             },
             action);
}

/// Carries out what the task set has put out, and tells it what has come of that. Returns false if
/// `out` has no room for all of it.
bool Channel::carry_out(Output& out) {
  scsi::TaskOutput& from = setup_.ports->task_output();
  for (;;) {
    if (!continue_move(out)) return false;
    for (; store_at_ < from.store.size(); ++store_at_) {
      if (!out.has_room()) return false;
      out.store.push(from.store[store_at_]);
    }
    while (action_at_ < from.actions.size()) {
      if (!out.has_room()) return false;
      act(from.actions[action_at_++], out);
      if (!continue_move(out)) return false;
    }
    const bool more = from.more;
    from.clear();
    store_at_ = action_at_ = 0;
    if (more) {
      tasks_.resume(from);
    } else if (!fetched_.empty()) {
      tasks_.on_fetched(fetched_.back(), true, from);
      fetched_.pop_back();
    } else if (!failed_.empty()) {
      tasks_.on_fetched(failed_.back(), false, from);
      failed_.pop_back();
    } else {
      return true;
    }
  }
}

void Channel::pump(Output& out) {
  for (;;) {
    if (!carry_out(out)) return static_cast<void>(out.more = true);
    if (is_over_) return;
    if (!start_waiting(out)) break;
  }
  if (!out.has_room()) return static_cast<void>(out.more = true);
  ask_for_credits(out);
}

}  // namespace verbatim::ulp::srp
