#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ulp/target_tree/kind.h"

namespace verbatim::ulp::target_tree {

/// What all directories and links of a tree take.
struct Tally {
  std::size_t nodes = 0;
  std::size_t bytes = 0;
};

/// A directory, or a link to one. Counted in `tally` as long as it exists.
struct Node {
  Node(Tally& counted_in, const Kind& of_kind, std::string_view called, Node* above);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  Tally* tally;
  const Kind* kind;
  std::string name;
  Node* parent;
  Node* target = nullptr;   // Of a link.
  bool is_default = false;  // Made with its parent: rmdir answers EPERM.

  /// One entry for each of the kind's attributes; changed by set() alone.
  std::vector<std::string> values;
  std::vector<unsigned> modes;
  /// The newest first, as configfs lists them.
  std::list<std::unique_ptr<Node>> children;
  /// Links whose target this directory is.
  std::vector<Node*> links_here;

  bool is_link() const { return target != nullptr; }
  Node* child(std::string_view child_name) const;
  /// Returns the place of an attribute in `values`, or -1.
  int find(std::string_view attribute) const;
  /// The kind has the attribute: anything else is a bug.
  const std::string& value(std::string_view attribute) const;
  void set(std::string_view attribute, std::string value);
  void set(std::size_t place, std::string value);
  bool is_set(std::string_view attribute) const { return value(attribute) == "1"; }
  /// Returns the directory that the first link in this one points to, or nullptr.
  Node* linked() const;
  /// Returns true if there is a directory or a link that a program made.
  bool has_made_children() const;
  /// From the root of the tree, without a slash at its beginning.
  std::string path() const;
};

}  // namespace verbatim::ulp::target_tree
