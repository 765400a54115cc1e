#pragma once

#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <string_view>

/// Kinds of directories as tables of facts: what a directory shows, what may be made in it, and
/// which rules of the kernel guard it.
namespace verbatim::ulp::target_tree {

/// A value, or the errno that the kernel gives.
template <typename T>
using Answer = std::expected<T, int>;

class Hooks;
struct Attribute;
struct Kind;
struct Node;

/// What a program writes into an attribute of `directory`.
struct Written {
  const Attribute& attribute;
  const Node& directory;
  std::string_view text;
};

/// Returns the value that the attribute then has. Rules that every attribute may use: parsers.h.
using Parser = Answer<std::string> (*)(const Written&);
/// Returns what a program reads.
using Shower = Answer<std::string> (*)(const Attribute&, const Node& directory);

Answer<std::string> refuse_all(const Written&);
Answer<std::string> show_line(const Attribute&, const Node&);

/// Modes besides 0644: read-only, write-only, and state that no program sees.
constexpr unsigned kReadOnly = 0444;
constexpr unsigned kWriteOnly = 0200;
constexpr unsigned kHidden = 0;

/// A version of Linux, whose tree is shown: 6.1 unless the user says otherwise.
struct KernelVersion {
  unsigned major_number = 6, minor_number = 1;
  friend auto operator<=>(const KernelVersion&, const KernelVersion&) = default;
};

/// A file of a directory.
struct Attribute {
  std::string_view name;
  std::string_view value;  // What it holds in a new directory.
  Parser parse = &refuse_all;
  std::uint32_t low = 0;  // Bounds, for numbers; `high` is the length, for text.
  std::uint32_t high = 0;
  std::string_view words;  // What may be written, separated by '|'.
  unsigned mode = 0644;
  /// If set, returns why the attribute can't be written now, or 0. Asked before `parse`.
  int (*guard)(const Node& directory) = nullptr;
  /// If set, changes other attributes after this one has its new value.
  void (*after)(Node& directory, const std::string& before) = nullptr;
  Shower show = &show_line;
  /// Hooks::on_read is asked first: sessions and counters.
  bool is_live = false;
  KernelVersion since{0, 0};  // Before, no program sees it.
};

/// A directory that is made with its parent, and can't be removed alone.
struct Group {
  std::string_view name;
  const Kind* kind = nullptr;
};

struct Kind {
  std::span<const Attribute> attributes;
  std::span<const Group> groups;
  /// If set, mkdir makes directories of the kind that this rule returns for the name.
  Answer<const Kind*> (*child)(const Node& directory, std::string_view name) = nullptr;
  /// Fills a new directory. Its parent is set, and its attributes have their first values.
  void (*made)(Node& directory, Hooks& hooks) = nullptr;
  void (*removed)(Node& directory) = nullptr;
  /// If set, the directory takes links to what this rule answers 0 for.
  int (*link)(const Node& directory, const Node& target) = nullptr;
  void (*linked)(Node& directory) = nullptr;
};

}  // namespace verbatim::ulp::target_tree
