#pragma once

#include <array>

#include "ulp/scsi/alua/port_groups.h"
#include "ulp/scsi/data/writer.h"
#include "ulp/scsi/unit_settings.h"

/// INQUIRY data (SPC-4, 6.6 and 7.8; SBC-3, 6.6), as LIO answers.
namespace verbatim::ulp::scsi {

struct Inquired {
  const Identity& identity;
  const UnitSettings& settings;
  const PortGroups& groups;
  const Port& port;
};

void write_inquiry(const Inquired& unit, DataWriter& out);
/// Vital product data: pages 00, 80, 83, 86, B0, B1, B2. Returns false if there is no such page.
bool write_vital_page(const Inquired& unit, std::uint8_t page, DataWriter& out);

/// "There is no unit": peripheral qualifier 3, device type 1Fh.
void write_inquiry_of_no_unit(DataWriter& out);

/// NAA IEEE Registered Extended: the company, then the serial number's hexadecimal digits.
std::array<std::uint8_t, 16> name_of(const Identity& identity);

}  // namespace verbatim::ulp::scsi
