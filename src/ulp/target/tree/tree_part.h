#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ulp/target_tree/hooks.h"

namespace verbatim::ulp::target {

/// What one folder of the tree means for what is served. A call that may be refused comes before
/// the change (target_tree/hooks.h); everything else is done by `settle`, which makes what is
/// served as the tree says, whatever has changed.
class TreePart {
 public:
  virtual ~TreePart() = default;
  virtual int on_write(const target_tree::Node& /*directory*/, std::string_view /*attribute*/,
                       std::string_view /*value*/) {
    return 0;
  }
  virtual int on_make(const target_tree::Node& /*directory*/) { return 0; }
  virtual int on_remove(const target_tree::Node& /*directory*/) { return 0; }
  virtual int on_link(const target_tree::Node& /*directory*/, const target_tree::Node& /*target*/) {
    return 0;
  }
  virtual int on_unlink(const target_tree::Node& /*directory*/,
                        const target_tree::Node& /*target*/) {
    return 0;
  }
  virtual std::optional<std::string> on_read(const target_tree::Node& /*directory*/,
                                             std::string_view /*attribute*/) {
    return std::nullopt;
  }
  /// `top`: the part's folder; null: it is not there. `changed`: the path below it of what has
  /// changed; "" if all may have.
  virtual void settle(const target_tree::Node* top, std::string_view changed) = 0;
};

/// An attribute as programs set it: without the newline, and "NULL" for nothing, as rtslib writes
/// it.
std::string text_of(const target_tree::Node& directory, std::string_view attribute);
/// 0 if it is no number.
std::uint64_t number_of(const target_tree::Node& directory, std::string_view attribute);

}  // namespace verbatim::ulp::target
