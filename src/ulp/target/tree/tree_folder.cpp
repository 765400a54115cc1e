#include "ulp/target/tree/tree_folder.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <ranges>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/unique_fd.h"

namespace verbatim::ulp::target {
namespace {

using target_tree::Status;

void complain(const std::string& path) {
  log(LogLevel::warn, "programs do not see {} of the target's tree: {}", path,
      std::strerror(errno));
}

}  // namespace

Result<TreeFolder> TreeFolder::create(const target_tree::Tree& tree, std::string path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
  if (mkdir(path.c_str(), 0755) != 0) return refuse_errno(path);
  TreeFolder folder(tree, std::move(path));
  for (const auto& child : tree.root().children) folder.add(child->name);
  return folder;
}

TreeFolder::~TreeFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

void TreeFolder::add(const std::string& path) {
  const auto status = tree_->stat(path);
  if (!status) return;
  const std::string here = path_ + "/" + path;
  if (status->type == Status::Type::directory) return add_directory(path);
  if (status->type == Status::Type::link) {
    if (symlink(tree_->readlink(path)->c_str(), here.c_str()) != 0) complain(path);
    return;
  }
  const UniqueFd file(open(here.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!file || ftruncate(file.get(), static_cast<off_t>(status->bytes)) != 0 ||
      fchmod(file.get(), status->mode) != 0)
    complain(path);
}

/// The oldest first: where a folder lists what was made last before the rest, as configfs does, so
/// does the copy.
void TreeFolder::add_directory(const std::string& path) {
  if (mkdir((path_ + "/" + path).c_str(), 0755) != 0) return complain(path);
  const auto names = tree_->list(path);
  for (const std::string& name : *names | std::views::reverse) add(path + "/" + name);
}

void TreeFolder::remove(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path_ + "/" + path, error);
}

void TreeFolder::change_mode(const std::string& path, unsigned mode) {
  const auto status = tree_->stat(path);
  if (status && status->type == Status::Type::attribute &&
      chmod((path_ + "/" + path).c_str(), mode & 0777) != 0)
    complain(path);
}

}  // namespace verbatim::ulp::target
