#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ulp/engine/slice.h"
#include "ulp/rds/ports.h"

namespace verbatim::ulp::rds {

/// How an operation has ended, as programs are told: RDS_RDMA_* of linux/rds.h.
enum class OperationStatus : std::int32_t {
  success = 0,
  remote_error = 1,  // The peer's adapter has refused it. The queue pair is cut.
  cancelled = 2,
  dropped = 3,  // The queue pair was cut: nobody knows how far it came.
  other_error = 4,
};

/// A READ, a WRITE or an atomic operation in the peer's memory, before a message.
struct Operation {
  enum class Kind : std::uint8_t { write, read, fetch_and_add, compare_and_swap };
  enum class State : std::uint8_t { waiting, posted, over };

  Kind kind{};
  RemoteRange remote{};
  std::vector<Slice> local{};  // Of the broker's fragments.
  std::uint64_t value = 0;     // What is added, or swapped in
  std::uint64_t compare = 0;   // if this is there.
  bool is_fenced = false;      // The message waits for it.
  bool tells_success = false;
  bool tells_errors = false;
  std::uint64_t token = 0;   // The program's, for `Outside::notify`.
  std::uint64_t number = 0;  // The process's: 0 if nothing of it waits for the bytes.

  // The connection's.
  State state = State::waiting;
  std::uint64_t work = 0;  // The number of its work.
};

inline bool moves_bytes(const Operation& one) {
  return one.kind == Operation::Kind::write || one.kind == Operation::Kind::read;
}
/// It may have happened, or not.
inline bool is_out(const Operation& one) { return one.state == Operation::State::posted; }

/// An operation that is over. The caller gives its fragments back to the pool.
struct EndedOperation {
  SocketId socket{};
  Operation operation;
  OperationStatus status{};
};

/// An atomic operation to be posted.
struct Atomic {
  bool compares = false;
  std::uint64_t value = 0, compare = 0;
  Slice into{};
  RemoteRange remote{};
  std::uint32_t done = 0;  // A tag.
};

}  // namespace verbatim::ulp::rds
