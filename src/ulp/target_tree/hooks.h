#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "ulp/target_tree/node.h"

namespace verbatim::ulp::target_tree {

/// What a daemon does when the tree changes. Each call comes after the tree's own rules have agreed
/// and before the change can be seen; an errno other than 0 refuses it.
class Hooks {
 public:
  Hooks() = default;
  Hooks(const Hooks&) = delete;
  Hooks& operator=(const Hooks&) = delete;
  virtual ~Hooks() = default;

  /// The directory's attribute gets another value, or is one that only takes commands.
  virtual int on_write(const Node& /*directory*/, std::string_view /*attribute*/,
                       std::string_view /*value*/) {
    return 0;
  }
  /// The directory is whole, but not in its parent yet.
  virtual int on_make(const Node& /*directory*/) { return 0; }
  virtual int on_remove(const Node& /*directory*/) { return 0; }
  virtual int on_link(const Node& /*directory*/, const Node& /*target*/) { return 0; }
  virtual int on_unlink(const Node& /*directory*/, const Node& /*target*/) { return 0; }
  /// Returns the text of a live attribute (sessions, counters), or nothing for the text that it has
  /// if nobody is logged in.
  virtual std::optional<std::string> on_read(const Node& /*directory*/,
                                             std::string_view /*attribute*/) {
    return std::nullopt;
  }
  /// Returns random hexadecimal digits, for serial numbers and UUIDs.
  virtual std::string random_digits(std::size_t count) = 0;
};

}  // namespace verbatim::ulp::target_tree
