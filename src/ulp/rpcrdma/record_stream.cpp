#include "ulp/rpcrdma/record_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ulp/rpcrdma/wire/rpc.h"

namespace verbatim::ulp::rpcrdma {

/// A record of several fragments, which is rare, moves to memory that holds one more.
bool RecordStream::grow() {
  if (announced_ <= lent_.bytes()) return true;
  Lent larger;
  if (!pool_.take(announced_, larger)) return false;
  std::uint32_t at = 0;
  for (const Slice& slice : lent_.slices) {
    std::uint32_t done = 0;
    cut(larger.span(), at, slice.bytes, [&](const Slice& part) {
      std::memcpy(part.data, slice.data + done, part.bytes);
      done += part.bytes;
    });
    at += slice.bytes;
  }
  pool_.give_back(lent_);
  lent_ = larger;
  return true;
}

RecordStream::Step RecordStream::begin_fragment() {
  const auto mark = load_be<std::uint32_t>(mark_);
  const std::uint32_t bytes = mark & ~kLastFragment;
  if (bytes > kMessageMax - filled_) return announced_ = bytes, Step::too_long;
  announced_ = filled_ + bytes;
  if (!grow()) return Step::waits;
  fragment_left_ = bytes;
  is_last_ = (mark & kLastFragment) != 0;
  mark_bytes_ = 0;
  return Step::more;
}

RecordStream::Step RecordStream::on_bytes(ByteSpan& bytes) {
  for (;;) {
    if (fragment_left_ == 0) {
      const auto part = std::min<std::size_t>(sizeof mark_ - mark_bytes_, bytes.size());
      std::copy_n(bytes.begin(), part, mark_ + mark_bytes_);
      mark_bytes_ += static_cast<std::uint32_t>(part);
      bytes = bytes.subspan(part);
      if (mark_bytes_ < sizeof mark_) return Step::more;
      if (const Step step = begin_fragment(); step != Step::more) return step;
    }
    const auto part =
        static_cast<std::uint32_t>(std::min<std::size_t>(fragment_left_, bytes.size()));
    cut(lent_.span(), filled_, part, [&](const Slice& to) {
      std::memcpy(to.data, bytes.data(), to.bytes);
      bytes = bytes.subspan(to.bytes);
    });
    if (add(part) == Step::record) return Step::record;
    if (fragment_left_ > 0) return Step::more;
  }
}

RecordStream::Step RecordStream::add(std::uint32_t bytes) {
  filled_ += bytes;
  fragment_left_ -= bytes;
  if (fragment_left_ > 0) return Step::more;
  return std::exchange(is_last_, false) ? Step::record : Step::more;
}

std::span<const Slice> RecordStream::place() {
  place_.clear();
  cut(lent_.span(), filled_, fragment_left_, [&](const Slice& part) { place_.push(part); });
  return {place_.begin(), place_.size()};
}

RecordStream::Step RecordStream::on_placed(std::uint32_t bytes) { return add(bytes); }

Lent RecordStream::take() {
  announced_ = filled_ = 0;
  return std::exchange(lent_, {});
}

}  // namespace verbatim::ulp::rpcrdma
