#include "ulp/rpcrdma/wire/header.h"

namespace verbatim::ulp::rpcrdma {
namespace {

constexpr std::size_t kSegmentBytes = 16;

/// Words, until there are none left.
class Words {
 public:
  explicit Words(ByteSpan bytes) : bytes_(bytes) {}
  std::size_t position() const { return position_; }
  bool is_ok() const { return is_ok_; }
  std::uint32_t next() {
    if (bytes_.size() - position_ < 4) return is_ok_ = false, 0;
    position_ += 4;
    return load_be<std::uint32_t>(bytes_.data() + position_ - 4);
  }
  /// XDR's bool: what is neither 0 nor 1 is a fault.
  bool next_bool() {
    const std::uint32_t word = next();
    is_ok_ &= word <= 1;
    return is_ok_ && word == 1;
  }
  RemoteRange segment() {
    const auto handle = MemoryKey{next()};
    const std::uint32_t bytes = next();
    const std::uint64_t high = next();
    return {high << 32 | next(), bytes, handle};
  }

 private:
  ByteSpan bytes_;
  std::size_t position_ = 0;
  bool is_ok_ = true;
};

bool decode_chunk(Words& words, Segments& into, std::uint32_t& count) {
  count = words.next();
  if (!words.is_ok() || count > kSegmentsMax - into.size()) return false;
  for (std::uint32_t i = 0; i < count; ++i) into.push(words.segment());
  return words.is_ok();
}

bool decode_lists(Words& words, Header& header) {
  while (words.next_bool()) {
    if (header.reads.full()) return false;
    const std::uint32_t position = words.next();
    header.reads.push({position, words.segment()});
  }
  std::uint32_t count = 0;
  while (words.next_bool()) {
    if (header.write_sizes.full() || !decode_chunk(words, header.writes, count)) return false;
    header.write_sizes.push(count);
  }
  if (words.next_bool()) return decode_chunk(words, header.reply.emplace(), count);
  return words.is_ok();
}

class Writer {
 public:
  explicit Writer(MutableByteSpan out) : out_(out) {}
  std::size_t position() const { return position_; }
  void word(std::uint32_t value) {
    store_be(out_.subspan(position_, 4).data(), value);
    position_ += 4;
  }
  void segment(const RemoteRange& range) {
    word(raw(range.remote_key));
    word(range.bytes);
    word(static_cast<std::uint32_t>(range.address >> 32));
    word(static_cast<std::uint32_t>(range.address));
  }

 private:
  MutableByteSpan out_;
  std::size_t position_ = 0;
};

}  // namespace

std::expected<std::size_t, HeaderFault> decode(ByteSpan message, Header& header) {
  header.clear();
  if (message.size() < Header::kPrefixBytes) return std::unexpected(HeaderFault::too_short);
  Words words(message);
  header.xid = words.next();
  const std::uint32_t version = words.next();
  header.credits = words.next();
  header.procedure = Procedure{words.next()};
  if (version != Header::kVersion) return std::unexpected(HeaderFault::version);
  switch (header.procedure) {
    case Procedure::msg:
    case Procedure::nomsg:
      if (!decode_lists(words, header)) return std::unexpected(HeaderFault::chunk);
      return words.position();
    case Procedure::error:
      header.error = ErrorCode{words.next()};
      if (!words.is_ok()) return std::unexpected(HeaderFault::too_short);
      return message.size();
    case Procedure::done:
      return message.size();
    case Procedure::msgp:
      break;
  }
  return std::unexpected(HeaderFault::chunk);
}

std::size_t encoded_bytes(const Header& header) {
  if (header.procedure == Procedure::error)
    return Header::kPrefixBytes + (header.error == ErrorCode::version ? 12 : 4);
  std::size_t bytes = Header::kLeastBytes + header.reads.size() * (8 + kSegmentBytes);
  bytes += header.write_sizes.size() * 8 + header.writes.size() * kSegmentBytes;
  if (header.reply) bytes += 4 + header.reply->size() * kSegmentBytes;
  return bytes;
}

std::size_t encode(const Header& header, MutableByteSpan out) {
  Writer writer(out);
  for (const std::uint32_t word :
       {header.xid, Header::kVersion, header.credits, raw(header.procedure)})
    writer.word(word);
  if (header.procedure == Procedure::error) {
    writer.word(raw(header.error));
    if (header.error == ErrorCode::version) writer.word(1), writer.word(1);  // From, to.
    return writer.position();
  }
  for (const ReadSegment& read : header.reads) {
    writer.word(1);
    writer.word(read.position);
    writer.segment(read.range);
  }
  writer.word(0);
  std::size_t next = 0;
  for (const std::uint32_t count : header.write_sizes) {
    writer.word(1);
    writer.word(count);
    for (std::uint32_t i = 0; i < count; ++i) writer.segment(header.writes[next++]);
  }
  writer.word(0);
  writer.word(header.reply ? 1 : 0);
  if (header.reply) {
    writer.word(static_cast<std::uint32_t>(header.reply->size()));
    for (const RemoteRange& range : *header.reply) writer.segment(range);
  }
  return writer.position();
}

}  // namespace verbatim::ulp::rpcrdma
