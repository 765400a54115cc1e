#pragma once

#include <cstdint>

namespace verbatim::ulp::rpcrdma {

/// An operation of NFSv4's COMPOUND, for who walks over it. A form is a list of fields:
///
///     4, 8, 6   a word, two words, four words (a stateid, a session's id)
///     o         opaque data or a string           b   a bitmap: an array of words
///     D         data that a chunk may carry       C   the count of a READ's data
///     N         the count of a READDIR's answer   a bitmap of attributes that are asked for: A
///     others    a union: `walk_field` in data_items.cpp
///
/// No form: walking ends there, which is right for what stands last.
struct CompoundOperation {
  std::uint8_t number = 0;
  const char* arguments = nullptr;
  const char* results = nullptr;
  std::uint32_t result_bytes = 0;  // At most, with the number and the status.
};
/// Null: unknown.
const CompoundOperation* find_operation(std::uint32_t number);

}  // namespace verbatim::ulp::rpcrdma
