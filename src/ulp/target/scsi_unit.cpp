#include "ulp/target/scsi_unit.h"

#include "ulp/iscsi/md5.h"
#include "ulp/iscsi/wire/text.h"

namespace verbatim::ulp::target {
namespace {

/// A serial number that stays the same for a target's name.
std::string serial_of(const std::string& name) {
  const iscsi::Md5 hash = iscsi::md5(std::as_bytes(std::span(name)));
  return iscsi::hex_text(hash).substr(2);
}

scsi::UnitSettings settings_of(const backstore::Geometry& geometry) {
  scsi::UnitSettings settings;
  settings.blocks = geometry.bytes / geometry.block_bytes;
  settings.block_bytes = geometry.block_bytes;
  settings.is_read_only = geometry.is_read_only;
  settings.has_write_cache = geometry.has_write_cache;
  settings.is_rotational = false;
  settings.can_unmap = settings.can_unmap_by_write_same = geometry.can_deallocate;
  settings.unmap_zeroes = geometry.can_deallocate;
  settings.unmap_ranges_max = 64;
  settings.ports = {1};
  return settings;
}

}  // namespace

std::unique_ptr<scsi::LogicalUnit> make_scsi_unit(storage::UnitId unit,
                                                  const backstore::Geometry& geometry,
                                                  const std::string& target) {
  return std::make_unique<scsi::LogicalUnit>(
      unit,
      scsi::Identity{
          .vendor = "VERBATIM", .product = "RAMDISK", .revision = "1", .serial = serial_of(target)},
      settings_of(geometry));
}

}  // namespace verbatim::ulp::target
