// key_value: a store of keys and values in the server's memory, which clients read and change by
// themselves: READ finds a bucket, COMPARE AND SWAP locks it, WRITE changes it. The server's CPU is
// not used. A checksum shows a reader that another client wrote meanwhile.
//
//   verbatim run --node a --address 127.0.0.2 -- build/bin/examples/key_value &
//   verbatim run --node b --address 127.0.0.3 -- build/bin/examples/key_value 127.0.0.2 put x 1 y 2
//   verbatim run --node b --address 127.0.0.3 -- build/bin/examples/key_value 127.0.0.2 get x y

#include <chrono>
#include <cstddef>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <verbatim/verbatim.h>

using namespace verbatim;

namespace {

constexpr std::uint16_t kPort = 7473;
constexpr std::size_t kBuckets = 4096;

std::uint64_t hash(const void* data, std::size_t size) {  // FNV-1a.
  std::uint64_t value = 0xcbf29ce484222325;
  for (std::size_t i = 0; i < size; ++i)
    value = (value ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3;
  return value;
}

// A bucket of zeros is empty. Keys are never removed, so a search may end at an empty bucket.
struct Bucket {
  std::uint64_t version;   // Odd: a client is writing.
  std::uint64_t checksum;  // Of all following fields, and the version.
  char key[48];            // Padded with zeros, like the value.
  char value[64];

  std::uint64_t sum() const { return hash(key, sizeof key + sizeof value) ^ version; }
  bool is_empty() const { return version == 0; }
  bool is_whole() const { return is_empty() || (version % 2 == 0 && checksum == sum()); }
};

class Store {
 public:
  Store(const ProtectionDomain& domain, const std::string& server)
      : qp_(connect(domain, server, kPort).value()),
        table_(RegionToken::from_bytes(qp_.peer_data()).value()),
        memory_(domain.allocate(sizeof(Bucket) + sizeof(std::uint64_t)).value()) {}

  std::optional<std::string> get(const std::string& key) {
    find(key);
    if (bucket().is_empty()) return std::nullopt;
    return bucket().value;
  }

  void put(const std::string& key, const std::string& value) {
    if (key.size() >= sizeof(Bucket::key) || value.size() >= sizeof(Bucket::value))
      throw std::length_error("a key has at most 47 bytes, a value 63");
    for (;;) {
      const RemoteSlice place = find(key);
      const std::uint64_t version = bucket().version;
      const Slice before = memory_.slice(sizeof(Bucket), sizeof version);
      qp_.compare_and_swap(before, place, version, version + 1).wait().value();
      if (memory_.as<std::uint64_t>()[sizeof(Bucket) / sizeof version] != version) continue;

      // The bucket is locked by us, and unchanged since it was read. The version is written last,
      // which unlocks it.
      bucket() = {.version = version + 2, .checksum = 0, .key = {}, .value = {}};
      key.copy(bucket().key, key.size());
      value.copy(bucket().value, value.size());
      bucket().checksum = bucket().sum();
      constexpr std::size_t kHead = sizeof version;
      const RemoteSlice rest{place.address + kHead, sizeof(Bucket) - kHead, place.remote_key};
      qp_.post_write(memory_.slice(kHead, sizeof(Bucket) - kHead), rest).value();
      qp_.write(memory_.slice(0, kHead), place).wait().value();
      return;
    }
  }

 private:
  Bucket& bucket() { return memory_.as<Bucket>()[0]; }

  // Reads buckets from the key's first one on, until one has the key or is empty.
  RemoteSlice find(const std::string& key) {
    const std::uint64_t first = hash(key.data(), key.size());
    for (std::size_t i = 0; i < kBuckets; ++i) {
      const RemoteSlice place =
          table_.slice((first + i) % kBuckets * sizeof(Bucket), sizeof(Bucket));
      const auto begin = std::chrono::steady_clock::now();
      do {
        if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(5))
          throw std::runtime_error("a bucket stays locked: a client has ended while it wrote");
        qp_.read(memory_.slice(0, sizeof(Bucket)), place).wait().value();
      } while (!bucket().is_whole());
      if (bucket().is_empty() || key == bucket().key) return place;
    }
    throw std::runtime_error("the store is full");
  }

  QueuePair qp_;
  RegionToken table_;
  Buffer memory_;  // The last bucket that was read, and the result of COMPARE AND SWAP.
};

[[noreturn]] void serve(const ProtectionDomain& domain) {
  const Buffer table = domain.allocate(kBuckets * sizeof(Bucket)).value();
  const auto token = table.token().to_bytes();
  const ConnectOptions offer{.data = {token.begin(), token.end()}};
  Listener listener = Listener::open(domain, {.port = kPort}).value();
  for (std::vector<QueuePair> clients;;) {
    Result<QueuePair> client = listener.accept(offer);
    std::erase_if(clients, [](const QueuePair& qp) { return !qp.is_connected(); });
    if (client) clients.push_back(std::move(*client));
    if (!client) std::cerr << "key_value: " << client.error().message() << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const bool gets = words.size() > 2 && words[1] == "get";
  const bool puts = words.size() > 2 && words.size() % 2 == 0 && words[1] == "put";
  if (!words.empty() && !gets && !puts) {
    std::cerr << "usage: key_value                            the server\n"
                 "       key_value ADDRESS put KEY VALUE...   stores values\n"
                 "       key_value ADDRESS get KEY...         prints them\n";
    return 2;
  }
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  if (words.empty()) serve(domain);
  Store store(domain, words[0]);
  for (std::size_t i = 2; puts && i < words.size(); i += 2) store.put(words[i], words[i + 1]);
  for (std::size_t i = 2; gets && i < words.size(); ++i) {
    const std::string value = store.get(words[i]).value_or("(not stored)");
    std::cout << words[i] << " = " << value << '\n';
  }
} catch (const std::exception& error) {
  std::cerr << "key_value: " << error.what() << '\n';
  return 1;
}
