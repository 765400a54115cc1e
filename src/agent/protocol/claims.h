#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/net/address.h"
#include "service/folder.h"

namespace verbatim::agent {

/// What only one node of a namespace may have: addresses, and the identity of an interface. A
/// locked file for each, with the node's name in it, held as long as the agent runs.
class Claims {
 public:
  Claims(const service::RuntimeFolder& folder, std::string node)
      : folder_(folder), node_(std::move(node)) {}

  /// What becomes of another node that has it and has no programs: it ends, or keeps it. An agent
  /// that serves asks none to end, since that one may be asking it.
  enum class IdleOwner { ends, keeps };

  /// EADDRINUSE if another node has it: "127.0.0.2 is already the address of node 'b'".
  Result<void> take_address(const SocketAddress& address, IdleOwner owner);
  /// Returns false if another node has it.
  bool take_interface(const std::string& name, IdleOwner owner);
  /// Claims the addresses that the interface gets from now on; one node keeps this claim.
  bool take_new_addresses(const std::string& interface);
  /// Releases the last claim.
  void release_last();
  /// Removes the files.
  void release();

 private:
  Result<void> take(const std::string& what, IdleOwner owner);

  service::RuntimeFolder folder_;
  std::string node_;
  std::vector<service::LockFile> held_;
  bool has_new_addresses_ = false;
};

/// Returns this user's node with the address. ENOENT if there is none, or it does not run.
Result<std::string> node_with_address(const service::RuntimeFolder& folder,
                                      const SocketAddress& address);

}  // namespace verbatim::agent
