#pragma once

#include <string>

#include "base/error.h"
#include "ulp/target_tree/tree.h"

namespace verbatim::ulp::target {

/// The shape of a tree as a folder on disk, in which programs list and walk: directories, links,
/// and for each attribute a file of its mode and of 4,096 bytes. What an attribute holds is not
/// there: programs ask the daemon (tree_socket.h).
class TreeFolder {
 public:
  /// Makes the folder anew. The tree outlives it.
  static Result<TreeFolder> create(const target_tree::Tree& tree, std::string path);
  TreeFolder(TreeFolder&& other) noexcept : tree_(other.tree_) { path_.swap(other.path_); }
  ~TreeFolder();

  /// A directory or a link of the tree is new, gone, or has another mode. If the disk is full,
  /// programs see less than there is: a line in the log says so.
  void add(const std::string& path);
  void remove(const std::string& path);
  void change_mode(const std::string& path, unsigned mode);

 private:
  TreeFolder(const target_tree::Tree& tree, std::string path)
      : tree_(&tree), path_(std::move(path)) {}
  void add_directory(const std::string& path);

  const target_tree::Tree* tree_;
  std::string path_;
};

}  // namespace verbatim::ulp::target
