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

/// Attributes of management classes have many fields of few bits. A table describes each attribute;
/// decoding and encoding follow from the table.
namespace verbatim::wire {

/// A member of an attribute's value and its position: `width` bits, which begin `bit` bits after
/// the attribute's start (bit 0 is the highest bit of byte 0, as the specification counts). The
/// elements of an array have `width` bits each and follow each other.
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
/// A field with as many bits as the member's type.
template <typename Value, typename Member>
constexpr Field<Value, Member> field(Member Value::* member, unsigned bit) {
  return {member, bit, unsigned{8 * sizeof(Member)}};
}
template <typename Value, typename Element, std::size_t N>
constexpr Field<Value, std::array<Element, N>> field(std::array<Element, N> Value::* member,
                                                     unsigned bit) {
  return {member, bit, unsigned{8 * sizeof(Element)}};
}

/// Requires `kSize`, the number of bytes on the wire, and a tuple of fields.
template <typename T>
concept Fields = requires { T::kSize, T::kFields; };

namespace fields {

template <typename T>
inline constexpr std::size_t kElements = 1;
template <typename T, std::size_t N>
inline constexpr std::size_t kElements<std::array<T, N>> = N;

/// Checks that the field lies within 8 bytes, or is a GID.
template <typename Value, typename Member>
constexpr bool is_loadable(const Field<Value, Member>& field) {
  if constexpr (std::is_same_v<Member, Gid>) return field.bit % 8 == 0 && field.width == 128;
  return field.width >= 1 && field.bit % 8 + field.width <= 64;
}

/// Returns true if every field lies in the attribute and no two overlap.
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

/// Sets bits that are zero so far.
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

/// Cannot fail: every value of every field is accepted, with or without a meaning.
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

/// A value that is too large for its field is cut to the field's bits.
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
