#include <exception>

#include <infinity/core/Configuration.h>
#include <infinity/queues/QueuePairFactory.h>
#include <unistd.h>

#include "infinity/failure.h"
#include "infinity/meeting/meeting.h"
#include "infinity/meeting/sockets.h"

namespace infinity::queues {

using detail::refuse;

namespace {

std::span<const std::byte> checked(const char* call, const void* data, uint32_t size) {
  if (size > detail::Greeting::kUserDataMax) {
    refuse("QueuePairFactory::", call, ": ", size, " bytes of user data; there is room for ",
           detail::Greeting::kUserDataMax);
  }
  return {static_cast<const std::byte*>(data), size};
}

}  // namespace

QueuePairFactory::QueuePairFactory(core::Context* of) : context(of), serverSocket(-1) {}

QueuePairFactory::~QueuePairFactory() {
  if (serverSocket >= 0) close(serverSocket);
}

void QueuePairFactory::bindToPort(uint16_t port) {
  detail::Socket socket = detail::listen_at(port);
  if (serverSocket >= 0) close(serverSocket);
  serverSocket = socket.release();
}

QueuePair* QueuePairFactory::acceptIncomingConnection(void* userData, uint32_t size) {
  const auto data = checked("acceptIncomingConnection", userData, size);
  if (serverSocket < 0) {
    refuse("QueuePairFactory::acceptIncomingConnection: bindToPort has not been called");
  }
  for (;;) {
    const detail::Socket socket = detail::accept_from(serverSocket);
    auto queuePair = std::make_unique<QueuePair>(context);
    try {
      detail::Meeting{*context->device_, *queuePair, socket}.accept(data);
      return queuePair.release();
    } catch (const utils::Error& error) {
      detail::warn("a peer that wanted to connect did not: ", error.what());
    }
  }
}

QueuePair* QueuePairFactory::connectToRemoteHost(const char* hostAddress, uint16_t port,
                                                 void* userData, uint32_t size) {
  const auto data = checked("connectToRemoteHost", userData, size);
  const detail::Socket socket = detail::connect_to(hostAddress, port);
  auto queuePair = std::make_unique<QueuePair>(context);
  detail::Meeting{*context->device_, *queuePair, socket}.connect(data);
  return queuePair.release();
}

QueuePair* QueuePairFactory::createLoopback(void* userData, uint32_t size) {
  const auto data = checked("createLoopback", userData, size);
  auto queuePair = std::make_unique<QueuePair>(context);
  detail::connect_to_itself(*context->device_, *queuePair);
  queuePair->setRemoteUserData(userData, static_cast<uint32_t>(data.size()));
  return queuePair.release();
}

}  // namespace infinity::queues
