#pragma once

#include <infinity/core/Context.h>
#include <infinity/queues/QueuePair.h>
#include <stdint.h>
#include <stdlib.h>

namespace infinity {
namespace queues {

/// Connects queue pairs. All its calls may be made from many threads at once, also of one factory.
/// User data is at most Configuration::MAX_CONNECTION_USER_DATA_SIZE bytes, copied at once. Each
/// call throws `Error` if it fails. The caller deletes queue pairs, before their context.
class QueuePairFactory {
 public:
  QueuePairFactory(infinity::core::Context* context);
  ~QueuePairFactory();
  QueuePairFactory(const QueuePairFactory&) = delete;
  QueuePairFactory& operator=(const QueuePairFactory&) = delete;

  /// Listens at the TCP port, on all addresses of the machine.
  void bindToPort(uint16_t port);

  /// Waits for a peer, as long as it takes. One that fails to connect is told of on standard error,
  /// and the next one is waited for.
  QueuePair* acceptIncomingConnection(void* userData = nullptr, uint32_t userDataSizeInBytes = 0);

  /// The host is an address or a name. Waits until the peer has accepted.
  QueuePair* connectToRemoteHost(const char* hostAddress, uint16_t port, void* userData = nullptr,
                                 uint32_t userDataSizeInBytes = 0);

  /// A queue pair that is connected to itself; its user data are its own.
  QueuePair* createLoopback(void* userData = nullptr, uint32_t userDataSizeInBytes = 0);

 protected:
  infinity::core::Context* context;
  int32_t serverSocket;
};

}  // namespace queues
}  // namespace infinity
