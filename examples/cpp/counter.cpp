// counter: a number in the server's memory that any number of clients change at once, by FETCH AND
// ADD and COMPARE AND SWAP. The server's CPU is not used.
//
//   verbatim run --node a --address 127.0.0.2 -- build/bin/examples/counter &
//   verbatim run --node b --address 127.0.0.3 -- build/bin/examples/counter 127.0.0.2 add 1 1000
//   verbatim run --node b --address 127.0.0.3 -- build/bin/examples/counter 127.0.0.2 raise 5000

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include <verbatim/verbatim.h>

using namespace verbatim;

namespace {

constexpr std::uint16_t kPort = 7472;
constexpr const char* kUsage =
    "usage: counter                            the server, until it is interrupted\n"
    "       counter ADDRESS add NUMBER [TIMES] adds to the server's number\n"
    "       counter ADDRESS raise NUMBER       makes it NUMBER, if it is less\n";

bool is_number(const std::string& word) {
  return !word.empty() && word.find_first_not_of("0123456789") == std::string::npos;
}

// Clients get the counter's token when they are accepted, and need nothing else.
[[noreturn]] void serve(const ProtectionDomain& domain) {
  const AtomicCell counter = domain.allocate_atomic(0).value();
  const auto token = counter.token().to_bytes();
  const ConnectOptions offer{.data = {token.begin(), token.end()}};
  Listener listener = Listener::open(domain, {.port = kPort}).value();
  std::vector<QueuePair> clients;
  for (;;) {
    Result<QueuePair> client = listener.accept(offer);
    if (!client) {
      std::cerr << "counter: " << client.error().message() << '\n';
      continue;
    }
    std::erase_if(clients, [](const QueuePair& qp) { return !qp.is_connected(); });
    clients.push_back(std::move(*client));
    std::cout << clients.size() << " clients, the counter is " << counter.load() << std::endl;
  }
}

// The server's counter, as a client sees it. Each call returns the old value.
class Counter {
 public:
  Counter(const ProtectionDomain& domain, const std::string& server)
      : qp_(connect(domain, server, kPort).value()),
        cell_(RegionToken::from_bytes(qp_.peer_data()).value()),
        before_(domain.allocate(sizeof(std::uint64_t)).value()) {}

  std::uint64_t add(std::uint64_t number) {
    qp_.fetch_and_add(before_.slice(), cell_, number).wait().value();
    return before_.as<std::uint64_t>()[0];
  }

  std::uint64_t raise(std::uint64_t number) {
    std::uint64_t expected = add(0);  // An atomic read.
    while (expected < number) {
      qp_.compare_and_swap(before_.slice(), cell_, expected, number).wait().value();
      const std::uint64_t seen = before_.as<std::uint64_t>()[0];
      if (seen == expected) break;  // If not, another client was faster: tries again.
      expected = seen;
    }
    return expected;
  }

 private:
  QueuePair qp_;
  RemoteSlice cell_;
  Buffer before_;
};

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const bool adds = words.size() >= 3 && words.size() <= 4 && words[1] == "add";
  const bool raises = words.size() == 3 && words[1] == "raise";
  const bool has_numbers = std::all_of(words.begin() + (adds || raises ? 2 : 0), words.end(),
                                       [](const std::string& word) { return is_number(word); });
  if (!words.empty() && !((adds || raises) && has_numbers)) {
    std::cerr << kUsage;
    return 2;
  }
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  if (words.empty()) serve(domain);

  Counter counter(domain, words[0]);
  const std::uint64_t number = std::stoull(words[2]);
  const std::uint64_t times = words.size() == 4 ? std::stoull(words[3]) : 1;
  const std::uint64_t first = adds ? counter.add(number) : counter.raise(number);
  for (std::uint64_t i = 1; i < times; ++i) counter.add(number);
  std::cout << "it was " << first << ", and is " << counter.add(0) << " now\n";
} catch (const std::exception& error) {
  std::cerr << "counter: " << error.what() << '\n';
  return 1;
}
