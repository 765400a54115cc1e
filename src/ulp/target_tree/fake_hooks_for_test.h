#pragma once

#include <cerrno>
#include <map>
#include <set>
#include <string>

#include "ulp/target_tree/hooks.h"

namespace verbatim::ulp::target_tree {

/// A daemon on a host that has some files, addresses and ports. What has no name here is not there.
class FakeHooks : public Hooks {
 public:
  /// A line of a table of operations: adds `value` to the set `what`, or, if `what` is a path,
  /// makes it what that live attribute shows.
  std::string prepare(const std::string& what, const std::string& value) {
    if (what.find('/') == std::string::npos)
      sets_[what].insert(value);
    else
      live_[what] = value;
    return "ok";
  }

  int on_write(const Node& directory, std::string_view attribute, std::string_view value) override {
    if (attribute == "dbroot") return has("file", value) ? 0 : ENOENT;
    if (attribute == "iser" && value == "1")
      return has("rdma", address(directory.name)) ? 0 : EADDRNOTAVAIL;
    if (attribute != "enable" || value != "1") return 0;
    for (const std::string_view path : {"device_path", "fd_dev_name"})
      if (directory.find(path) >= 0 && !has("file", directory.value(path))) return ENOENT;
    return 0;
  }

  int on_make(const Node& directory) override {
    const std::string& parent = directory.parent->name;
    if (parent == "srpt") return has("port", directory.name) ? 0 : EINVAL;
    if (parent == "rdma_cm") return has("device", directory.name) ? 0 : ENODEV;
    if (parent != "np") return 0;
    return has("listener", directory.name) ||
                   directory.parent->child(any(directory.name)) != nullptr
               ? EINVAL
               : 0;
  }

  int on_link(const Node& directory, const Node& /*target*/) override {
    const Node& port = *directory.parent;
    if (port.find("addr_traddr") < 0 || !directory.children.empty()) return 0;
    const std::string& at = port.value("addr_traddr");
    if (at.find('.') == std::string::npos) return EINVAL;
    if (!has("address", at)) return EADDRNOTAVAIL;
    for (const auto& other : port.parent->children)
      if (other.get() != &port && other->value("addr_traddr") == at &&
          !other->child("subsystems")->children.empty())
        return EADDRINUSE;
    return 0;
  }

  std::optional<std::string> on_read(const Node& directory, std::string_view attribute) override {
    const auto found = live_.find(directory.path() + "/" + std::string(attribute));
    if (found == live_.end()) return std::nullopt;
    return found->second;
  }

  std::string random_digits(std::size_t count) override { return std::string(count, 'a'); }

 private:
  bool has(const std::string& what, std::string_view value) {
    return sets_[what].contains(std::string(value));
  }
  static std::string address(const std::string& portal) {
    return portal.substr(0, portal.rfind(':'));
  }
  static std::string any(const std::string& portal) {
    return "0.0.0.0" + portal.substr(portal.rfind(':'));
  }

  std::map<std::string, std::set<std::string>> sets_;
  std::map<std::string, std::string> live_;
};

}  // namespace verbatim::ulp::target_tree
