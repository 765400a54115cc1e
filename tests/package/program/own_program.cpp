// A program of a user who has installed Verbatim: `own_program serve PORT` has a buffer;
// `own_program HOST PORT` writes to it and then sends a message.
#include <cstring>
#include <iostream>
#include <string>
#include <string_view>

#include <verbatim/verbatim.h>

namespace {

constexpr std::string_view kText = "written from afar";
constexpr std::size_t kBytes = 4096;

int serve(std::uint16_t port) {
  auto context = verbatim::Context::open().value();
  auto domain = context.allocate_domain().value();
  auto target = domain.allocate(kBytes).value();
  auto note = domain.allocate(kBytes).value();
  auto listener = verbatim::Listener::open(domain, {.address = "", .port = port}).value();
  const auto token = target.token().to_bytes();
  verbatim::ConnectOptions options;
  options.data.assign(token.begin(), token.end());
  auto queue_pair = listener.accept(options).value();
  queue_pair.receive(note.slice()).wait().value();
  const std::string_view found(reinterpret_cast<const char*>(target.bytes().data()), kText.size());
  std::cout << "found: " << found << '\n';
  return found == kText ? 0 : 1;
}

int write_to(const std::string& host, std::uint16_t port) {
  auto context = verbatim::Context::open().value();
  auto domain = context.allocate_domain().value();
  auto source = domain.allocate(kBytes).value();
  std::memcpy(source.bytes().data(), kText.data(), kText.size());
  auto queue_pair = verbatim::connect(domain, host, port).value();
  // rdma_cm pads the peer's data with zeros.
  const auto said = queue_pair.peer_data().first(verbatim::RegionToken::kBytes);
  const auto token = verbatim::RegionToken::from_bytes(said).value();
  queue_pair.write(source.slice(0, kText.size()), token.slice(0, kText.size())).wait().value();
  queue_pair.send(source.slice(0, 1)).wait().value();
  return 0;
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 3) return 2;
  const auto port = static_cast<std::uint16_t>(std::stoi(arguments[2]));
  const std::string first = arguments[1];
  return first == "serve" ? serve(port) : write_to(first, port);
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
