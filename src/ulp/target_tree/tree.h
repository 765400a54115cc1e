#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "ulp/target_tree/hooks.h"
#include "ulp/target_tree/node.h"

namespace verbatim::ulp::target_tree {

/// What stat tells. Attributes have 4096 bytes, whatever they hold.
struct Status {
  enum class Type { directory, attribute, link } type = Type::directory;
  unsigned mode = 0;
  std::size_t bytes = 0;
  std::size_t links = 1;
};

/// A tree with configfs's rules: programs make directories, and the attributes and the groups in
/// them come by themselves. Has no I/O: what happens is told to `hooks`.
///
/// Paths start at the root, `nvmet/ports/1`; a slash at the beginning changes nothing. A link on
/// the way is followed; "." and ".." are understood.
class Tree {
 public:
  /// Where programs see the tree.
  static constexpr std::string_view kMount = "/sys/kernel/config/";
  /// Bounds of what programs can make us keep: more is ENOSPC (the groups
  /// that come with a directory aside). ENAMETOOLONG for names and paths.
  static constexpr std::size_t kNodesMax = 1 << 16;
  static constexpr std::size_t kBytesMax = 32 << 20;
  static constexpr std::size_t kNameBytesMax = 255;
  static constexpr std::size_t kPathBytesMax = 4095;
  /// A longer write is cut there, as the kernel does.
  static constexpr std::size_t kValueBytesMax = 4095;

  explicit Tree(Hooks& hooks);
  /// Before `add`: attributes that came later are not there.
  void use_kernel(KernelVersion kernel) { kernel_ = kernel; }
  /// Adds a directory of the root, as loading a module does.
  void add(std::string_view name, const Kind& kind);

  Answer<void> mkdir(std::string_view path);
  Answer<void> rmdir(std::string_view path);
  /// `target` is a path of the tree, or an absolute one of the system: EPERM if it is elsewhere.
  Answer<void> symlink(std::string_view target, std::string_view path);
  Answer<void> unlink(std::string_view path);
  Answer<std::string> read(std::string_view path) const;
  /// Returns the number of bytes that were taken.
  Answer<std::size_t> write(std::string_view path, std::string_view bytes);
  /// What the daemon itself has changed: no rule and no hook is asked. Nothing if it is not there.
  void note(std::string_view path, std::string value);
  /// What was made last comes first.
  Answer<std::vector<std::string>> list(std::string_view path) const;
  /// Relative: up to the root, then down.
  Answer<std::string> readlink(std::string_view path) const;
  Answer<Status> stat(std::string_view path) const;
  Answer<void> chmod(std::string_view path, unsigned mode);

  const Node& root() const { return root_; }
  const Tally& tally() const { return tally_; }

 private:
  /// Where a path leads: a directory, or an attribute of it.
  struct Place {
    Node* node = nullptr;
    int attribute = -1;
  };
  /// A name in a directory, before it is known what it is.
  struct Entry {
    Node* directory = nullptr;
    std::string_view name;
  };
  Answer<Entry> entry(std::string_view path) const;
  Answer<Place> find(std::string_view path) const;
  Answer<Place> find_attribute(std::string_view path) const;
  /// Answers EEXIST if the name is taken.
  Answer<Entry> new_entry(std::string_view path) const;
  std::unique_ptr<Node> build(const Kind& kind, std::string_view name, Node& parent);
  bool is_full(std::size_t more_bytes) const;

  Hooks& hooks_;
  KernelVersion kernel_;
  Tally tally_;
  mutable Node root_;
};

}  // namespace verbatim::ulp::target_tree
