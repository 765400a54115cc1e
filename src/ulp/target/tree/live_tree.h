#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ulp/target/tree/system_bus.h"
#include "ulp/target/tree/tree_folder.h"
#include "ulp/target/tree/tree_part.h"
#include "ulp/target/tree/tree_socket.h"
#include "ulp/target_tree/tree.h"

namespace verbatim::ulp::target {

/// The tree of a target that runs, as programs change it: what they ask goes to the tree, what the
/// tree takes goes to the parts, and the copy on disk follows.
///
///     program, preloaded --- TreeSocket ---> Tree --- Hooks ---> parts ---> engines
///            '------ reads ------> TreeFolder <-'
class LiveTree final : private target_tree::Hooks {
 public:
  explicit LiveTree(target_tree::KernelVersion kernel = {});
  ~LiveTree() override;

  /// `top`: "target/iscsi". Parts outlive the tree, and are settled in the order in which they are
  /// added.
  void add(std::string top, TreePart& part) { parts_.emplace_back(std::move(top), &part); }
  /// Serves programs from now on: the folder has `config`, `socket`, `bus`, and room for what
  /// administrators' programs keep (`rtslib`, `nvmet`, links to the user's configuration).
  Result<void> open(service::Loop& loop, const std::string& folder, const std::string& kept);

  TreeSocket::Answer ask(TreeRequest asked, const std::string& path, std::string_view second);
  /// An attribute that the target itself has changed.
  void note(const std::string& path, std::string value) { tree_.note(path, std::move(value)); }
  const target_tree::Tree& tree() const { return tree_; }

 private:
  Result<void> show(service::Loop& loop, const std::string& folder);
  int on_write(const target_tree::Node& directory, std::string_view attribute,
               std::string_view value) override;
  int on_make(const target_tree::Node& directory) override;
  int on_remove(const target_tree::Node& directory) override;
  int on_link(const target_tree::Node& directory, const target_tree::Node& target) override;
  int on_unlink(const target_tree::Node& directory, const target_tree::Node& target) override;
  std::optional<std::string> on_read(const target_tree::Node& directory,
                                     std::string_view attribute) override;
  std::string random_digits(std::size_t count) override;

  TreePart* part_of(const std::string& path) const;
  template <typename Ask>
  int ask_part(const target_tree::Node& directory, Ask ask);
  void note_users(const target_tree::Node& directory);
  const target_tree::Node* find(std::string_view path) const;
  void settle();

  std::vector<std::pair<std::string, TreePart*>> parts_;
  std::vector<std::string> changed_;  // Paths of directories, since the parts were settled.
  target_tree::Tree tree_;
  std::string path_;
  std::optional<TreeFolder> folder_;
  std::unique_ptr<TreeSocket> socket_;
  std::unique_ptr<SystemBus> bus_;
};

}  // namespace verbatim::ulp::target
