#include "ulp/target_tree/node.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace verbatim::ulp::target_tree {

Node::Node(Tally& counted_in, const Kind& of_kind, std::string_view called, Node* above)
    : tally(&counted_in), kind(&of_kind), name(called), parent(above) {
  for (const Attribute& attribute : kind->attributes) {
    values.emplace_back(attribute.value);
    modes.push_back(attribute.mode);
    tally->bytes += attribute.value.size();
  }
  ++tally->nodes;
  tally->bytes += name.size();
}

Node::~Node() {
  --tally->nodes;
  tally->bytes -= name.size();
  for (const std::string& value : values) tally->bytes -= value.size();
}

Node* Node::child(std::string_view child_name) const {
  for (const auto& node : children)
    if (node->name == child_name) return node.get();
  return nullptr;
}

int Node::find(std::string_view attribute) const {
  const auto& all = kind->attributes;
  const auto found = std::ranges::find(all, attribute, &Attribute::name);
  return found == all.end() ? -1 : static_cast<int>(found - all.begin());
}

const std::string& Node::value(std::string_view attribute) const {
  const int at = find(attribute);
  VERBATIM_ASSERT(at >= 0);
  return values[static_cast<std::size_t>(at)];
}

void Node::set(std::string_view attribute, std::string value) {
  const int at = find(attribute);
  VERBATIM_ASSERT(at >= 0);
  set(static_cast<std::size_t>(at), std::move(value));
}

void Node::set(std::size_t place, std::string value) {
  tally->bytes += value.size();
  tally->bytes -= values[place].size();
  values[place] = std::move(value);
}

Node* Node::linked() const {
  for (const auto& node : children)
    if (node->is_link()) return node->target;
  return nullptr;
}

bool Node::has_made_children() const {
  return std::ranges::any_of(children, [](const auto& node) { return !node->is_default; });
}

std::string Node::path() const {
  if (parent == nullptr) return {};
  std::string above = parent->path();
  return above.empty() ? name : above + "/" + name;
}

}  // namespace verbatim::ulp::target_tree
