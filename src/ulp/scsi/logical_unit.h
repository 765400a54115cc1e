#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/inplace_vector.h"
#include "ulp/scsi/alua/port_groups.h"
#include "ulp/scsi/cdb.h"
#include "ulp/scsi/plan.h"
#include "ulp/scsi/reservations/reservations.h"
#include "ulp/storage/session.h"

/// SCSI as SRP and iSER need it: what a command means for a unit (SPC-4, SBC-3). No transport, no
/// I/O: a `TaskSet` carries out the plans.
namespace verbatim::ulp::scsi {

class DataWriter;

/// A unit as initiators see it. Keeps what outlives their sessions and concerns several of them:
/// unit attentions, reservations, locks of COMPARE AND WRITE, which tasks a reset has ended.
class LogicalUnit final : private ReservedUnit, private GroupedUnit {
 public:
  /// Parameters and data that are no blocks: as much memory as a command may need for them.
  static constexpr std::uint32_t kMemoryBytes = 8192;

  /// `reservations`, `groups`: those of the disk, if other units show it, too. Without groups, the
  /// settings' ports are one.
  LogicalUnit(storage::UnitId unit, Identity identity, UnitSettings settings,
              std::shared_ptr<Reservations> reservations = std::make_shared<Reservations>(),
              std::shared_ptr<PortGroups> groups = nullptr);
  ~LogicalUnit();
  LogicalUnit(const LogicalUnit&) = delete;
  LogicalUnit& operator=(const LogicalUnit&) = delete;

  storage::UnitId id() const { return unit_; }
  const Identity& identity() const { return identity_; }
  const UnitSettings& settings() const { return settings_; }
  Reservations& reservations() { return *reservations_; }
  Reservations::Nexus nexus_of(NexusId nexus) { return {this, nexus}; }
  /// Whether another initiator's reservation forbids the command.
  bool is_reserved(NexusId nexus, Operation operation) {
    return reservations_->conflicts(nexus_of(nexus), operation);
  }
  SenseFormat sense_format() const;

  /// Whether a command needs memory for `plan`'s `reply`, or for its parameters.
  static bool needs_memory(ByteSpan cdb);
  /// `reply`: `kMemoryBytes` for the answer's data, if the command needs memory.
  Plan plan(const Command& command, MutableByteSpan reply);
  Plan with_parameters(const Command& command, ByteSpan parameters);
  /// What is said of a plan that the store has carried out, or not.
  static Answer outcome(const Step& step, storage::StoreStatus status);

  void on_login(NexusId nexus, const InitiatorPort& port);
  void on_gone(NexusId nexus);
  Attentions& attentions() { return attentions_; }
  void set_blocks(std::uint64_t blocks);

  /// COMPARE AND WRITE: false if another one has blocks of the range.
  bool is_locked(const ByteRange& range) const;
  bool lock(const ByteRange& range);
  void unlock(const ByteRange& range);

  // Tasks of all initiators. A reset ends those that have begun before, each at its next step;
  // PREEMPT AND ABORT those of one initiator.
  struct Begun {
    std::uint32_t unit = 0, nexus = 0;  // After so many resets, of the unit and of the initiator.
  };
  Begun on_begin(NexusId nexus) { return ++running_, Begun{resets_, aborts_of(nexus)}; }
  void on_end(const Begun& begun) { --(begun.unit == resets_ ? running_ : condemned_); }
  bool is_condemned(NexusId nexus, const Begun& begun) const {
    return begun.unit != resets_ || begun.nexus != aborts_of(nexus);
  }
  void abort_tasks(NexusId of) override;
  /// LOGICAL UNIT RESET, CLEAR TASK SET. It is complete when no condemned task is left.
  void reset(NexusId by);
  void clear_tasks(NexusId by);
  std::uint32_t condemned() const { return condemned_; }

 private:
  void tell(NexusId nexus, Attention what) override { attentions_.tell(nexus, what); }
  void on_access_changed(std::optional<NexusId> but) override;
  Plan plan_of(const Cdb& cdb, const Command& command, MutableByteSpan reply);
  Plan plan_data(const Cdb& cdb, const Command& command, MutableByteSpan reply);
  std::optional<Sense> write_data(const Cdb& cdb, const Command& command, DataWriter& out);
  Plan plan_blocks(const Cdb& cdb, const Command& command);
  Plan plan_write_same(const Cdb& cdb, const Command& command);
  Plan plan_compare_and_write(const Cdb& cdb, const Command& command);
  Plan plan_parameters(const Cdb& cdb, const Command& command);
  Step plan_copy(const Command& command, ByteSpan parameters);  // copy/extended_copy.cpp
  static void write_copy_limits(DataWriter& out);
  Step unmap(const Cdb& cdb, ByteSpan parameters) const;
  std::optional<Sense> refused_range(const Cdb& cdb, std::uint32_t blocks_max) const;
  std::optional<Sense> refused_flags(const Cdb& cdb) const;
  ByteRange range_of(const Cdb& cdb) const;
  std::uint32_t aborts_of(NexusId nexus) const {
    const auto index = static_cast<std::size_t>(nexus);
    return index < aborts_.size() ? aborts_[index] : 0;
  }
  void condemn_all();

  const storage::UnitId unit_;
  const Identity identity_;
  UnitSettings settings_;
  const std::shared_ptr<Reservations> reservations_;
  const std::shared_ptr<PortGroups> groups_;
  Attentions attentions_;
  InplaceVector<ByteRange, 8> locked_;
  std::uint32_t resets_ = 0, running_ = 0, condemned_ = 0;
  std::vector<std::uint32_t> aborts_;  // By initiator; none: 0.
};

/// For a number that no unit has: INQUIRY, REPORT LUNS and REQUEST SENSE are answered
/// (SAM-5, 5.11).
Plan plan_without_unit(const Command& command, MutableByteSpan reply);

}  // namespace verbatim::ulp::scsi
