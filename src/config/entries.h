#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// The syntax of a node's file: lines `key = value`, empty lines, and comments after '#' or ';'.
namespace verbatim::config {

inline constexpr std::size_t kFileBytesMax = 64 << 10;
inline constexpr std::size_t kLineBytesMax = 1024;
inline constexpr std::size_t kEntriesMax = 256;
/// Faults of a file that are reported; further ones are dropped.
inline constexpr std::size_t kFaultsMax = 20;

struct Entry {
  std::string key;
  std::string value;  // Not empty; without blanks at both ends.
  unsigned line = 0;  // Counted from 1.
};

/// What is wrong in a line (0: in the whole file), and how to repair it.
struct Fault {
  unsigned line = 0;
  std::string text;
};

struct Entries {
  std::vector<Entry> entries;  // Each key once, in the order of the file.
  std::vector<Fault> faults;
};

/// Parses any bytes. Does not check keys and values; keys.h does.
///
///     address = 127.0.0.2, ::1     # a comment
///
/// A comment is at the start of a line or after a blank. A key consists of letters, digits and '_'.
/// Lines end with LF or CRLF.
Entries parse_entries(std::string_view text);

}  // namespace verbatim::config
