// rpc: remote procedure calls over SEND. All clients of the server share one receive queue, so the
// server's memory depends on the number of outstanding calls, not of clients.
//
//   verbatim run --node a --address 127.0.0.2 -- build/bin/examples/rpc &
//   verbatim run --node b --address 127.0.0.3 -- build/bin/examples/rpc 127.0.0.2 upper hello

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>

#include <poll.h>
#include <verbatim/verbatim.h>

using namespace verbatim;

namespace {

constexpr std::uint16_t kPort = 7475;
constexpr std::size_t kMessageBytes = 512;
constexpr std::size_t kReceives = 64;

// A call consists of the procedure's name, a space, and its argument; the answer is a text, too.
const std::map<std::string, std::function<std::string(std::string)>> kProcedures = {
    {"echo", [](std::string text) { return text; }},
    {"upper",
     [](std::string text) {
       for (char& letter : text) letter = static_cast<char>(std::toupper(letter));
       return text;
     }},
    {"reverse",
     [](std::string text) {
       std::reverse(text.begin(), text.end());
       return text;
     }},
};

std::string answer_to(const std::string& call) {
  const std::size_t space = std::min(call.find(' '), call.size());
  const auto found = kProcedures.find(call.substr(0, space));
  if (found == kProcedures.end()) return "error: no such procedure";
  return found->second(call.substr(std::min(space + 1, call.size())));
}

std::string text_in(const Slice& slice, std::size_t size) {
  return {reinterpret_cast<const char*>(slice.data), size};
}
Slice put(Slice into, const std::string& text) {
  into.size =
      static_cast<std::uint32_t>(text.copy(reinterpret_cast<char*>(into.data), kMessageBytes));
  return into;
}

class Server {
 public:
  explicit Server(const ProtectionDomain& domain)
      : memory_(domain.allocate(kReceives * kMessageBytes).value()),
        completions_(CompletionQueue::make(domain.context()).value()),
        calls_(SharedReceiveQueue::make(domain, completions_).value()),
        listener_(Listener::open(domain, {.port = kPort}).value()) {
    for (std::size_t i = 0; i < kReceives; ++i)
      calls_.post(memory_.slice(i * kMessageBytes, kMessageBytes)).value();
  }

  // One thread sleeps until a client connects or calls.
  [[noreturn]] void serve() {
    for (;;) {
      pollfd events[] = {{listener_.event_descriptor(), POLLIN, 0},
                         {completions_.event_descriptor(), POLLIN, 0}};
      poll(events, 2, completions_.arm() ? -1 : 0);
      while (const auto call = calls_.next()) answer(*call);
      if (events[0].revents != 0) accept();
    }
  }

 private:
  void accept() {
    std::erase_if(clients_, [](const auto& client) { return !client.second.is_connected(); });
    // Few sends per client: the completion queue must have room for those of all clients.
    Result<QueuePair> client = listener_.accept(
        {.queue_pair = {.send_depth = 4, .completions = completions_, .shared_receives = calls_}});
    if (!client) return void(std::cerr << "rpc: " << client.error().message() << '\n');
    const std::uint32_t number = client->number();
    clients_.insert_or_assign(number, std::move(*client));
    std::cout << clients_.size() << " clients" << std::endl;
  }

  // The answer is sent from the buffer of the call; afterwards a receive is posted there again.
  void answer(const Result<Message>& call) {
    if (!call) return void(std::cerr << "rpc: " << call.error().message() << '\n');
    const Slice place = call->memory;
    const auto client = clients_.find(call->completion.queue_pair);
    if (client == clients_.end()) return calls_.post(place).value();
    const Slice text = put(place, answer_to(text_in(place, call->completion.bytes)));
    client->second.send(text).then([this, place](const auto&) { calls_.post(place).value(); });
  }

  Buffer memory_;
  CompletionQueue completions_;
  SharedReceiveQueue calls_;
  Listener listener_;
  std::map<std::uint32_t, QueuePair> clients_;  // By number.
};

class Client {
 public:
  Client(const ProtectionDomain& domain, const std::string& server)
      : memory_(domain.allocate(2 * kMessageBytes).value()),
        qp_(connect(domain, server, kPort).value()) {}

  std::string call(const std::string& text) {
    if (text.size() > kMessageBytes) throw std::length_error("a call has at most 512 bytes");
    const Slice answer = memory_.slice(kMessageBytes, kMessageBytes);
    RequestToken answered = qp_.receive(answer);
    qp_.send(put(memory_.slice(0, kMessageBytes), text)).wait().value();
    return text_in(answer, answered.wait_for(std::chrono::seconds(10)).value().bytes);
  }

 private:
  Buffer memory_;
  QueuePair qp_;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc == 2 || argc == 3) {
    std::cerr << "usage: rpc                                  the server, until it is interrupted\n"
                 "       rpc ADDRESS PROCEDURE ARGUMENT...    calls echo, upper or reverse\n";
    return 2;
  }
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  if (argc == 1) Server(domain).serve();
  Client client(domain, argv[1]);
  for (int i = 3; i < argc; ++i)
    std::cout << client.call(std::string(argv[2]) + ' ' + argv[i]) << '\n';
} catch (const std::exception& error) {
  std::cerr << "rpc: " << error.what() << '\n';
  return 1;
}
