#pragma once

#include <string>

#include "ulp/scsi/reservations/reservations.h"

namespace verbatim::ulp::target {

/// Reservations of a disk that outlive the target, because an initiator has asked so (APTPL): a
/// file that is replaced as a whole.
class KeptReservations final : public scsi::Reservations::Keeper {
 public:
  explicit KeptReservations(std::string path) : path_(std::move(path)) {}
  /// What was kept becomes the disk's, and what changes is kept from now on.
  static void attach(const std::string& path, scsi::Reservations& reservations);
  bool keep(const scsi::Reservations::State* state) override;

 private:
  const std::string path_;
};

}  // namespace verbatim::ulp::target
