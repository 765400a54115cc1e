#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>
#include <sys/types.h>

#include "base/error.h"

/// What a cluster's daemon tells of it, and its commands read.
namespace verbatim::cli::cluster {

struct Node {
  std::string name;           // Its host name: "n1".
  std::string address;        // In its own network namespace: "10.77.0.1".
  std::string host;           // Of a fabric; else empty.
  pid_t holder = 0;           // A process that does nothing but keep the node's namespaces.
  std::uint64_t network = 0;  // The inode of the network namespace.
};

struct Description {
  std::string name;
  unsigned slots = 1;    // Of a node, in a hostfile.
  std::string protocol;  // Of VERBATIM_PROTOCOL; empty: the default.
  std::string fabric;    // Of `Node::host`.
  std::vector<Node> nodes;

  /// By name, address or host. ENOENT names those that there are.
  Result<Node> find(std::string_view text) const;
};

void to_json(nlohmann::json& json, const Description& description);
void from_json(const nlohmann::json& json, Description& description);

/// Where its description is for programs that run in it: in their network namespaces the runtime
/// folder is another one.
inline constexpr const char* kVariable = "VERBATIM_CLUSTER";

/// The files of a cluster in the user's runtime folder.
Result<std::string> file_of(const std::string& name, const char* ending);
/// The cluster of this process, if it runs in one, else the one of that name. ENOENT: how to start
/// one.
Result<Description> description_of(const std::string& name);

}  // namespace verbatim::cli::cluster
