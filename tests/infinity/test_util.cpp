#include "test_util.h"

#include <chrono>
#include <cstdlib>
#include <future>

#include <gtest/gtest.h>
#include <unistd.h>

namespace kit {

bool is_iwarp() {
  const char* const protocol = std::getenv("VERBATIM_PROTOCOL");
  return protocol != nullptr && std::string_view(protocol) == "iwarp";
}

const char* own_address() {
  const char* const address = std::getenv("VERBATIM_ADDRESS");
  return address == nullptr ? "127.0.0.1" : address;
}

uint16_t Listening::port() const {
  sockaddr_in6 address{};
  socklen_t size = sizeof address;
  getsockname(serverSocket, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin6_port);
}

Pair::Pair(std::string_view data_of_a, std::string_view data_of_b) {
  auto accepted = std::async(std::launch::async, [&] {
    return listening.acceptIncomingConnection(const_cast<char*>(data_of_b.data()),
                                              static_cast<uint32_t>(data_of_b.size()));
  });
  a.reset(factory.connectToRemoteHost(own_address(), listening.port(),
                                      const_cast<char*>(data_of_a.data()),
                                      static_cast<uint32_t>(data_of_a.size())));
  b.reset(accepted.get());
}

bool done(RequestToken& request) {
  request.waitUntilCompleted();
  return request.wasSuccessful();
}

receive_element_t next_message(Context& context) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  receive_element_t message;
  while (!context.receive(&message)) {
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error("no message came");
  }
  return message;
}

}  // namespace kit

/// Without arguments: gtest's main. With `... PATH PROTOCOL` the program starts itself again with
/// Verbatim's variables set, because the library may read some before main; ctest's discovery
/// cannot set variables.
int main(int argc, char** argv) {
  if (argc >= 3 && argv[argc - 1][0] != '-' && argv[argc - 2][0] != '-') {
    const bool over_iwarp = std::string_view(argv[argc - 1]) == "iwarp";
    setenv("VERBATIM_PATH", argv[argc - 2], 1);
    setenv("VERBATIM_PROTOCOL", argv[argc - 1], 1);
    setenv("VERBATIM_NODE", over_iwarp ? "infinity-iwarp" : "infinity-roce", 1);
    setenv("VERBATIM_ADDRESS", over_iwarp ? "127.0.28.2" : "127.0.28.1", 1);
    argv[argc - 2] = nullptr;
    execv("/proc/self/exe", argv);
    return 1;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
