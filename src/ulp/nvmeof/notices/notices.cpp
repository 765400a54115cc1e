#include "ulp/nvmeof/notices/notices.h"

#include "base/assert.h"

namespace verbatim::ulp::nvmeof {
namespace {

struct Row {
  Notice notice;
  std::uint32_t wanted;     // The bit of feature 0x0b; 0: always.
  std::uint8_t kind, what;  // Figures 145 to 149, and NVMe over Fabrics 1.1, figure 38.
  LogPage page;
};
constexpr std::uint8_t kNotice = 2, kOfCommandSet = 6;
constexpr Row kRows[] = {
    {Notice::spaces_changed, 1u << 8, kNotice, 0x00, LogPage::changed_spaces},
    {Notice::access_changed, 1u << 11, kNotice, 0x03, LogPage::access_states},
    {Notice::discovery_changed, 1u << 31, kNotice, 0xf0, LogPage::discovery},
    {Notice::reservation_changed, 0, kOfCommandSet, 0x00, LogPage::reservations},
};

}  // namespace

void Notices::spaces_changed(std::span<const std::uint32_t> ids) {
  if (ids.empty()) return;
  changed_spaces_.insert(ids.begin(), ids.end());
  tell(Notice::spaces_changed);
}

void Notices::reservation_changed(std::uint32_t space, std::uint8_t event) {
  if (++reservation_count_ == 0) ++reservation_count_;
  if (reservations_.size() < kReservationsMax)
    reservations_.push_back({.count = reservation_count_, .event = event, .space = space});
  tell(Notice::reservation_changed);
}

ReservationLogEntry Notices::reservation() const {
  if (reservations_.empty()) return {};
  ReservationLogEntry entry = reservations_.front();
  entry.more = static_cast<std::uint8_t>(reservations_.size() - 1);
  return entry;
}

std::optional<std::size_t> Notices::next(std::uint32_t wanted) const {
  for (std::size_t i = 0; i < std::size(kRows); ++i) {
    const std::uint8_t bit = bit_of(kRows[i].notice);
    const bool is_wanted = kRows[i].wanted == 0 || (wanted & kRows[i].wanted) != 0;
    if ((waiting_ & bit) != 0 && (told_ & bit) == 0 && is_wanted) return i;
  }
  return std::nullopt;
}

std::uint32_t Notices::take(std::uint32_t wanted) {
  const auto index = next(wanted);
  VERBATIM_ASSERT(index.has_value());
  const Row& row = kRows[*index];
  waiting_ &= static_cast<std::uint8_t>(~bit_of(row.notice));
  told_ |= bit_of(row.notice);
  return static_cast<std::uint32_t>(row.page) << 16 | std::uint32_t{row.what} << 8 | row.kind;
}

void Notices::on_read(LogPage page) {
  for (const Row& row : kRows) {
    if (row.page != page) continue;
    waiting_ &= static_cast<std::uint8_t>(~bit_of(row.notice));
    told_ &= static_cast<std::uint8_t>(~bit_of(row.notice));
  }
  if (page == LogPage::changed_spaces) changed_spaces_.clear();
  if (page != LogPage::reservations || reservations_.empty()) return;
  reservations_.pop_front();
  if (!reservations_.empty()) tell(Notice::reservation_changed);
}

}  // namespace verbatim::ulp::nvmeof
