#pragma once

#include <cstdint>
#include <optional>

#include "ulp/scsi/initiator/disk_command.h"
#include "ulp/scsi/sense.h"
#include "ulp/storage/initiator.h"

namespace verbatim::ulp::scsi {

/// How well the target's port reaches the unit, as the target says (ALUA; SPC-4, 5.15.2): when the
/// session asks for the report, and what it means. A target without port groups is asked nothing.
class PortAccess {
 public:
  /// Sense codes of a port that carries out no reads and writes now (04h/0Ah, 0Bh, 0Ch, 12h).
  static bool is_refusal(std::uint16_t sense_code);

  /// Of INQUIRY's data, and of its page 83h.
  void take_identity(ByteSpan data);
  void take_group(std::uint16_t group) { group_ = group; }
  bool is_told() const { return has_groups_ && group_.has_value(); }

  storage::PathState state() const { return state_; }
  /// When the report is to be asked for; kNever: it is of no use. `is_busy`: commands are under
  /// way, whose ends tell of changes.
  TimeNs deadline(bool is_busy) const {
    return is_told() && !(is_calm_ && is_busy) ? due_ : kNever;
  }
  /// REPORT TARGET PORT GROUPS.
  static DiskCommand command();
  void on_asked(TimeNs now) { due_ = now + kLost, is_calm_ = false; }
  /// It cannot be sent now.
  void try_later(TimeNs now) { due_ = now + kAgain; }
  /// It has come, or the session begins.
  void put_off(TimeNs now) {
    is_calm_ = state_ == storage::PathState::optimized;
    due_ = now + (is_calm_ ? kCalm : kAgain);
  }
  void on_report(Status status, ByteSpan sense, ByteSpan data, TimeNs now);
  /// The end of any other command.
  void on_answer(ByteSpan sense, TimeNs now);

 private:
  static constexpr TimeNs kAgain = kSecond;      // As long as the path is not optimized.
  static constexpr TimeNs kCalm = 10 * kSecond;  // An idle session hears of no change.
  static constexpr TimeNs kLost = 60 * kSecond;  // A report that does not come.

  void ask_at_once(TimeNs now) { due_ = now, is_calm_ = false; }

  bool has_groups_ = false;
  std::optional<std::uint16_t> group_;
  storage::PathState state_ = storage::PathState::optimized;
  TimeNs due_ = kNever;
  bool is_calm_ = false;  // Nothing says that the state has changed.
};

}  // namespace verbatim::ulp::scsi
