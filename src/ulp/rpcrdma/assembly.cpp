#include "ulp/rpcrdma/assembly.h"

#include <algorithm>
#include <array>

#include "ulp/rpcrdma/wire/rpc.h"

namespace verbatim::ulp::rpcrdma {
namespace {

constexpr std::array<std::byte, 3> kPadding{};

}  // namespace

std::optional<CallParts> parts_of(const Header& header, std::uint32_t inline_bytes) {
  CallParts parts{.is_long = header.procedure == Procedure::nomsg,
                  .message_bytes = inline_bytes,
                  .inserts = {}};
  if (parts.is_long) parts.message_bytes = 0;
  std::uint64_t offset = 0;
  for (const auto& [position, range] : header.reads) {
    if (parts.is_long && position == 0) {
      if (!parts.inserts.empty()) return std::nullopt;
      parts.message_bytes += range.bytes;
    } else if (!parts.inserts.empty() && parts.inserts.back().position == position) {
      parts.inserts[parts.inserts.size() - 1].bytes += range.bytes;
    } else {
      if (position == 0 || position % 4 != 0 || parts.inserts.full()) return std::nullopt;
      parts.inserts.push({position, static_cast<std::uint32_t>(offset), range.bytes});
    }
    offset += range.bytes;
    if (offset + inline_bytes > kMessageMax - 4 * kInsertsMax) return std::nullopt;
  }
  // Each insert stands behind the one before, and within the message.
  std::uint64_t before = 0, whole = parts.message_bytes;
  for (const Insert& one : parts.inserts) {
    if (one.position < before || one.position > whole) return std::nullopt;
    before = std::uint64_t{one.position} + padded(one.bytes);
    whole += padded(one.bytes);
  }
  return parts.message_bytes == 0 ? std::nullopt : std::optional(parts);
}

std::span<const Slice> add_cut(Cuts& cuts, std::span<const Slice> from, std::uint32_t offset,
                               std::uint32_t bytes) {
  const std::size_t first = cuts.size();
  cut(from, offset, bytes, [&](const Slice& part) { cuts.push(part); });
  return {cuts.begin() + first, cuts.size() - first};
}

std::uint32_t bytes_of(const RecordParts& parts) {
  auto bytes = static_cast<std::uint32_t>(ulp::bytes_of(parts.message));
  for (const Insert& one : parts.inserts) bytes += padded(one.bytes);
  return bytes;
}

bool push_record(const RecordParts& parts, Cuts& cuts, std::span<std::byte, 4> mark, Tag tag,
                 WorkList& out) {
  std::ranges::copy(record_mark(bytes_of(parts)), mark.begin());
  out.push(Send{.header = mark});
  const std::size_t cuts_before = cuts.size();
  std::uint32_t taken = 0, position = 0;
  const auto push_message = [&](std::uint32_t bytes) {
    if (bytes == 0) return;
    if (parts.is_in_receive) {
      out.push(Send{.header = {parts.message[0].data + taken, bytes}});
    } else {
      out.push(Send{.payload = add_cut(cuts, parts.message, taken, bytes)});
    }
    taken += bytes;
    position += bytes;
  };
  for (const Insert& one : parts.inserts) {
    push_message(one.position - position);
    if (one.bytes > 0) out.push(Send{.payload = add_cut(cuts, parts.data, one.offset, one.bytes)});
    if (const std::uint32_t padding = padded(one.bytes) - one.bytes; padding > 0)
      out.push(Send{.header = ByteSpan(kPadding).first(padding)});
    position += padded(one.bytes);
  }
  push_message(static_cast<std::uint32_t>(ulp::bytes_of(parts.message)) - taken);
  if (cuts.size() == cuts_before) return false;
  std::get<Send>(out[out.size() - 1]).done = tag;
  return true;
}

}  // namespace verbatim::ulp::rpcrdma
