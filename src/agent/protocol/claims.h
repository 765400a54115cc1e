#pragma once

#include <string>
#include <vector>

#include "agent/protocol/runtime_folder.h"
#include "base/error.h"
#include "base/net/address.h"

namespace verbatim::agent {

/// What one node of a namespace has to itself: its addresses, and the identity of an interface. A
/// locked file each, with the node's name in it, held as long as the agent runs.
class Claims {
 public:
  Claims(const RuntimeFolder& folder, std::string node) : folder_(folder), node_(std::move(node)) {}

  /// EADDRINUSE where it is another node's: "127.0.0.2 is already the address of node 'b'".
  Result<void> take_address(const SocketAddress& address);
  /// False where another node has it.
  bool take_interface(const std::string& name);
  /// The right to the addresses that the interface gets from now on: one node's, which keeps it.
  bool take_new_addresses(const std::string& interface);
  /// Gives back what was taken last.
  void release_last();
  /// Removes the files.
  void release();

 private:
  Result<void> take(const std::string& what);

  RuntimeFolder folder_;
  std::string node_;
  std::vector<LockFile> held_;
  bool has_new_addresses_ = false;
};

/// The node of this user that has the address. ENOENT: none, or it does not run.
Result<std::string> node_with_address(const RuntimeFolder& folder, const SocketAddress& address);

}  // namespace verbatim::agent
