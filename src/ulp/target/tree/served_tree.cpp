#include "ulp/target/tree/served_tree.h"

#include <cstdlib>

#include "service/control.h"

namespace verbatim::ulp::target {
namespace {

/// Of the user: what programs save stays when the target ends.
std::string kept_folder(const std::string& name) {
  const char* const configuration = std::getenv("XDG_CONFIG_HOME");
  const char* const home = std::getenv("HOME");
  const bool is_set = configuration != nullptr && *configuration == '/';
  const std::string base =
      is_set ? configuration : std::string(home == nullptr ? "/tmp" : home) + "/.config";
  return base + "/verbatim/target/" + name;
}

}  // namespace

ServedTree::ServedTree(const Engines& engines)
    : devices_(engines.runner, engines.driver.device(), engines.loop),
      portals_(engines.runner, engines.driver, engines.tcp, engines.iscsi.iser(),
               engines.iscsi.tcp()),
      iscsi_(engines.iscsi.sessions(), engines.runner, portals_, devices_),
      nvmet_(engines.nvme, engines.runner, engines.driver, devices_, engines.nvme_receives),
      srpt_(engines.srp, engines.runner, engines.driver.device(), devices_),
      tree_(engines.kernel) {
  devices_.follow(
      [this](const std::string& path, std::string value) { tree_.note(path, std::move(value)); });
  tree_.add("target/core", devices_);
  tree_.add("target/iscsi", iscsi_);
  tree_.add("target/srpt", srpt_);
  tree_.add("nvmet", nvmet_);
}

void ServedTree::add_places(std::vector<std::string>& places) const {
  portals_.add_places(places);
  nvmet_.add_places(places);
}

Result<void> ServedTree::open(service::Loop& loop, const std::string& name) {
  const auto folder = service::folder_of({"target", name});
  if (!folder) return std::unexpected(folder.error());
  unsetenv("VERBATIM_TARGET");  // Started by a program that sees a tree, it would ask itself.
  devices_.keep_in(kept_folder(name));
  nvmet_.keep_in(kept_folder(name));
  return tree_.open(loop, *folder, kept_folder(name));
}

}  // namespace verbatim::ulp::target
