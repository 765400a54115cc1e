#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ulp/target_tree/kind.h"

namespace verbatim::ulp::target_tree {

/// Without blanks, newlines and zeros at its ends.
std::string_view trimmed(std::string_view text);

/// A number of 32 bits as the kernel reads it: base 10, 0x or leading 0, one newline. EINVAL,
/// ERANGE.
Answer<std::uint32_t> number_of(std::string_view text);
/// By the first letters: y, 1, on; n, 0, off. EINVAL.
Answer<bool> truth_of(std::string_view text);

// Parsers for tables. `low`, `high`, `words` are the attribute's.
Answer<std::string> parse_flag(const Written&);            // truth_of: 0 or 1.
Answer<std::string> parse_number(const Written&);          // low to high.
Answer<std::string> parse_number_or_zero(const Written&);  // 0, or low to high.
Answer<std::string> parse_strict(const Written&);          // low to high; EINVAL above 32 bits.
Answer<std::string> parse_word(const Written&);            // One of `words`.
Answer<std::string> parse_word_list(const Written&);       // Some of `words`, with commas between.
Answer<std::string> parse_word_number(const Written&);     // The place of a word; the word is kept.
Answer<std::string> parse_text(const Written&);            // At most `high` bytes; else EINVAL.
Answer<std::string> parse_short_text(const Written&);      // The same with EOVERFLOW.
Answer<std::string> parse_raw(const Written&);             // Its newline stays.
Answer<std::string> parse_uuid(const Written&);

// What programs read, besides show_line: the value and a newline.
Answer<std::string> show_or_nothing(const Attribute&, const Node&);  // "" without a newline.
Answer<std::string> show_exactly(const Attribute&, const Node&);     // Never a newline.

/// The number at the end of a name after a prefix, `lun_5`. EINVAL.
Answer<std::uint32_t> number_after(std::string_view prefix, std::string_view name);

}  // namespace verbatim::ulp::target_tree
