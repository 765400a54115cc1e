#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// The form of a node's file: lines `key = value`, empty lines, and comments after '#' or ';'.
namespace verbatim::config {

inline constexpr std::size_t kFileBytesMax = 64 << 10;
inline constexpr std::size_t kLineBytesMax = 1024;
inline constexpr std::size_t kEntriesMax = 256;
/// So many faults of a file are told; later ones are dropped.
inline constexpr std::size_t kFaultsMax = 20;

struct Entry {
  std::string key;
  std::string value;  // Never empty, without blanks at its ends.
  unsigned line = 0;  // From 1.
};

/// What is wrong with a line (0: with the whole file), and what to do about it.
struct Fault {
  unsigned line = 0;
  std::string text;
};

struct Entries {
  std::vector<Entry> entries;  // Each key once, in the file's order.
  std::vector<Fault> faults;
};

/// Reads the form of `text`; any bytes may come. Whether keys and values mean something is not
/// looked at: keys.h.
///
///     address = 127.0.0.2, ::1     # a comment
///
/// A comment begins a line or follows a blank. The key is letters, digits and '_'. Line ends are
/// LF or CRLF.
Entries parse_entries(std::string_view text);

}  // namespace verbatim::config
