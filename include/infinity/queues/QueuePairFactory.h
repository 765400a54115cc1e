#pragma once

#include <infinity/core/Context.h>
#include <infinity/queues/QueuePair.h>
#include <stdint.h>
#include <stdlib.h>

namespace infinity {
namespace queues {

/// Connects queue pairs. Thread-safe, also for calls of one factory. User data has at most
/// Configuration::MAX_CONNECTION_USER_DATA_SIZE bytes and is copied at once. Each call throws
/// `Error` if it fails. The caller deletes queue pairs, before their context.
class QueuePairFactory {
 public:
  QueuePairFactory(infinity::core::Context* context);
  ~QueuePairFactory();
  QueuePairFactory(const QueuePairFactory&) = delete;
  QueuePairFactory& operator=(const QueuePairFactory&) = delete;

  /// Listens at the TCP port, at all addresses of the machine.
  void bindToPort(uint16_t port);

  /// Waits for a peer without limit. If a peer fails to connect, a line is written to standard
  /// error, and the wait continues.
  QueuePair* acceptIncomingConnection(void* userData = nullptr, uint32_t userDataSizeInBytes = 0);

  /// `hostAddress` is an address or a name. Waits until the peer has accepted.
  QueuePair* connectToRemoteHost(const char* hostAddress, uint16_t port, void* userData = nullptr,
                                 uint32_t userDataSizeInBytes = 0);

  /// Creates a queue pair that is connected to itself and receives its own user data.
  QueuePair* createLoopback(void* userData = nullptr, uint32_t userDataSizeInBytes = 0);

 protected:
  infinity::core::Context* context;
  int32_t serverSocket;
};

}  // namespace queues
}  // namespace infinity
