#pragma once

#include <cstdint>

#include "base/inplace_vector.h"
#include "ulp/scsi/cdb.h"
#include "ulp/scsi/plan.h"
#include "ulp/storage/session.h"

/// SCSI as SRP and iSER need it: what a command means for a unit (SPC-4, SBC-3). No transport, no
/// I/O: a `TaskSet` carries out the plans.
namespace verbatim::ulp::scsi {

class DataWriter;

/// A unit as initiators see it. Keeps what outlives their sessions and concerns several of them:
/// unit attentions, locks of COMPARE AND WRITE, which tasks a reset has ended. There are no
/// reservations yet: PERSISTENT RESERVE and RESERVE are unknown commands.
class LogicalUnit {
 public:
  /// Parameters and data that are no blocks: as much memory as a command may need for them.
  static constexpr std::uint32_t kMemoryBytes = 8192;

  LogicalUnit(storage::UnitId unit, Identity identity, UnitSettings settings);

  storage::UnitId id() const { return unit_; }
  const UnitSettings& settings() const { return settings_; }
  SenseFormat sense_format() const;

  /// Whether a command needs memory for `plan`'s `reply`, or for its parameters.
  static bool needs_memory(ByteSpan cdb);
  /// `reply`: `kMemoryBytes` for the answer's data, if the command needs memory.
  Plan plan(const Command& command, MutableByteSpan reply);
  Plan with_parameters(const Command& command, ByteSpan parameters);
  /// What is said of a plan that the store has carried out, or not.
  static Answer outcome(const Step& step, storage::StoreStatus status);

  void on_login(NexusId nexus) { attentions_.on_login(nexus); }
  void on_gone(NexusId nexus) { attentions_.on_gone(nexus); }
  Attentions& attentions() { return attentions_; }
  void set_blocks(std::uint64_t blocks);

  /// COMPARE AND WRITE: false if another one has blocks of the range.
  bool lock(const ByteRange& range);
  void unlock(const ByteRange& range);

  // Tasks of all initiators. A reset ends those that have begun before, each at its next step.
  using Generation = std::uint32_t;
  Generation on_begin() { return ++running_, generation_; }
  void on_end(Generation begun_in) { --(begun_in == generation_ ? running_ : condemned_); }
  bool is_condemned(Generation begun_in) const { return begun_in != generation_; }
  /// LOGICAL UNIT RESET, CLEAR TASK SET. It is complete when no condemned task is left.
  void reset(NexusId by);
  void clear_tasks(NexusId by);
  std::uint32_t condemned() const { return condemned_; }

 private:
  Plan plan_of(const Cdb& cdb, const Command& command, MutableByteSpan reply);
  Plan plan_data(const Cdb& cdb, const Command& command, MutableByteSpan reply);
  std::optional<Sense> write_data(const Cdb& cdb, const Command& command, DataWriter& out);
  Plan plan_blocks(const Cdb& cdb, const Command& command);
  Plan plan_write_same(const Cdb& cdb, const Command& command);
  Plan plan_compare_and_write(const Cdb& cdb, const Command& command);
  Plan plan_parameters(const Cdb& cdb, const Command& command);
  Step unmap(const Cdb& cdb, ByteSpan parameters) const;
  std::optional<Sense> refused_range(const Cdb& cdb, std::uint32_t blocks_max) const;
  std::optional<Sense> refused_flags(const Cdb& cdb) const;
  ByteRange range_of(const Cdb& cdb) const;
  bool is_locked(const ByteRange& range) const;
  void condemn_all();

  const storage::UnitId unit_;
  const Identity identity_;
  UnitSettings settings_;
  Attentions attentions_;
  InplaceVector<ByteRange, 8> locked_;
  Generation generation_ = 0;
  std::uint32_t running_ = 0, condemned_ = 0;
};

/// For a number that no unit has: INQUIRY, REPORT LUNS and REQUEST SENSE are answered
/// (SAM-5, 5.11).
Plan plan_without_unit(const Command& command, MutableByteSpan reply);

}  // namespace verbatim::ulp::scsi
