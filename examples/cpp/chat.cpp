// chat: each line that is typed at one node is shown at all others. Each node listens, and connects
// to the nodes that are named. Messages from all nodes arrive on one shared receive queue.
//
//   verbatim run --node a --address 127.0.0.2 -- build/bin/examples/chat Ada
//   verbatim run --node b --address 127.0.0.3 -- build/bin/examples/chat Bob 127.0.0.2
//   verbatim run --node c --address 127.0.0.4 -- build/bin/examples/chat Cleo 127.0.0.2 127.0.0.3

#include <cstring>
#include <iostream>
#include <map>
#include <string>

#include <poll.h>
#include <unistd.h>
#include <verbatim/verbatim.h>

using namespace verbatim;

namespace {

constexpr std::uint16_t kPort = 7477;
constexpr std::size_t kLineBytes = 1024;
constexpr std::size_t kReceives = 64;

class Chat {
 public:
  Chat(const ProtectionDomain& domain, const std::string& name)
      : domain_(domain),
        memory_(domain.allocate((kReceives + 1) * kLineBytes).value()),
        completions_(CompletionQueue::make(domain.context()).value()),
        lines_(SharedReceiveQueue::make(domain, completions_).value()),
        listener_(Listener::open(domain, {.port = kPort}).value()) {
    for (std::size_t i = 0; i < kReceives; ++i)
      lines_.post(memory_.slice(i * kLineBytes, kLineBytes)).value();
    // Both sides of a connection send each other their names.
    const auto bytes = std::as_bytes(std::span(name));
    options_.data.assign(bytes.begin(), bytes.end());
    options_.queue_pair.completions = completions_;
    options_.queue_pair.shared_receives = lines_;
  }

  void join(const std::string& address) { add(connect(domain_, address, kPort, options_)); }

  // One thread sleeps until a line is typed, a message arrives, or a node connects or disconnects.
  // Returns at the end of the input.
  void run() {
    for (;;) {
      pollfd events[] = {{STDIN_FILENO, POLLIN, 0},
                         {listener_.event_descriptor(), POLLIN, 0},
                         {completions_.event_descriptor(), POLLIN, 0}};
      poll(events, 3, completions_.arm() ? -1 : 0);
      while (const auto message = lines_.next()) show(*message);
      forget_those_who_left();
      if (events[1].revents != 0) add(listener_.accept(options_));
      if (events[0].revents != 0 && !send_what_is_typed()) return;
    }
  }

 private:
  struct Peer {
    QueuePair qp;
    std::string name;
  };

  void add(Result<QueuePair> qp) {
    if (!qp) return void(std::cerr << "chat: " << qp.error().message() << '\n');
    const auto data = qp->peer_data();
    const auto* const text = reinterpret_cast<const char*>(data.data());
    std::string name(text, strnlen(text, data.size()));  // rdma_cm pads it with zeros.
    std::cout << "* " << name << " is here" << std::endl;
    const std::uint32_t number = qp->number();
    peers_.insert_or_assign(number, Peer{std::move(*qp), std::move(name)});
  }

  void forget_those_who_left() {
    std::erase_if(peers_, [](const auto& entry) {
      if (entry.second.qp.is_connected()) return false;
      std::cout << "* " << entry.second.name << " has left" << std::endl;
      return true;
    });
  }

  void show(const Result<Message>& message) {
    if (!message) return void(std::cerr << "chat: " << message.error().message() << '\n');
    const auto peer = peers_.find(message->completion.queue_pair);
    const std::string_view line(reinterpret_cast<const char*>(message->memory.data),
                                message->completion.bytes);
    if (peer != peers_.end()) std::cout << peer->second.name << ": " << line << std::flush;
    lines_.post(message->memory).value();
  }

  bool send_what_is_typed() {
    const Slice line = memory_.slice(kReceives * kLineBytes, kLineBytes);
    const ssize_t size = read(STDIN_FILENO, line.data, kLineBytes);
    if (size <= 0) return false;
    const Slice typed{line.data, static_cast<std::uint32_t>(size), line.local_key};
    for (auto& [number, peer] : peers_) {
      if (const auto end = peer.qp.send(typed).wait(); !end)
        std::cerr << "chat: to " << peer.name << ": " << end.error().message() << '\n';
    }
    return true;
  }

  ProtectionDomain domain_;
  ConnectOptions options_;
  Buffer memory_;
  CompletionQueue completions_;
  SharedReceiveQueue lines_;
  Listener listener_;
  std::map<std::uint32_t, Peer> peers_;  // By queue pair number.
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2 || argv[1][0] == '-') {
    std::cerr
        << "usage: chat NAME [ADDRESS...]   with the addresses of those who are there already\n";
    return 2;
  }
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  Chat chat(domain, argv[1]);
  for (int i = 2; i < argc; ++i) chat.join(argv[i]);
  chat.run();
} catch (const std::exception& error) {
  std::cerr << "chat: " << error.what() << '\n';
  return 1;
}
