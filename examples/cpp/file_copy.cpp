// file_copy: a client READs a file from the server's memory, in several pieces at a time, and
// verifies the content. The server's CPU is not used.
//
//   verbatim run --node a --address 127.0.0.2 -- build/bin/examples/file_copy serve FILE &
//   verbatim run --node b --address 127.0.0.3 -- build/bin/examples/file_copy 127.0.0.2 COPY

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <verbatim/verbatim.h>

using namespace verbatim;

namespace {

constexpr std::uint16_t kPort = 7474;
constexpr std::size_t kPiece = 1 << 20;
constexpr std::size_t kUnderWay = 8;

// Data that the server sends when it accepts a client.
struct Offer {
  std::array<std::byte, RegionToken::kBytes> token;
  std::array<std::byte, 8> checksum;
};

std::array<std::byte, 8> checksum_of(std::span<const std::byte> bytes) {  // FNV-1a, big-endian.
  std::uint64_t value = 0xcbf29ce484222325;
  for (const std::byte byte : bytes)
    value = (value ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3;
  std::array<std::byte, 8> sum{};
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = std::byte(value >> (56 - 8 * i));
  return sum;
}

[[noreturn]] void serve(const ProtectionDomain& domain, const std::string& name) {
  std::ifstream file(name, std::ios::binary | std::ios::ate);
  const auto size = static_cast<std::size_t>(std::max<std::streamoff>(file.tellg(), 0));
  if (!file || size == 0) throw std::runtime_error(name + " cannot be read, or is empty");
  const Buffer memory = domain.allocate(size, Access::remote_read).value();
  file.seekg(0).read(memory.as<char>().data(), static_cast<std::streamsize>(size));
  if (!file) throw std::runtime_error(name + " cannot be read");

  const Offer offer{memory.token().to_bytes(), checksum_of(memory.bytes())};
  const auto bytes = std::as_bytes(std::span(&offer, 1));
  const ConnectOptions options{.data = {bytes.begin(), bytes.end()}};
  Listener listener = Listener::open(domain, {.port = kPort}).value();
  std::cout << "serving " << size << " bytes of " << name << std::endl;
  for (std::vector<QueuePair> clients;;) {
    Result<QueuePair> client = listener.accept(options);
    std::erase_if(clients, [](const QueuePair& qp) { return !qp.is_connected(); });
    if (client) clients.push_back(std::move(*client));
    if (!client) std::cerr << "file_copy: " << client.error().message() << '\n';
  }
}

void copy(const ProtectionDomain& domain, const std::string& server, const std::string& name) {
  QueuePair qp = connect(domain, server, kPort).value();
  Offer offer{};
  if (qp.peer_data().size() < sizeof offer) throw std::runtime_error("the server is another one");
  std::memcpy(&offer, qp.peer_data().data(), sizeof offer);
  const RegionToken file = RegionToken::from_bytes(offer.token).value();
  const Buffer memory = domain.allocate(file.size).value();

  const auto begin = std::chrono::steady_clock::now();
  std::deque<RequestToken> pieces;
  for (std::size_t at = 0; at < file.size; at += kPiece) {
    if (pieces.size() == kUnderWay) {
      pieces.front().wait().value();
      pieces.pop_front();
    }
    const std::size_t size = std::min(kPiece, file.size - at);
    pieces.push_back(qp.read(memory.slice(at, size), file.slice(at, size)));
  }
  for (RequestToken& piece : pieces) piece.wait().value();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;

  if (checksum_of(memory.bytes()) != offer.checksum)
    throw std::runtime_error("what was read is not what the server has");
  std::ofstream out(name, std::ios::binary);
  out.write(memory.as<char>().data(), static_cast<std::streamsize>(file.size)).flush();
  if (!out) throw std::runtime_error(name + " cannot be written");
  std::cout << file.size << " bytes in " << seconds.count() * 1e3
            << " ms: " << static_cast<double>(file.size) / seconds.count() / 1e6 << " MB/s\n";
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "usage: file_copy serve FILE    the server, until it is interrupted\n"
                 "       file_copy ADDRESS COPY  the client: writes what it reads to COPY\n";
    return 2;
  }
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  std::string(argv[1]) == "serve" ? serve(domain, argv[2]) : copy(domain, argv[1], argv[2]);
} catch (const std::exception& error) {
  std::cerr << "file_copy: " << error.what() << '\n';
  return 1;
}
