#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>

#include "ulp/nvmeof/wire/log_pages.h"

namespace verbatim::ulp::nvmeof {

enum class Notice : std::uint8_t {
  spaces_changed,
  access_changed,
  discovery_changed,
  reservation_changed,
};

/// What a controller has to tell its host by an asynchronous event (base specification 1.4, section
/// 5.2). A notice is told once; what changes before the host has read its log page is in that page.
class Notices {
 public:
  /// Bits of OAES, and of feature 0x0b: namespaces and access states; subsystems.
  static constexpr std::uint32_t kOfController = 1u << 8 | 1u << 11, kOfDiscovery = 1u << 31;

  void tell(Notice notice) { waiting_ |= bit_of(notice); }
  void spaces_changed(std::span<const std::uint32_t> ids);
  /// `event`: of reservations.h. What does not fit is lost, which its count tells.
  void reservation_changed(std::uint32_t space, std::uint8_t event);

  /// `wanted`: what the host has set by feature 0x0b.
  bool any(std::uint32_t wanted) const { return next(wanted).has_value(); }
  /// The result of the Async Event Request: kind, what, log page. Requires that there is one.
  std::uint32_t take(std::uint32_t wanted);
  /// The host has read a page, and does not keep its event.
  void on_read(LogPage page);
  const std::set<std::uint32_t>& changed_spaces() const { return changed_spaces_; }
  /// The oldest that was not read; zeros: none.
  ReservationLogEntry reservation() const;

 private:
  static std::uint8_t bit_of(Notice notice) {
    return static_cast<std::uint8_t>(1u << static_cast<unsigned>(notice));
  }
  std::optional<std::size_t> next(std::uint32_t wanted) const;

  std::uint8_t waiting_ = 0, told_ = 0;  // A bit a notice. `told_`: the page has not been read.
  std::set<std::uint32_t> changed_spaces_;
  static constexpr std::size_t kReservationsMax = 64;
  std::deque<ReservationLogEntry> reservations_;
  std::uint64_t reservation_count_ = 0;
};

}  // namespace verbatim::ulp::nvmeof
