#include "ulp/nvmeof/notices/notices.h"

#include "base/assert.h"

namespace verbatim::ulp::nvmeof {
namespace {

struct Row {
  Notice notice;
  std::uint32_t wanted;  // The bit of feature 0x0b.
  std::uint8_t what;     // Figure 147, and NVMe over Fabrics 1.1, figure 38.
  LogPage page;
};
constexpr Row kRows[] = {
    {Notice::spaces_changed, 1u << 8, 0x00, LogPage::changed_spaces},
    {Notice::access_changed, 1u << 11, 0x03, LogPage::access_states},
    {Notice::discovery_changed, 1u << 31, 0xf0, LogPage::discovery},
};
constexpr std::uint32_t kNotice = 2;

}  // namespace

void Notices::spaces_changed(std::span<const std::uint32_t> ids) {
  if (ids.empty()) return;
  changed_spaces_.insert(ids.begin(), ids.end());
  tell(Notice::spaces_changed);
}

std::optional<std::size_t> Notices::next(std::uint32_t wanted) const {
  for (std::size_t i = 0; i < std::size(kRows); ++i) {
    const std::uint8_t bit = bit_of(kRows[i].notice);
    if ((waiting_ & bit) != 0 && (told_ & bit) == 0 && (wanted & kRows[i].wanted) != 0) return i;
  }
  return std::nullopt;
}

std::uint32_t Notices::take(std::uint32_t wanted) {
  const auto index = next(wanted);
  VERBATIM_ASSERT(index.has_value());
  const Row& row = kRows[*index];
  waiting_ &= static_cast<std::uint8_t>(~bit_of(row.notice));
  told_ |= bit_of(row.notice);
  return static_cast<std::uint32_t>(row.page) << 16 | std::uint32_t{row.what} << 8 | kNotice;
}

void Notices::on_read(LogPage page) {
  for (const Row& row : kRows) {
    if (row.page != page) continue;
    waiting_ &= static_cast<std::uint8_t>(~bit_of(row.notice));
    told_ &= static_cast<std::uint8_t>(~bit_of(row.notice));
  }
  if (page == LogPage::changed_spaces) changed_spaces_.clear();
}

}  // namespace verbatim::ulp::nvmeof
