#include "region/key_permutation.h"

namespace verbatim::region {
namespace {

constexpr std::uint32_t kHalfMask = 0xfff;

std::uint32_t round_value(std::uint32_t half, std::uint64_t round_key) {
  std::uint64_t value = (half + round_key) * 0x9e3779b97f4a7c15;
  value ^= value >> 32;
  value *= 0xd6e8feb86659fd93;
  return static_cast<std::uint32_t>(value >> 52);
}

}  // namespace

std::uint64_t mix(std::uint64_t secret, std::uint64_t counter) {
  // The finisher of SplitMix64 (public domain), applied before and after adding the counter.
  const auto finish = [](std::uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
  };
  return finish(finish(secret + 0x9e3779b97f4a7c15) ^ (counter * 0x9e3779b97f4a7c15));
}

KeyPermutation::KeyPermutation(std::uint64_t secret) {
  // Counts down from the top; counters from 0 up are used for the random bits (region_table.cpp).
  std::uint64_t counter = ~std::uint64_t{0};
  for (std::uint64_t& key : round_keys_) key = mix(secret, counter--);
}

std::uint32_t KeyPermutation::permute(std::uint32_t number) const {
  std::uint32_t left = number >> 12 & kHalfMask;
  std::uint32_t right = number & kHalfMask;
  for (std::size_t round = 0; round < round_keys_.size(); ++round) {
    const std::uint32_t next = left ^ round_value(right, round_keys_[round]);
    left = right;
    right = next;
  }
  return left << 12 | right;
}

std::uint32_t KeyPermutation::restore(std::uint32_t permuted) const {
  std::uint32_t left = permuted >> 12 & kHalfMask;
  std::uint32_t right = permuted & kHalfMask;
  for (std::size_t round = round_keys_.size(); round-- > 0;) {
    const std::uint32_t previous = right ^ round_value(left, round_keys_[round]);
    right = left;
    left = previous;
  }
  return left << 12 | right;
}

}  // namespace verbatim::region
