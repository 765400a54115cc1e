#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "service/control.h"

/// Descriptors that outlive a daemon. A small process holds them, beside the daemon that uses them.
/// If that is killed, the next one of its name takes them over; one that ends as it should ends the
/// keeper, too.
namespace verbatim::service {

struct Kept {
  std::string name;  // At most kNameMax bytes, without a zero.
  UniqueFd fd;
};

class Keeper {
 public:
  static constexpr std::size_t kDescriptorsMax = 64;
  static constexpr std::size_t kNameMax = 15;

  /// The socket of a daemon's keeper.
  static Result<std::string> path_of(const ServiceName& name);
  /// What the keeper at `path` holds. ENOENT or ECONNREFUSED: there is none.
  static Result<std::vector<Kept>> ask(const std::string& path);
  /// Starts a process that holds these. One that was there before ends then.
  static Result<void> start(const std::string& path,
                            std::span<const std::pair<std::string, int>> descriptors);
  /// Ends the keeper, and waits until it has closed its descriptors. Returns false if there is
  /// none.
  static bool end(const std::string& path);
};

}  // namespace verbatim::service
