#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "base/types.h"
#include "wire/mad/fields.h"

namespace verbatim::wire {

/// A service that a port offers: ServiceRecord (IBA 15.2.5.14).
struct ServiceRecord {
  static constexpr std::size_t kSize = 176;
  static constexpr std::uint32_t kForEver = 0xffff'ffff;
  /// Bits of a component mask. Each byte or word of the data has a bit, too.
  enum Component : std::uint64_t {
    kId = 1 << 0,
    kGid = 1 << 1,
    kPKey = 1 << 2,
    kLease = 1 << 4,
    kKey = 1 << 5,
    kName = 1 << 6,
    kIdentity = kId | kGid | kPKey,
    kWhole = ((std::uint64_t{1} << 37) - 1) & ~std::uint64_t{1 << 3},
  };
  std::uint64_t id = 0;
  Gid gid{};
  std::uint16_t pkey = raw(kDefaultPKey);
  std::uint32_t lease_s = kForEver;
  std::array<std::uint8_t, 16> key{};  // Who changes the record must have it.
  std::array<char, 64> name{};
  std::array<std::uint8_t, 64> data{};  // 16 bytes each of 8, 16, 32 and 64 bits.
  friend bool operator==(const ServiceRecord&, const ServiceRecord&) = default;
  static constexpr auto kFields =
      std::tuple(field(&ServiceRecord::id, 0), field(&ServiceRecord::gid, 64, 128),
                 field(&ServiceRecord::pkey, 192), field(&ServiceRecord::lease_s, 224),
                 field(&ServiceRecord::key, 256), field(&ServiceRecord::name, 384),
                 field(&ServiceRecord::data, 896));
};

}  // namespace verbatim::wire
