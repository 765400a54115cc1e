#pragma once

#include <array>
#include <cstdint>

/// Maps keys to entries by a keyed permutation, so that a peer that knows one key cannot guess the
/// next.
namespace verbatim::region {

/// A permutation of the 24-bit numbers, chosen by a 64-bit secret: a Feistel network of four rounds
/// over two halves of 12 bits (Luby and Rackoff: four rounds make a strong permutation of a good
/// round function). It protects against guessing, not against a peer that can read this process's
/// memory.
class KeyPermutation {
 public:
  explicit KeyPermutation(std::uint64_t secret);

  std::uint32_t permute(std::uint32_t number) const;
  /// permute(restore(n)) == n.
  std::uint32_t restore(std::uint32_t permuted) const;

 private:
  std::array<std::uint64_t, 4> round_keys_;
};

/// Returns a well-mixed number for each (secret, counter) pair.
std::uint64_t mix(std::uint64_t secret, std::uint64_t counter);

}  // namespace verbatim::region
