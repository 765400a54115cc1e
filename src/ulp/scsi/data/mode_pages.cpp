#include "ulp/scsi/data/mode_pages.h"

#include <algorithm>
#include <limits>

namespace verbatim::ulp::scsi {

namespace {

constexpr std::uint8_t kAllPages = 0x3f, kAllSubpages = 0xff;
constexpr std::uint8_t kSelect6 = 0x15, kSense6 = 0x1a;
constexpr unsigned kChangeable = 1, kSaved = 3;  // Page control.

struct PageData {
  const UnitSettings& settings;
  SenseFormat format;
};
using Write = void (*)(const PageData& unit, DataWriter& out);

void error_recovery(const PageData&, DataWriter& out) { out.zeros(10); }

void caching(const PageData& unit, DataWriter& out) {
  out.byte(unit.settings.has_write_cache ? 0x04 : 0);  // WCE.
  out.zeros(9);
  out.byte(0x20);  // DRA: no read ahead.
  out.zeros(7);
}

void control(const PageData& unit, DataWriter& out) {
  out.byte(0x02 | (unit.format == SenseFormat::descriptor ? 0x04u : 0u));  // GLTSD, D_SENSE.
  out.byte(0x10);                                    // Commands may be reordered.
  out.byte(0);                                       // A unit attention ends when it is told.
  out.byte(unit.settings.tells_aborted ? 0x40 : 0);  // TAS.
  out.zeros(2);
  out.put<std::uint16_t>(0xffff);  // Busy for as long as it likes.
  out.put<std::uint16_t>(30);      // Seconds of an extended self-test.
}

void informational_exceptions(const PageData&, DataWriter& out) { out.zeros(10); }

struct ModePage {
  std::uint8_t code = 0, bytes = 0;  // After the first two.
  Write write{};
};
constexpr ModePage kPages[] = {
    {0x01, 10, error_recovery},
    {0x08, 18, caching},
    {0x0a, 10, control},
    {0x1c, 10, informational_exceptions},
};

void write_page(const ModePage& page, unsigned page_control, const PageData& unit,
                DataWriter& out) {
  out.byte(page.code);
  out.byte(page.bytes);
  if (page_control == kChangeable) return out.zeros(page.bytes);
  page.write(unit, out);
}

void block_descriptor(const UnitSettings& settings, bool is_long, DataWriter& out) {
  if (is_long) {
    out.put(settings.blocks);
    out.zeros(4);
  } else {
    constexpr std::uint64_t max = std::numeric_limits<std::uint32_t>::max();
    // LIO tells the last block's number here, too.
    out.put(static_cast<std::uint32_t>(std::min(settings.blocks - 1, max)));
  }
  out.put(settings.block_bytes);
}

/// MODE SENSE (6): length, medium type, device-specific, length of the block descriptor. (10): the
/// same with two bytes for each length, and LONGLBA.
void header(const Cdb& cdb, const UnitSettings& settings, DataWriter& out) {
  const bool ten = cdb.bytes[0] != kSense6;
  const bool is_long = ten && cdb.has(1, 0x10) && settings.blocks > 0xffffffff;
  const unsigned descriptor = cdb.has(1, 0x08) ? 0 : is_long ? 16 : 8;
  unsigned specific = 0;
  if (settings.is_read_only) specific |= 0x80;     // WP.
  if (settings.has_write_cache) specific |= 0x10;  // DPOFUA.
  out.zeros(ten ? 3 : 2);
  out.byte(specific);
  if (ten) out.put(static_cast<std::uint16_t>(is_long && descriptor > 0 ? 0x0100 : 0));
  if (ten) out.put(static_cast<std::uint16_t>(descriptor));
  if (!ten) out.byte(descriptor);
  if (descriptor > 0) block_descriptor(settings, is_long, out);
}

}  // namespace

std::expected<void, Sense> write_mode_data(const Cdb& cdb, const UnitSettings& settings,
                                           SenseFormat format, DataWriter& out) {
  const unsigned page_control = cdb.bytes[2] >> 6;
  const std::uint8_t code = cdb.bytes[2] & 0x3f, subpage = cdb.bytes[3];
  if (page_control == kSaved)
    return std::unexpected(illegal_request(SenseCode::saving_not_supported));
  if (subpage != 0 && !(code == kAllPages && subpage == kAllSubpages))
    return std::unexpected(invalid_field(3, 7));
  header(cdb, settings, out);
  bool found = false;
  for (const ModePage& page : kPages) {
    if (code != kAllPages && code != page.code) continue;
    write_page(page, page_control, {settings, format}, out);
    found = true;
  }
  if (!found) return std::unexpected(invalid_field(2, 5));
  if (cdb.bytes[0] == kSense6)
    out.set(0, static_cast<std::uint8_t>(out.size() - 1));
  else
    out.set(0, static_cast<std::uint16_t>(out.size() - 2));
  return {};
}

std::optional<Sense> refused_mode_parameters(const Cdb& cdb, const UnitSettings& settings,
                                             SenseFormat format, ByteSpan parameters) {
  if (parameters.empty()) return {};  // Not an error (SPC-4, 6.9).
  const bool ten = cdb.bytes[0] != kSelect6;
  const std::size_t header_bytes = ten ? 8 : 4;
  const Sense short_list = illegal_request(SenseCode::parameter_list_length_error);
  if (parameters.size() < header_bytes) return short_list;
  const std::size_t descriptor =
      ten ? load_be<std::uint16_t>(&parameters[6]) : std::to_integer<std::size_t>(parameters[3]);
  std::size_t at = header_bytes + descriptor;
  if (parameters.size() < at) return short_list;
  while (at < parameters.size()) {
    const unsigned code = std::to_integer<unsigned>(parameters[at]) & 0x7f;
    const auto* const page = std::ranges::find(kPages, code, &ModePage::code);
    if (page == std::end(kPages)) return invalid_parameter(static_cast<std::uint16_t>(at), 5);
    if (parameters.size() < at + 2u + page->bytes) return short_list;
    std::array<std::byte, 32> now{};
    DataWriter out(now);
    write_page(*page, 0, {settings, format}, out);
    for (std::size_t i = 0; i < out.size(); ++i) {
      // PS, the first bit, is reserved here.
      const std::byte mask{static_cast<unsigned char>(i == 0 ? 0x7f : 0xff)};
      if ((parameters[at + i] & mask) != now[i])
        return invalid_parameter(static_cast<std::uint16_t>(at + i));
    }
    at += out.size();
  }
  return {};
}

}  // namespace verbatim::ulp::scsi
