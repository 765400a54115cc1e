#pragma once

#include <cstdint>

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
  /// The record that is whole; its pieces are the caller's.
  Lent take();
  std::uint32_t announced() const { return announced_; }

 private:
  Step begin_fragment();
  bool grow();

  PiecePool& pool_;
  std::byte mark_[4] = {};
  std::uint32_t mark_bytes_ = 0;
  std::uint32_t fragment_left_ = 0;
  bool is_last_ = false;
  std::uint32_t announced_ = 0;  // Of the record, with the fragments so far.
  std::uint32_t filled_ = 0;
  Lent lent_;
};

}  // namespace verbatim::ulp::rpcrdma
