// The other side of issue_program: offers a buffer, and succeeds if the buffer's content comes back
// as a message.
#include <cstdio>
#include <cstring>
#include <memory>

#include <infinity/infinity.h>

int main() {
  static const char kText[] = "what the program reads, writes and sends";
  infinity::core::Context context;
  infinity::queues::QueuePairFactory factory(&context);
  infinity::memory::Buffer shown(&context, 128);
  infinity::memory::Buffer receives(&context, 128);
  std::memcpy(shown.getData(), kText, sizeof kText);
  context.postReceiveBuffer(&receives);
  const std::unique_ptr<infinity::memory::RegionToken> token(shown.createRegionToken());

  factory.bindToPort(static_cast<uint16_t>(atoi(getenv("PORT_NUMBER"))));
  const std::unique_ptr<infinity::queues::QueuePair> peer(
      factory.acceptIncomingConnection(token.get(), sizeof *token));
  infinity::core::receive_element_t message;
  while (!context.receive(&message)) {
  }
  const bool is_right = message.buffer == &receives && message.bytesWritten == 128 &&
                        message.queuePair == peer.get() && !message.immediateValueValid &&
                        std::memcmp(receives.getData(), kText, sizeof kText) == 0;
  std::printf("the message is %s\n", is_right ? "right" : "wrong");
  return is_right ? 0 : 1;
}
