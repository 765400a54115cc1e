#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "ulp/rpcrdma/pieces.h"

namespace verbatim::ulp::rpcrdma {

/// Puts the records of a TCP connection together (RFC 5531, section 11), in lent memory.
class RecordStream {
 public:
  explicit RecordStream(PiecePool& pool) : pool_(pool) {}
  ~RecordStream() { pool_.give_back(lent_); }
  RecordStream(const RecordStream&) = delete;
  RecordStream& operator=(const RecordStream&) = delete;

  enum class Step : std::uint8_t {
    more,      // All of `bytes` is used up.
    record,    // `take` has one; there may be more bytes.
    waits,     // For memory: the rest is to be given again.
    too_long,  // `announced` bytes; the connection must end.
  };
  /// Takes bytes off the front of `bytes`.
  Step on_bytes(ByteSpan& bytes);
  /// Where the next bytes go, if a record has begun: they may be put there instead.
  std::span<const Slice> place();
  /// The first `bytes` of `place` are filled: `more` or `record`.
  Step on_placed(std::uint32_t bytes);
  /// The record that comes, at its full length, of which `filled` bytes are there. Empty: there is
  /// none, or its end is not yet known.
  std::span<const Slice> coming() const {
    return is_last_ ? lent_.span() : std::span<const Slice>();
  }
  std::uint32_t filled() const { return filled_; }
  /// The record that is whole; its pieces are the caller's.
  Lent take();
  std::uint32_t announced() const { return announced_; }

 private:
  Step begin_fragment();
  bool grow();
  Step add(std::uint32_t bytes);

  PiecePool& pool_;
  std::byte mark_[4] = {};
  std::uint32_t mark_bytes_ = 0;
  std::uint32_t fragment_left_ = 0;
  bool is_last_ = false;
  std::uint32_t announced_ = 0;  // Of the record, with the fragments so far.
  std::uint32_t filled_ = 0;
  Lent lent_;
  InplaceVector<Slice, kPiecesMax> place_;
};

}  // namespace verbatim::ulp::rpcrdma
