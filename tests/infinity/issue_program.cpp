// A program for Infinity as users write them, in C++11: the text between the lines is that of issue
// 28, word for word.
#include <infinity/infinity.h>

#define SERVER_IP getenv("SERVER_IP")
#define PORT_NUMBER static_cast<uint16_t>(atoi(getenv("PORT_NUMBER")))
#define BUFFER_SIZE 128
#define REMOTE_BUFFER_INFO \
  *static_cast<infinity::memory::RegionToken*>(qp->getUserData())  // As raw bytes.

int main() {
  // clang-format off
// ------------------------------------------------------------------------------------------------
infinity::core::Context *context = new infinity::core::Context();
infinity::queues::QueuePairFactory *qpFactory = new infinity::queues::QueuePairFactory(context);
infinity::queues::QueuePair *qp = qpFactory->connectToRemoteHost(SERVER_IP, PORT_NUMBER);
infinity::memory::Buffer *localBuffer = new infinity::memory::Buffer(context, BUFFER_SIZE);
infinity::memory::RegionToken *remoteBufferToken = new infinity::memory::RegionToken(REMOTE_BUFFER_INFO);
infinity::requests::RequestToken requestToken(context);
qp->read(localBuffer, remoteBufferToken, &requestToken);
requestToken.waitUntilCompleted();
qp->write(localBuffer, remoteBufferToken, &requestToken);
requestToken.waitUntilCompleted();
qp->send(localBuffer, &requestToken);
requestToken.waitUntilCompleted();
delete remoteBufferToken; delete localBuffer; delete qp; delete qpFactory; delete context;
// ------------------------------------------------------------------------------------------------
  // clang-format on
  return 0;
}
