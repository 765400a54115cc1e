#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "ulp/rds/driver/fragment_pool.h"
#include "ulp/rds/local/protocol.h"
#include "ulp/rds/operation.h"

namespace verbatim::ulp::rds {

/// A program's memory in operations: copied into fragments before a WRITE, and out of them after a
/// READ (process_vm_readv(2), writev). The kernel says which process has asked, and it names memory
/// of its own alone.
class Transfers {
 public:
  explicit Transfers(FragmentPool& pool) : pool_(pool) {}

  /// `bytes`: a `Transmission`, its operations and pieces. EINVAL, EMSGSIZE, EFAULT, ENOBUFS, EPERM
  /// (the kernel does not let this process copy).
  Result<std::vector<Operation>> begin(int process, ByteSpan bytes);
  /// Copies what a READ has brought, if it has succeeded.
  void end(const Operation& operation, OperationStatus status);
  void forget(std::uint64_t number) { targets_.erase(number); }
  /// None of them was sent.
  void drop(std::span<const Operation> operations);

 private:
  struct Target {
    int process = 0;
    UniqueFd life;  // pidfd: another process may get the number.
    std::vector<local::Piece> pieces{};
  };
  Result<Operation> begin_one(int process, const local::OperationRecord& record,
                              std::span<const local::Piece> pieces);

  FragmentPool& pool_;
  std::uint64_t last_ = 0;
  std::unordered_map<std::uint64_t, Target> targets_;  // Of READs and atomic operations.
};

}  // namespace verbatim::ulp::rds
