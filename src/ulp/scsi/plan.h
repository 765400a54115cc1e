#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "base/bytes.h"
#include "ulp/scsi/sense.h"
#include "ulp/scsi/unit_attention.h"
#include "ulp/scsi/unit_settings.h"
#include "ulp/storage/session.h"

/// What a command needs: values between the unit, which knows what commands mean, and the task set,
/// which moves data. Offsets and lengths are in bytes of the unit.
namespace verbatim::ulp::scsi {

class LogicalUnit;

/// The units that an initiator sees.
class Units {
 public:
  virtual LogicalUnit* find(Lun lun) = 0;
  virtual std::span<const Lun> luns() const = 0;

 protected:
  ~Units() = default;
};

struct Command {
  NexusId nexus{};
  const Port* port = nullptr;
  ByteSpan cdb{};
  std::span<const Lun> luns{};       // That this initiator sees.
  Units* units = nullptr;            // Likewise; null: the unit alone.
  std::uint32_t data_out_bytes = 0;  // That the initiator has described.
  std::uint32_t data_in_bytes = 0;
};

/// It is over. `data` goes to the initiator.
struct Answer {
  Status status = Status::good;
  std::optional<Sense> sense{};
  ByteSpan data{};
};
struct ReadBlocks {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
};
/// `verify_after`: the blocks are read again when they are stable.
struct WriteBlocks {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  bool to_stable = false, verify_after = false;
};
/// `compares`: with data of the initiator; else the blocks are only read.
struct VerifyBlocks {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  bool compares = false;
};
struct SyncBlocks {};

struct ByteRange {
  std::uint64_t offset = 0, bytes = 0;
  bool overlaps(const ByteRange& other) const {
    return offset < other.offset + other.bytes && other.offset < offset + bytes;
  }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};
/// An UNMAP's checked parameters; or one range of a WRITE SAME without data.
class Ranges {
 public:
  Ranges() = default;
  explicit Ranges(const ByteRange& one) : one_(one), count_(1) {}
  /// Descriptors of 16 bytes: block address 8, blocks 4, reserved 4 (SBC-3, 5.28). They stay where
  /// they are until the command ends.
  Ranges(ByteSpan descriptors, std::uint32_t block_bytes)
      : descriptors_(descriptors), block_bytes_(block_bytes), count_(descriptors.size() / 16) {}

  std::size_t size() const { return count_; }
  ByteRange operator[](std::size_t i) const {
    if (descriptors_.empty()) return one_;
    const std::byte* const at = descriptors_.data() + 16 * i;
    return {load_be<std::uint64_t>(at) * block_bytes_,
            std::uint64_t{load_be<std::uint32_t>(at + 8)} * block_bytes_};
  }

 private:
  ByteRange one_;
  ByteSpan descriptors_;
  std::uint32_t block_bytes_ = 0;
  std::size_t count_ = 0;
};
struct ClearBlocks {
  Ranges ranges;
  bool may_deallocate = false;
};
/// One block of the initiator's, as often as it fits. Zeroes may be deallocated.
struct RepeatBlock {
  ByteRange range;
  std::uint32_t block_bytes = 0;
  bool may_deallocate = false;
};
/// The first half of the data is compared, and if it is equal the second half is written. The unit
/// locks the range meanwhile. `bytes`: of one half.
struct CompareAndWrite {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  bool to_stable = false;
};
/// EXTENDED COPY: between units, or within one.
struct CopyBlocks {
  storage::UnitId from{}, to{};
  std::uint64_t from_offset = 0, to_offset = 0, bytes = 0;
};
/// Read these bytes from the initiator and call `with_parameters`.
struct NeedsParameters {
  std::uint32_t bytes = 0;
};

using Step = std::variant<Answer, ReadBlocks, WriteBlocks, VerifyBlocks, SyncBlocks, ClearBlocks,
                          RepeatBlock, CompareAndWrite, CopyBlocks, NeedsParameters>;

/// By how many bytes a command's own length exceeds what the initiator has described (overflow), or
/// falls short of it (underflow, negative).
struct Residual {
  std::int64_t out = 0, in = 0;
  friend bool operator==(const Residual&, const Residual&) = default;
};

struct Plan {
  Step step;
  Residual residual{};
};

inline Answer refusal(const Sense& sense) { return {Status::check_condition, sense, {}}; }
/// Nothing has been moved; how much that leaves is not told.
inline Plan refused(const Sense& sense) { return {refusal(sense), {}}; }

}  // namespace verbatim::ulp::scsi
