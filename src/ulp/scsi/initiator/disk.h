#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "ulp/scsi/initiator/disk_command.h"
#include "ulp/scsi/initiator/port_access.h"
#include "ulp/scsi/sense.h"
#include "ulp/storage/initiator.h"

/// A logical unit as an initiator sees it, for iSER and SRP: what to ask it at first, and a disk's
/// requests as commands.
namespace verbatim::ulp::scsi {

/// READ, WRITE, SYNCHRONIZE CACHE and WRITE SAME, all of 16 bytes.
DiskCommand command_of(const storage::DiskRequest& request, const storage::DiskFacts& facts);

/// What a response says of its request: 0, or an errno value, with EAGAIN as in `DiskAnswer`.
/// `sense`: in either of its two forms; empty: there is none.
int error_of(Status status, ByteSpan sense);
/// "status 0x02, sense 3/1100", for refusals.
std::string words_of(Status status, ByteSpan sense);

/// Asks a unit what it is, one command after the other; or only, which units the target has.
class DiskProbe {
 public:
  DiskProbe() = default;
  static DiskProbe of_units() {
    DiskProbe probe;
    probe.step_ = Step::units;
    return probe;
  }

  /// The command that is next, and stays so until `on_answer`. None: it is over.
  std::optional<DiskCommand> command() const;
  /// Its end, with the bytes that have come.
  void on_answer(Status status, ByteSpan sense, ByteSpan data);
  /// From the probe's end on the session's: the first report has come.
  PortAccess& access() { return access_; }
  const PortAccess& access() const { return access_; }

  /// Null until it is over. `requests_max` is not the unit's, but the session's.
  const storage::DiskFacts* facts() const { return step_ == Step::done ? &facts_ : nullptr; }
  /// Null: it has not failed.
  const storage::Failure* failure() const { return failure_ ? &*failure_ : nullptr; }

 private:
  enum class Step : std::uint8_t {
    ready,
    identity,
    capacity,
    limits,
    provisioning,
    mode,
    designators,
    access,
    done,
    units,
  };
  static constexpr int kTries = 20;  // A unit tells one unit attention a command.

  void take(ByteSpan data);
  void take_identity(ByteSpan data);
  void take_capacity(ByteSpan data);
  void take_limits(ByteSpan data);
  void take_units(ByteSpan data);
  void take_designators(ByteSpan data);
  void fail(std::string words, bool is_final) { failure_ = {std::move(words), is_final}; }

  Step step_ = Step::ready;
  int tries_ = 0;
  PortAccess access_;
  storage::DiskFacts facts_;
  std::optional<storage::Failure> failure_;
};

}  // namespace verbatim::ulp::scsi
