#pragma once

#include <array>
#include <cstddef>
#include <random>
#include <span>
#include <tuple>

#include <gtest/gtest.h>

#include "wire/mad/fields.h"

/// Checks for every attribute that has a table of fields.
namespace verbatim::wire {

template <Fields T>
constexpr std::size_t bits_in_fields() {
  std::size_t bits = 0;
  const auto add = [&]<typename Member>(const Field<T, Member>& field) {
    bits += field.width * fields::kElements<Member>;
  };
  std::apply([&](const auto&... each) { (add(each), ...); }, T::kFields);
  return bits;
}

/// Any bytes decode, and encode to the same bytes, except for reserved bits, which are sent as
/// zero.
template <Fields T>
void expect_round_trip() {
  std::mt19937 random(7);
  std::array<std::byte, T::kSize> bytes;
  std::array<std::byte, T::kSize> encoded;
  for (std::byte& each : bytes) each = static_cast<std::byte>(random());
  const T value = decode<T>(std::span(bytes));
  encode(value, std::span(encoded));
  EXPECT_EQ(decode<T>(std::span(encoded)), value);
  for (std::size_t i = 0; i < T::kSize; ++i) EXPECT_EQ(encoded[i] & ~bytes[i], std::byte{0}) << i;

  std::size_t bits_with_a_meaning = 0;
  for (std::size_t bit = 0; bit < 8 * T::kSize; ++bit) {
    bytes[bit / 8] ^= std::byte{0x80} >> bit % 8;
    if (decode<T>(std::span(bytes)) != value) ++bits_with_a_meaning;
    bytes[bit / 8] ^= std::byte{0x80} >> bit % 8;
  }
  EXPECT_EQ(bits_with_a_meaning, bits_in_fields<T>());
}

}  // namespace verbatim::wire
