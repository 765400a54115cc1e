#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <type_traits>

#include "base/bytes.h"
#include "base/types.h"

/// Attributes of management classes are many fields of few bits. Each attribute is a table, of
/// which decoding and encoding follow.
namespace verbatim::wire {

/// A member of an attribute's value, and where it stands: `width` bits, of which the first is `bit`
/// bits behind the attribute's first (bit 0 is the highest of byte 0), as the specification counts.
/// An array's elements have `width` bits each and follow each other.
template <typename Value, typename Member>
struct Field {
  Member Value::* member;
  unsigned bit;
  unsigned width;
};

template <typename Value, typename Member>
constexpr Field<Value, Member> field(Member Value::* member, unsigned bit, unsigned width) {
  return {member, bit, width};
}
/// A member of as many bits as its type.
template <typename Value, typename Member>
constexpr Field<Value, Member> field(Member Value::* member, unsigned bit) {
  return {member, bit, unsigned{8 * sizeof(Member)}};
}
template <typename Value, typename Element, std::size_t N>
constexpr Field<Value, std::array<Element, N>> field(std::array<Element, N> Value::* member,
                                                     unsigned bit) {
  return {member, bit, unsigned{8 * sizeof(Element)}};
}

/// `kSize` bytes on the wire, and a tuple of its fields.
template <typename T>
concept Fields = requires { T::kSize, T::kFields; };

namespace fields {

template <typename T>
inline constexpr std::size_t kElements = 1;
template <typename T, std::size_t N>
inline constexpr std::size_t kElements<std::array<T, N>> = N;

/// A field begins and ends within 8 bytes, or is a GID.
template <typename Value, typename Member>
constexpr bool is_loadable(const Field<Value, Member>& field) {
  if constexpr (std::is_same_v<Member, Gid>) return field.bit % 8 == 0 && field.width == 128;
  return field.width >= 1 && field.bit % 8 + field.width <= 64;
}

/// True where every field lies in the attribute, and no two have a bit in common.
template <Fields T>
consteval bool are_sound() {
  std::array<bool, 8 * T::kSize> taken{};
  bool sound = true;
  const auto take = [&]<typename Member>(const Field<T, Member>& field) {
    sound = sound && is_loadable(field);
    const std::size_t end = field.bit + field.width * kElements<Member>;
    if (end > taken.size()) sound = false;
    for (std::size_t bit = field.bit; sound && bit < end; ++bit) {
      sound = !taken[bit];
      taken[bit] = true;
    }
  };
  std::apply([&](const auto&... each) { (take(each), ...); }, T::kFields);
  return sound;
}

inline std::uint64_t load_bits(const std::byte* at, std::size_t bit, unsigned width) {
  std::uint64_t value = 0;
  const std::size_t last = bit + width - 1;
  for (std::size_t i = bit / 8; i <= last / 8; ++i) {
    value = value << 8 | std::to_integer<std::uint64_t>(at[i]);
  }
  return value >> (7 - last % 8) & (~std::uint64_t{0} >> (64 - width));
}

/// Sets bits that are zero.
inline void store_bits(std::byte* at, std::size_t bit, unsigned width, std::uint64_t value) {
  const std::size_t last = bit + width - 1;
  value = (value & (~std::uint64_t{0} >> (64 - width))) << (7 - last % 8);
  for (std::size_t i = last / 8 + 1; i-- > bit / 8; value >>= 8) {
    at[i] |= static_cast<std::byte>(value);
  }
}

template <typename Member>
void load(Member& member, const std::byte* at, std::size_t bit, unsigned width) {
  if constexpr (std::is_same_v<Member, Gid>) {
    std::memcpy(member.bytes.data(), at + bit / 8, member.bytes.size());
  } else {
    member = static_cast<Member>(load_bits(at, bit, width));
  }
}
template <typename Element, std::size_t N>
void load(std::array<Element, N>& member, const std::byte* at, std::size_t bit, unsigned width) {
  for (std::size_t i = 0; i < N; ++i) load(member[i], at, bit + i * width, width);
}

template <typename Member>
void store(const Member& member, std::byte* at, std::size_t bit, unsigned width) {
  if constexpr (std::is_same_v<Member, Gid>) {
    std::memcpy(at + bit / 8, member.bytes.data(), member.bytes.size());
  } else {
    store_bits(at, bit, width, static_cast<std::uint64_t>(member));
  }
}
template <typename Element, std::size_t N>
void store(const std::array<Element, N>& member, std::byte* at, std::size_t bit, unsigned width) {
  for (std::size_t i = 0; i < N; ++i) store(member[i], at, bit + i * width, width);
}

}  // namespace fields

/// Every value of every field has a meaning or is kept as it came, so this cannot fail.
template <Fields T>
T decode(std::span<const std::byte, T::kSize> bytes) {
  static_assert(fields::are_sound<T>());
  T value;
  std::apply(
      [&](const auto&... each) {
        (fields::load(value.*each.member, bytes.data(), each.bit, each.width), ...);
      },
      T::kFields);
  return value;
}

/// A value of more bits than its field has is cut to the field's.
template <Fields T>
void encode(const T& value, std::span<std::byte, T::kSize> out) {
  static_assert(fields::are_sound<T>());
  std::ranges::fill(out, std::byte{0});
  std::apply(
      [&](const auto&... each) {
        (fields::store(value.*each.member, out.data(), each.bit, each.width), ...);
      },
      T::kFields);
}

}  // namespace verbatim::wire
