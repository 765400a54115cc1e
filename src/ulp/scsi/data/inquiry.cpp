#include "ulp/scsi/data/inquiry.h"

#include <fmt/format.h>

namespace verbatim::ulp::scsi {

namespace {

// Version descriptors (SPC-4, 6.6.2).
constexpr std::uint16_t kSam5 = 0x00a0, kIscsi = 0x0960, kSrp = 0x0940, kSpc4 = 0x0460,
                        kSbc3 = 0x04c0;

// Device identification: code sets, associations and designator types (SPC-4, 7.8.6).
constexpr unsigned kBinary = 1, kAscii = 2, kUtf8 = 3;
constexpr unsigned kOfUnit = 0x00, kOfPort = 0x90, kOfDevice = 0xa0;  // With PIV for the last two.
constexpr unsigned kVendorName = 1, kNaa = 3, kPort = 4, kPortGroup = 5, kUnitGroup = 6,
                   kNameString = 8;
constexpr std::size_t kNameBytesMax = 256;

using Page = void (*)(const Inquired& unit, DataWriter& out);

void supported_pages(const Inquired& unit, DataWriter& out);

void serial_number(const Inquired& unit, DataWriter& out) {
  if (!unit.identity.serial.empty())
    out.text(unit.identity.serial, unit.identity.serial.size() + 1, '\0');
}

void designator_head(unsigned protocol, unsigned code_set, unsigned kind, std::size_t bytes,
                     DataWriter& out) {
  out.byte(protocol << 4 | code_set);
  out.byte(kind);
  out.byte(0);
  out.byte(static_cast<unsigned>(bytes));
}

void number_designator(unsigned protocol, unsigned kind, std::uint16_t number, DataWriter& out) {
  designator_head(protocol, kBinary, kind, 4, out);
  out.put<std::uint16_t>(0);
  out.put(number);
}

/// Ends with a zero, and with more up to a multiple of 4. 256 bytes at most; the length has one
/// byte, so 252.
void name_designator(unsigned protocol, unsigned association, const std::string& name,
                     DataWriter& out) {
  const std::size_t bytes = std::min((name.size() + 4) & ~std::size_t{3}, kNameBytesMax - 4);
  designator_head(protocol, kUtf8, association | kNameString, bytes, out);
  out.text(name, bytes, '\0');
}

void device_identification(const Inquired& unit, DataWriter& out) {
  const Identity& identity = unit.identity;
  const auto protocol = static_cast<unsigned>(unit.port.protocol);
  std::string name;
  if (!identity.serial.empty()) {
    designator_head(0, kBinary, kOfUnit | kNaa, 16, out);
    for (const std::uint8_t byte : name_of(identity)) out.byte(byte);
    name = fmt::format("{}:{}", identity.product, identity.serial).substr(0, 255 - 9);
  }
  designator_head(0, kAscii, kOfUnit | kVendorName, 8 + name.size() + 1, out);
  out.text(identity.vendor, 8, ' ');
  out.text(name, name.size() + 1, '\0');
  number_designator(protocol, kOfPort | kPort, unit.port.id, out);
  number_designator(protocol, kOfPort | kPortGroup, unit.groups.of(unit.port.id).id, out);
  number_designator(0, kOfUnit | kUnitGroup, 0, out);
  name_designator(protocol, kOfPort,
                  fmt::format("{},t,0x{:04x}", unit.port.device_name, unit.port.tag), out);
  name_designator(protocol, kOfDevice, unit.port.device_name, out);
}

void extended_inquiry(const Inquired& unit, DataWriter& out) {
  out.byte(0);
  out.byte(0x07);                                   // HEADSUP, ORDSUP, SIMPSUP.
  out.byte(unit.settings.has_write_cache ? 1 : 0);  // V_SUP.
  out.zeros(0x3c - 3);
}

bool is_thin(const UnitSettings& settings) {
  return settings.can_unmap || settings.can_unmap_by_write_same;
}

void block_limits(const Inquired& unit, DataWriter& out) {
  const UnitSettings& settings = unit.settings;
  out.byte(1);  // WSNZ: WRITE SAME of no blocks is refused.
  out.byte(settings.can_compare_and_write ? 1 : 0);
  out.put<std::uint16_t>(1);
  out.put(settings.transfer_blocks_max);
  out.put(settings.transfer_blocks_best);
  out.put<std::uint32_t>(0);  // No prefetch.
  const bool unmaps = settings.can_unmap;
  out.put(unmaps ? settings.unmap_blocks_max : 0u);
  out.put(unmaps ? settings.unmap_ranges_max : 0u);
  out.put(is_thin(settings) ? settings.unmap_granularity : 0u);
  const bool aligned = is_thin(settings) && settings.unmap_alignment != 0;
  out.put(aligned ? 0x80000000u | settings.unmap_alignment : 0u);
  out.put(std::uint64_t{settings.write_same_blocks_max});
  out.zeros(0x3c - 40);
}

void block_characteristics(const Inquired& unit, DataWriter& out) {
  out.put<std::uint16_t>(unit.settings.is_rotational ? 0 : 1);
  out.zeros(0x3c - 2);
}

void provisioning(const Inquired& unit, DataWriter& out) {
  const UnitSettings& settings = unit.settings;
  unsigned flags = 0;
  if (settings.can_unmap) flags |= 0x80;
  if (settings.can_unmap_by_write_same) flags |= 0x60;  // By WRITE SAME (16) and (10).
  if (is_thin(settings) && settings.unmap_zeroes) flags |= 0x04;
  out.byte(0);
  out.byte(flags);
  out.byte(is_thin(settings) ? 2 : 0);  // Thin provisioned.
  out.byte(0);
}

constexpr std::pair<std::uint8_t, Page> kPages[] = {
    {0x00, supported_pages},  {0x80, serial_number}, {0x83, device_identification},
    {0x86, extended_inquiry}, {0xb0, block_limits},  {0xb1, block_characteristics},
    {0xb2, provisioning},
};

/// LIO lists none until the unit has a serial number, but answers them.
void supported_pages(const Inquired& unit, DataWriter& out) {
  if (unit.identity.serial.empty()) return;
  for (const auto& [code, page] : kPages) out.byte(code);
}

}  // namespace

void write_inquiry(const Inquired& unit, DataWriter& out) {
  out.byte(0);     // A disk.
  out.byte(0);     // Not removable.
  out.byte(0x06);  // SPC-4.
  out.byte(0x02);
  out.byte(91);  // Additional length.
  // SCCS; TPGS: how the states of port groups change; 3PC.
  const PortGroup& group = unit.groups.of(unit.port.id);
  out.byte(0x80u | (group.is_explicit ? 0x20u : 0u) | (group.is_implicit ? 0x10u : 0u) |
           (unit.settings.can_copy ? 0x08u : 0u));
  out.byte(unit.groups.port_count() > 1 ? 0x10 : 0);  // MULTIP.
  out.byte(0x02);                                     // CMDQUE.
  out.text(unit.identity.vendor, 8, ' ');
  out.text(unit.identity.product, 16, ' ');
  out.text(unit.identity.revision, 4, ' ');
  out.zeros(58 - out.size());
  const bool srp = unit.port.protocol == Protocol::srp;
  for (const std::uint16_t version : {kSam5, srp ? kSrp : kIscsi, kSpc4, kSbc3}) out.put(version);
  out.zeros(96 - out.size());
}

bool write_vital_page(const Inquired& unit, std::uint8_t page, DataWriter& out) {
  for (const auto& [code, write] : kPages) {
    if (code != page) continue;
    out.byte(0);
    out.byte(page);
    out.put<std::uint16_t>(0);
    write(unit, out);
    out.set(2, static_cast<std::uint16_t>(out.size() - 4));
    return true;
  }
  return false;
}

void write_inquiry_of_no_unit(DataWriter& out) {
  out.byte(0x7f);
  out.byte(0);
  out.byte(0x06);
  out.byte(0x02);
  out.byte(31);
  out.zeros(3);
  out.text("", 28, ' ');
}

std::array<std::uint8_t, 16> name_of(const Identity& identity) {
  std::array<std::uint8_t, 16> name{};
  name[0] = static_cast<std::uint8_t>(0x60 | (identity.company_id >> 20 & 0xf));
  name[1] = static_cast<std::uint8_t>(identity.company_id >> 12);
  name[2] = static_cast<std::uint8_t>(identity.company_id >> 4);
  name[3] = static_cast<std::uint8_t>(identity.company_id << 4);
  std::size_t digit = 7;  // Half bytes.
  for (const char c : identity.serial) {
    unsigned value = 16;
    if (c >= '0' && c <= '9') value = static_cast<unsigned>(c - '0');
    if (c >= 'a' && c <= 'f') value = static_cast<unsigned>(c - 'a' + 10);
    if (c >= 'A' && c <= 'F') value = static_cast<unsigned>(c - 'A' + 10);
    if (value > 15) continue;
    if (digit == 2 * name.size()) break;
    name[digit / 2] |= static_cast<std::uint8_t>(digit % 2 == 0 ? value << 4 : value);
    ++digit;
  }
  return name;
}

}  // namespace verbatim::ulp::scsi
