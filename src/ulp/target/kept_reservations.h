#pragma once

#include <string>
#include <utility>

#include "ulp/nvmeof/reservations/reservations.h"
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

/// The same of a namespace of NVMe over Fabrics (PTPL).
class KeptNvmeReservations final : public nvmeof::Reservations::Keeper {
 public:
  explicit KeptNvmeReservations(std::string path) : path_(std::move(path)) {}
  static void attach(const std::string& path, nvmeof::Reservations& reservations);
  bool keep(const nvmeof::Reservations::State* state) override;

 private:
  const std::string path_;
};

}  // namespace verbatim::ulp::target
