#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>

#include "wire/mad/fields.h"

namespace verbatim::wire {

enum class SmState : std::uint8_t { not_active = 0, discovering = 1, standby = 2, master = 3 };

/// Attribute modifier of Set(SMInfo): what the receiver should do (IBA 14.4.1).
enum class SmControl : std::uint32_t {
  handover = 1,
  acknowledge = 2,
  disable = 3,
  standby = 4,
  discover = 5,
};

/// A subnet manager (IBA 14.2.5.13). The higher priority wins, then the lower GUID.
struct SmInfo {
  static constexpr std::size_t kSize = 24;
  std::uint64_t guid = 0;
  std::uint64_t sm_key = 0;
  std::uint32_t activity = 0;  // Counts up while the manager runs.
  std::uint8_t priority = 0;
  SmState state{};
  friend bool operator==(const SmInfo&, const SmInfo&) = default;
  static constexpr auto kFields =
      std::tuple(field(&SmInfo::guid, 0), field(&SmInfo::sm_key, 64), field(&SmInfo::activity, 128),
                 field(&SmInfo::priority, 160, 4), field(&SmInfo::state, 164, 4));
};

}  // namespace verbatim::wire
