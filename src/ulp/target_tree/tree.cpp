#include "ulp/target_tree/tree.h"

#include <algorithm>
#include <cerrno>

namespace verbatim::ulp::target_tree {
namespace {

constexpr Kind kPlain{};

Answer<void> answer(int code) {
  if (code != 0) return std::unexpected(code);
  return {};
}

/// Takes the first part of a path off it, and the slashes around it.
std::string_view take_part(std::string_view& path) {
  path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
  const std::string_view part = path.substr(0, path.find('/'));
  path.remove_prefix(part.size());
  path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
  return part;
}

/// Returns why configfs keeps the directory, or 0: a link points into it (EBUSY), or a program made
/// something in it or in its default groups (ENOTEMPTY).
int kept(const Node& node) {
  if (!node.links_here.empty()) return EBUSY;
  for (const auto& child : node.children) {
    if (!child->is_default) return ENOTEMPTY;
    if (const int code = kept(*child); code != 0) return code;
  }
  return 0;
}

}  // namespace

Tree::Tree(Hooks& hooks) : hooks_(hooks), root_(tally_, kPlain, "", nullptr) {
  root_.is_default = true;
}

void Tree::add(std::string_view name, const Kind& kind) {
  auto node = build(kind, name, root_);
  node->is_default = true;
  root_.children.push_front(std::move(node));
}

bool Tree::is_full(std::size_t more_bytes) const {
  return tally_.nodes >= kNodesMax || tally_.bytes + more_bytes > kBytesMax;
}

std::unique_ptr<Node> Tree::build(const Kind& kind, std::string_view name, Node& parent) {
  auto node = std::make_unique<Node>(tally_, kind, name, &parent);
  for (std::size_t i = 0; i < kind.attributes.size(); ++i)
    if (kind.attributes[i].since > kernel_) node->modes[i] = kHidden;
  for (const Group& group : kind.groups) {
    node->children.push_front(build(*group.kind, group.name, *node));
    node->children.front()->is_default = true;
  }
  if (kind.made != nullptr) kind.made(*node, hooks_);
  return node;
}

Answer<Tree::Entry> Tree::entry(std::string_view path) const {
  if (path.size() > kPathBytesMax) return std::unexpected(ENAMETOOLONG);
  if (path.contains('\0')) return std::unexpected(EINVAL);
  Node* at = &root_;
  for (std::string_view part = take_part(path);; part = take_part(path)) {
    if (part.size() > kNameBytesMax) return std::unexpected(ENAMETOOLONG);
    if (path.empty()) return Entry{at, part};
    if (part == ".") continue;
    if (part == "..") {
      if (at->parent != nullptr) at = at->parent;
      continue;
    }
    Node* const next = at->child(part);
    if (next == nullptr) return std::unexpected(at->find(part) < 0 ? ENOENT : ENOTDIR);
    at = next->is_link() ? next->target : next;
  }
}

Answer<Tree::Place> Tree::find(std::string_view path) const {
  const auto found = entry(path);
  if (!found) return std::unexpected(found.error());
  const auto [directory, name] = *found;
  if (name.empty() || name == ".") return Place{directory};
  if (name == "..") return Place{directory->parent == nullptr ? directory : directory->parent};
  if (Node* const node = directory->child(name)) return Place{node};
  const int attribute = directory->find(name);
  if (attribute < 0 || directory->modes[static_cast<std::size_t>(attribute)] == kHidden)
    return std::unexpected(ENOENT);
  return Place{directory, attribute};
}

Answer<Tree::Place> Tree::find_attribute(std::string_view path) const {
  const auto place = find(path);
  if (place && place->attribute < 0) return std::unexpected(EISDIR);
  return place;
}

Answer<Tree::Entry> Tree::new_entry(std::string_view path) const {
  const auto found = entry(path);
  if (found && find(path)) return std::unexpected(EEXIST);
  return found;
}

Answer<void> Tree::mkdir(std::string_view path) {
  const auto at = new_entry(path);
  if (!at) return std::unexpected(at.error());
  const Kind& kind = *at->directory->kind;
  if (kind.child == nullptr) return std::unexpected(EPERM);
  const auto child = kind.child(*at->directory, at->name);
  if (!child) return std::unexpected(child.error());
  if (is_full(at->name.size())) return std::unexpected(ENOSPC);
  auto node = build(**child, at->name, *at->directory);
  if (const int code = hooks_.on_make(*node); code != 0) return std::unexpected(code);
  at->directory->children.push_front(std::move(node));
  return {};
}

Answer<void> Tree::rmdir(std::string_view path) {
  const auto place = find(path);
  if (!place) return std::unexpected(place.error());
  Node& node = *place->node;
  if (place->attribute >= 0 || node.is_link()) return std::unexpected(ENOTDIR);
  if (node.is_default) return std::unexpected(EPERM);
  if (const int code = kept(node); code != 0) return std::unexpected(code);
  if (const int code = hooks_.on_remove(node); code != 0) return std::unexpected(code);
  if (node.kind->removed != nullptr) node.kind->removed(node);
  node.parent->children.remove_if([&](const auto& child) { return child.get() == &node; });
  return {};
}

Answer<void> Tree::symlink(std::string_view target_path, std::string_view path) {
  const auto at = new_entry(path);
  if (!at) return std::unexpected(at.error());
  Node& directory = *at->directory;
  if (directory.kind->link == nullptr) return std::unexpected(EPERM);
  if (target_path.starts_with(kMount))
    target_path.remove_prefix(kMount.size());
  else if (target_path.starts_with('/'))
    return std::unexpected(EPERM);
  const auto place = find(target_path);
  if (!place) return std::unexpected(place.error());
  if (place->attribute >= 0) return std::unexpected(EPERM);
  Node* const target = place->node->is_link() ? place->node->target : place->node;
  if (const int code = directory.kind->link(directory, *target); code != 0)
    return std::unexpected(code);
  if (is_full(at->name.size())) return std::unexpected(ENOSPC);
  if (const int code = hooks_.on_link(directory, *target); code != 0) return std::unexpected(code);
  auto node = build(kPlain, at->name, directory);
  node->target = target;
  target->links_here.push_back(node.get());
  directory.children.push_front(std::move(node));
  if (directory.kind->linked != nullptr) directory.kind->linked(directory);
  return {};
}

Answer<void> Tree::unlink(std::string_view path) {
  const auto place = find(path);
  if (!place) return std::unexpected(place.error());
  Node& node = *place->node;
  if (place->attribute >= 0) return std::unexpected(EPERM);
  if (!node.is_link()) return std::unexpected(EISDIR);
  const int code = hooks_.on_unlink(*node.parent, *node.target);
  if (code != 0) return std::unexpected(code);
  std::erase(node.target->links_here, &node);
  node.parent->children.remove_if([&](const auto& child) { return child.get() == &node; });
  return {};
}

Answer<std::string> Tree::read(std::string_view path) const {
  const auto place = find_attribute(path);
  if (!place) return std::unexpected(place.error());
  const auto at = static_cast<std::size_t>(place->attribute);
  const Node& directory = *place->node;
  const Attribute& attribute = directory.kind->attributes[at];
  if ((directory.modes[at] & 0400) == 0) return std::unexpected(EACCES);
  if (attribute.is_live)
    if (auto text = hooks_.on_read(directory, attribute.name)) return *std::move(text);
  return attribute.show(attribute, directory);
}

Answer<std::size_t> Tree::write(std::string_view path, std::string_view bytes) {
  const auto place = find_attribute(path);
  if (!place) return std::unexpected(place.error());
  const auto at = static_cast<std::size_t>(place->attribute);
  Node& directory = *place->node;
  const Attribute& attribute = directory.kind->attributes[at];
  if ((directory.modes[at] & 0200) == 0) return std::unexpected(EACCES);
  if (bytes.empty()) return std::unexpected(EFAULT);
  bytes = bytes.substr(0, kValueBytesMax);
  if (attribute.guard != nullptr)
    if (const int code = attribute.guard(directory); code != 0) return std::unexpected(code);
  auto value = attribute.parse({attribute, directory, bytes});
  if (!value) return std::unexpected(value.error());
  if (is_full(value->size())) return std::unexpected(ENOSPC);
  if (*value != directory.values[at] || attribute.mode == kWriteOnly) {
    const int code = hooks_.on_write(directory, attribute.name, *value);
    if (code != 0) return std::unexpected(code);
  }
  const std::string before = directory.values[at];
  directory.set(at, *std::move(value));
  if (attribute.after != nullptr) attribute.after(directory, before);
  return bytes.size();
}

void Tree::note(std::string_view path, std::string value) {
  if (const auto place = find_attribute(path))
    place->node->set(static_cast<std::size_t>(place->attribute), std::move(value));
}

Answer<std::vector<std::string>> Tree::list(std::string_view path) const {
  const auto place = find(path);
  if (!place) return std::unexpected(place.error());
  if (place->attribute >= 0) return std::unexpected(ENOTDIR);
  const Node& node = place->node->is_link() ? *place->node->target : *place->node;
  std::vector<std::string> names;
  for (const auto& child : node.children) names.push_back(child->name);
  for (std::size_t i = 0; i < node.modes.size(); ++i)
    if (node.modes[i] != kHidden) names.emplace_back(node.kind->attributes[i].name);
  return names;
}

Answer<std::string> Tree::readlink(std::string_view path) const {
  const auto place = find(path);
  if (!place) return std::unexpected(place.error());
  if (!place->node->is_link()) return std::unexpected(EINVAL);
  std::string text;
  for (const Node* up = place->node->parent; up->parent != nullptr; up = up->parent) text += "../";
  return text + place->node->target->path();
}

Answer<Status> Tree::stat(std::string_view path) const {
  const auto place = find(path);
  if (!place) return std::unexpected(place.error());
  const Node& node = *place->node;
  if (place->attribute >= 0)
    return Status{Status::Type::attribute, node.modes[static_cast<std::size_t>(place->attribute)],
                  4096, 1};
  if (node.is_link()) return Status{Status::Type::link, 0777, 0, 1};
  const auto directories =
      std::ranges::count_if(node.children, [](const auto& child) { return !child->is_link(); });
  return Status{Status::Type::directory, 0755, 0, 2 + static_cast<std::size_t>(directories)};
}

Answer<void> Tree::chmod(std::string_view path, unsigned mode) {
  const auto place = find_attribute(path);
  if (!place) return place.error() == EISDIR ? Answer<void>{} : answer(place.error());
  // An attribute without any bit would be taken for hidden state.
  unsigned& kept_mode = place->node->modes[static_cast<std::size_t>(place->attribute)];
  if ((mode & 0777) != 0) kept_mode = mode & 0777;
  return {};
}

}  // namespace verbatim::ulp::target_tree
