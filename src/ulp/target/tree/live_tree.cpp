#include "ulp/target/tree/live_tree.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "ulp/target_tree/lio/lio.h"
#include "ulp/target_tree/nvmet.h"
#include "ulp/target_tree/parsers.h"
#include "ulp/target_tree/rdma_cm.h"

namespace verbatim::ulp::target {
namespace {

using target_tree::Node;

/// Returns true if `path` is `top` or below it.
bool lies_in(std::string_view path, std::string_view top) {
  return path.starts_with(top) && (path.size() == top.size() || path[top.size()] == '/');
}

template <typename T>
TreeSocket::Answer answer(const target_tree::Answer<T>& given) {
  TreeSocket::Answer answer;
  if (!given) answer.code = given.error();
  if constexpr (std::is_same_v<T, std::string>) {
    if (given) answer.text = *given;
  } else if constexpr (std::is_same_v<T, std::size_t>) {
    if (given) answer.text = std::to_string(*given);
  }
  return answer;
}

unsigned mode_of(std::string_view text) {
  unsigned mode = 0;
  std::from_chars(text.data(), text.data() + text.size(), mode);
  return mode;
}

/// What programs save lies in `kept`; where that cannot be, in the runtime folder, which goes with
/// the target.
void link_saved(const std::string& folder, const std::string& kept) {
  for (const char* const name : {"rtslib", "nvmet"}) {
    std::error_code error;
    std::filesystem::create_directories(kept + "/" + name + "/backup", error);
    if (!error)
      std::filesystem::create_directory_symlink(kept + "/" + name, folder + "/" + name, error);
    if (!error) continue;
    log(LogLevel::warn, "what {} saves is lost with this target: {}: {}", name, kept,
        error.message());
    std::filesystem::create_directories(folder + "/" + name + "/backup", error);
  }
}

}  // namespace

LiveTree::LiveTree(target_tree::KernelVersion kernel) : tree_(*this) {
  tree_.use_kernel(kernel);
  tree_.add("rdma_cm", target_tree::kRdmaCm);
  tree_.add("nvmet", target_tree::kNvmet);
  tree_.add("target", target_tree::kLio);
}

LiveTree::~LiveTree() {
  socket_.reset();
  bus_.reset();
  folder_.reset();
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Result<void> LiveTree::open(service::Loop& loop, const std::string& folder,
                            const std::string& kept) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  std::filesystem::create_directories(folder + "/run", error);
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  link_saved(folder, kept);
  path_ = folder;
  auto made = TreeFolder::create(tree_, folder + "/config");
  if (!made) return std::unexpected(made.error());
  folder_.emplace(std::move(*made));
  const auto shown = show(loop, folder);
  if (shown || shown.error().code != ENAMETOOLONG) return shown;
  log(LogLevel::warn,
      "targetcli and nvmetcli cannot reach this target: set XDG_RUNTIME_DIR to a shorter path ({})",
      shown.error().text);
  return {};
}

/// Opens the sockets by which programs see the tree.
Result<void> LiveTree::show(service::Loop& loop, const std::string& folder) {
  auto socket =
      TreeSocket::create(loop, folder + "/socket",
                         [this](TreeRequest asked, const std::string& path,
                                std::string_view second) { return ask(asked, path, second); });
  if (!socket) return std::unexpected(socket.error());
  socket_ = std::move(*socket);
  auto bus = SystemBus::create(loop, folder + "/bus");
  if (!bus) return std::unexpected(bus.error());
  bus_ = std::move(*bus);
  return {};
}

TreeSocket::Answer LiveTree::ask(TreeRequest asked, const std::string& path,
                                 std::string_view second) {
  TreeSocket::Answer given;
  switch (asked) {
    case TreeRequest::read:
      return answer(tree_.read(path));
    case TreeRequest::open: {
      const auto status = tree_.stat(path);
      if (!status) return {.code = status.error(), .text = {}};
      if (status->type != target_tree::Status::Type::attribute) return {.code = EISDIR, .text = {}};
      return {.code = (status->mode & 0200) == 0 ? EACCES : 0, .text = {}};
    }
    case TreeRequest::write:
      given = answer(tree_.write(path, second));
      break;
    case TreeRequest::make:
      given = answer(tree_.mkdir(path));
      if (given.code == 0 && folder_) folder_->add(path);
      break;
    case TreeRequest::link:
      given = answer(tree_.symlink(second, path));
      if (given.code == 0 && folder_) folder_->add(path);
      break;
    case TreeRequest::remove:
      given = answer(tree_.rmdir(path));
      if (given.code == 0 && folder_) folder_->remove(path);
      break;
    case TreeRequest::unlink:
      given = answer(tree_.unlink(path));
      if (given.code == 0 && folder_) folder_->remove(path);
      break;
    case TreeRequest::change_mode:
      given = answer(tree_.chmod(path, mode_of(second)));
      if (given.code == 0 && folder_) folder_->change_mode(path, mode_of(second));
      break;
    default:
      given.code = ENOSYS;
  }
  settle();
  return given;
}

TreePart* LiveTree::part_of(const std::string& path) const {
  const auto found =
      std::ranges::find_if(parts_, [&](const auto& part) { return lies_in(path, part.first); });
  return found == parts_.end() ? nullptr : found->second;
}

/// Those who use a device change with it: LUNs, and what maps them.
void LiveTree::note_users(const Node& directory) {
  for (const Node* at = &directory; at != nullptr; at = at->parent)
    for (const Node* const link : at->links_here) changed_.push_back(link->path());
}

template <typename Ask>
int LiveTree::ask_part(const Node& directory, Ask ask) {
  const std::string path = directory.path();
  TreePart* const part = part_of(path);
  if (part == nullptr) return 0;
  if (const int code = ask(*part); code != 0) return code;
  note_users(directory);
  changed_.push_back(path);
  return 0;
}

int LiveTree::on_write(const Node& directory, std::string_view attribute, std::string_view value) {
  // What administrators' programs keep in /etc is the target's folder, which is there.
  std::error_code ignored;
  if (attribute == "dbroot" && !value.starts_with("/etc/") &&
      !std::filesystem::is_directory(target_tree::trimmed(value), ignored))
    return ENOENT;
  return ask_part(directory,
                  [&](TreePart& part) { return part.on_write(directory, attribute, value); });
}
int LiveTree::on_make(const Node& directory) {
  return ask_part(directory, [&](TreePart& part) { return part.on_make(directory); });
}
int LiveTree::on_remove(const Node& directory) {
  return ask_part(directory, [&](TreePart& part) { return part.on_remove(directory); });
}
int LiveTree::on_link(const Node& directory, const Node& target) {
  return ask_part(directory, [&](TreePart& part) { return part.on_link(directory, target); });
}
int LiveTree::on_unlink(const Node& directory, const Node& target) {
  const int code =
      ask_part(directory, [&](TreePart& part) { return part.on_unlink(directory, target); });
  // It is shown by one less.
  if (code == 0) changed_.push_back(target.path());
  return code;
}

std::optional<std::string> LiveTree::on_read(const Node& directory, std::string_view attribute) {
  TreePart* const part = part_of(directory.path());
  return part == nullptr ? std::nullopt : part->on_read(directory, attribute);
}

std::string LiveTree::random_digits(std::size_t count) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digits(count, '0');
  if (getrandom(digits.data(), count, 0) != static_cast<ssize_t>(count)) return digits;
  for (char& digit : digits) digit = kDigits[static_cast<unsigned char>(digit) % 16];
  return digits;
}

const Node* LiveTree::find(std::string_view path) const {
  const Node* at = &tree_.root();
  while (at != nullptr && !path.empty()) {
    const std::string_view name = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(name.size() + 1, path.size()));
    at = at->child(name);
  }
  return at;
}

void LiveTree::settle() {
  const auto changed = std::exchange(changed_, {});
  for (const auto& [top, part] : parts_) {
    for (const std::string& path : changed) {
      if (!lies_in(path, top)) continue;
      part->settle(find(top), std::string_view(path).substr(std::min(top.size() + 1, path.size())));
    }
  }
}

}  // namespace verbatim::ulp::target
