#include "ulp/rds/driver/transfers.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"

namespace verbatim::ulp::rds {
namespace {

using Kind = Operation::Kind;

/// Fragments' and a program's bytes, as the kernel copies them.
struct Sides {
  std::vector<iovec> here, there;
};

Sides sides_of(std::span<const Slice> slices, std::span<const local::Piece> pieces) {
  Sides sides;
  for (const Slice& slice : slices) sides.here.push_back({slice.data, slice.bytes});
  for (const local::Piece& piece : pieces)
    sides.there.push_back({reinterpret_cast<void*>(piece.address), piece.bytes});  // NOLINT
  return sides;
}

bool has_ended(int life) {
  pollfd one{life, POLLIN, 0};
  return poll(&one, 1, 0) > 0;
}

template <typename Value>
bool take(ByteSpan& bytes, Value* to, std::size_t count) {
  const std::size_t length = count * sizeof(Value);
  if (bytes.size() < length) return false;
  if (length > 0) std::memcpy(to, bytes.data(), length);
  bytes = bytes.subspan(length);
  return true;
}

/// Checks what needs no copy. EINVAL, EMSGSIZE
Result<void> check(const local::OperationRecord& record, std::span<const local::Piece> pieces) {
  if (record.kind > static_cast<std::uint32_t>(Kind::compare_and_swap))
    return refuse(EINVAL, "no such operation");
  const bool is_atomic = record.kind >= static_cast<std::uint32_t>(Kind::fetch_and_add);
  std::uint64_t bytes = 0;
  for (const local::Piece& piece : pieces) {
    if (piece.bytes > kMessageBytesMax) return refuse(EMSGSIZE, "an operation of more than 1 MiB");
    bytes += piece.bytes;
  }
  if (bytes > kMessageBytesMax) return refuse(EMSGSIZE, "an operation of more than 1 MiB");
  if (bytes != record.bytes || bytes == 0)
    return refuse(EINVAL, fmt::format("{} bytes here, {} of the peer", bytes, record.bytes));
  if (is_atomic && (bytes != 8 || pieces.size() != 1))
    return refuse(EINVAL, "an atomic operation of other than 8 bytes");
  return {};
}

}  // namespace

Result<std::vector<Operation>> Transfers::begin(int process, ByteSpan bytes) {
  local::Transmission head;
  std::array<local::OperationRecord, local::kOperationsMax> records;
  if (!take(bytes, &head, 1) || head.operations > records.size() ||
      !take(bytes, records.data(), head.operations) ||
      bytes.size() != head.pieces * sizeof(local::Piece))
    return refuse(EINVAL, "a transmission of a wrong length");
  std::vector<local::Piece> pieces(head.pieces);
  take(bytes, pieces.data(), pieces.size());
  std::vector<Operation> operations;
  for (std::size_t at = 0; const auto& record : std::span(records).first(head.operations)) {
    const bool fits =
        record.pieces <= local::kLocalPiecesMax && record.pieces <= pieces.size() - at;
    auto begun = fits ? begin_one(process, record, std::span(pieces).subspan(at, record.pieces))
                      : Result<Operation>(refuse(EINVAL, "pieces are missing"));
    if (!begun) {
      drop(operations);
      return std::unexpected(begun.error());
    }
    at += record.pieces;
    operations.push_back(std::move(*begun));
  }
  return operations;
}

Result<Operation> Transfers::begin_one(int process, const local::OperationRecord& record,
                                       std::span<const local::Piece> pieces) {
  if (auto checked = check(record, pieces); !checked) return std::unexpected(checked.error());
  const auto bytes = static_cast<std::uint32_t>(record.bytes);
  Operation operation{
      .kind = static_cast<Kind>(record.kind),
      .remote = {record.address, bytes, MemoryKey{record.key}},
      .local = std::vector<Slice>(fragments_of(bytes)),
      .value = record.value,
      .compare = record.compare,
      .is_fenced = (record.flags & local::kFenced) != 0,
      .tells_success = (record.flags & local::kTellsSuccess) != 0,
      .token = record.token,
  };
  if (!pool_.take(operation.local)) return refuse(ENOBUFS, "no fragments");
  for (std::uint32_t left = bytes; Slice & slice : operation.local) {
    slice.bytes = std::min(left, kFragmentBytes);
    left -= slice.bytes;
  }
  const auto fail = [&](int error, const char* what) {
    pool_.give_back(operation.local);
    return refuse(error, fmt::format("{} process {}: {}", what, process, std::strerror(error)));
  };
  if (operation.kind == Kind::write) {
    const Sides sides = sides_of(operation.local, pieces);
    const ssize_t copied = process_vm_readv(process, sides.here.data(), sides.here.size(),
                                            sides.there.data(), sides.there.size(), 0);
    if (copied < 0) return fail(errno, "process_vm_readv of");
    if (copied != static_cast<ssize_t>(bytes)) return fail(EFAULT, "process_vm_readv of");
    return operation;
  }
  UniqueFd life(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  if (!life) return fail(errno, "pidfd_open of");
  operation.number = ++last_;
  targets_[last_] = {process, std::move(life), {pieces.begin(), pieces.end()}};
  return operation;
}

void Transfers::end(const Operation& operation, OperationStatus status) {
  const auto found = targets_.extract(operation.number);
  if (found.empty() || status != OperationStatus::success) return;
  const Target& target = found.mapped();
  if (has_ended(target.life.get())) return;
  const Sides sides = sides_of(operation.local, target.pieces);
  const ssize_t copied = process_vm_writev(target.process, sides.here.data(), sides.here.size(),
                                           sides.there.data(), sides.there.size(), 0);
  if (copied != static_cast<ssize_t>(operation.remote.bytes))
    log(LogLevel::warn, "process {} has lost the memory of a READ", target.process);
}

void Transfers::drop(std::span<const Operation> operations) {
  for (const Operation& one : operations) {
    targets_.erase(one.number);
    pool_.give_back(one.local);
  }
}

}  // namespace verbatim::ulp::rds
