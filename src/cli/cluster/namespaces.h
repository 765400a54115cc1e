#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "cli/cluster/description.h"

/// The namespaces of a cluster's nodes: each has a network and a host name of its own, and all have
/// one user namespace (of two, programs could not read each other's memory) and one /etc/hosts.
namespace verbatim::cli::cluster {

/// Keeps the namespaces as long as it lives.
class Namespaces {
 public:
  /// Makes a switch and a cable to it for each node. Fills in the nodes' holders and networks.
  /// `hosts`: a file, which becomes their /etc/hosts. Without root it takes a user namespace. EPERM
  /// says what to do where the system allows none; ENOENT: `ip` is missing.
  static Result<Namespaces> create(Description& description, const std::string& hosts);
  Namespaces(Namespaces&&) = default;
  ~Namespaces();

  /// Readable when the keeper has ended.
  int keeper() const { return keeper_.get(); }

 private:
  explicit Namespaces(UniqueFd keeper) : keeper_(std::move(keeper)) {}
  UniqueFd keeper_;  // A process of this one: a pidfd.
};

/// Moves this process, which has one thread, into the node: also from another node of the cluster.
/// The folder that it works in stays. ESRCH: the node has gone.
Result<void> enter(const Node& node);

}  // namespace verbatim::cli::cluster
