#include "agent/sockets/descriptor_store.h"

#include <optional>

#include <sys/socket.h>
#include <sys/stat.h>

#include "agent/protocol/protocol.h"
#include "base/os/passed_descriptors.h"

namespace verbatim::agent {
namespace {

static_assert(ReceiveSockets::kSlotsPerChunk * kAddressesMax <= kPassedDescriptorsMax);

struct DescriptorStoreHeader {
  static constexpr std::uint32_t kMagic = 0x56724b73;  // "VrKs"
  std::uint32_t magic = kMagic;
  std::uint32_t version = kProtocolVersion;
  Node node;
};

struct ChunkRecord {
  std::uint32_t first_slot = 0;
  std::uint32_t slot_count = 0;
  std::uint32_t is_of_new_address = 0;
  AddressRecord new_address;
};

/// Reads the next `bytes` of the queue and their descriptors without removing them: exactly these,
/// because a stream ends a read after a message with descriptors. Returns false at the end of the
/// queue.
Result<bool> peek(int in, std::span<std::byte> bytes, std::vector<UniqueFd>& descriptors) {
  descriptors.resize(kPassedDescriptorsMax);
  const iovec piece{bytes.data(), bytes.size()};
  const auto message = receive_message(in, {&piece, 1}, descriptors, MSG_PEEK | MSG_DONTWAIT);
  if (!message && errno == EAGAIN) return false;
  if (!message && errno == EMFILE) {
    return refuse(EMFILE,
                  "no descriptor is left in this process (ulimit -n) for the descriptor store's");
  }
  if (!message) return refuse_errno("cannot look into the descriptor store");
  if (message->bytes == 0) return false;
  descriptors.resize(message->descriptors);
  if (message->bytes != bytes.size()) return refuse(EPROTO, "the descriptor store is cut off");
  return true;
}

/// Sets the peek position back to the start of the queue.
Result<void> rewind(int in) {
  const int offset = 0;
  if (setsockopt(in, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof offset) != 0) {
    return refuse_errno("SO_PEEK_OFF");
  }
  return {};
}

Result<Node> peek_node(int in) {
  DescriptorStoreHeader header{.magic = 0};
  std::vector<UniqueFd> none;
  auto there = peek(in, std::as_writable_bytes(std::span(&header, 1)), none);
  if (!there) return std::unexpected(there.error());
  if (!*there || header.magic != DescriptorStoreHeader::kMagic ||
      header.version != kProtocolVersion) {
    return refuse(EPROTO, "not a descriptor store of this release");
  }
  return arena::checked(header.node);
}

Result<std::optional<SocketChunk>> peek_chunk(int in, std::size_t address_count) {
  ChunkRecord record;
  std::vector<UniqueFd> descriptors;
  auto there = peek(in, std::as_writable_bytes(std::span(&record, 1)), descriptors);
  if (!there) return std::unexpected(there.error());
  if (!*there) return std::nullopt;
  SocketChunk chunk{.first_slot = record.first_slot, .new_address = {}, .slots = {}};
  if (record.is_of_new_address != 0) chunk.new_address = from_record(record.new_address);
  const std::size_t sockets = chunk.new_address ? 1 : address_count;
  if (record.slot_count > kPassedDescriptorsMax ||
      record.slot_count * sockets != descriptors.size()) {
    return refuse(EPROTO, "a chunk of the descriptor store without all its sockets");
  }
  chunk.slots.resize(record.slot_count);
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    chunk.slots[i / sockets].push_back(std::move(descriptors[i]));
  }
  return chunk;
}

}  // namespace

Result<DescriptorStore> DescriptorStore::create(const Node& node) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return refuse_errno("socketpair");
  DescriptorStore store;
  store.in_.reset(ends[0]);
  store.out_.reset(ends[1]);
  store.node_ = node;
  DescriptorStoreHeader header;
  header.node = node;
  if (auto sent = send(ends[1], header, {}, MSG_DONTWAIT); !sent) {
    return std::unexpected(sent.error());
  }
  return store;
}

Result<DescriptorStore> DescriptorStore::restore(UniqueFd in, UniqueFd out) {
  if (auto rewound = rewind(in.get()); !rewound) return std::unexpected(rewound.error());
  auto node = peek_node(in.get());
  if (!node) return std::unexpected(node.error());
  DescriptorStore store;
  store.in_ = std::move(in);
  store.out_ = std::move(out);
  store.node_ = *node;
  return store;
}

Result<std::vector<SocketChunk>> DescriptorStore::chunks() const {
  if (auto rewound = rewind(in()); !rewound) return std::unexpected(rewound.error());
  if (auto node = peek_node(in()); !node) return std::unexpected(node.error());
  std::vector<SocketChunk> chunks;
  for (std::size_t address_count = node_.socket_count();;) {
    auto chunk = peek_chunk(in(), address_count);
    if (!chunk) return std::unexpected(chunk.error());
    if (!*chunk) return chunks;
    if ((*chunk)->new_address) ++address_count;
    chunks.push_back(std::move(**chunk));
  }
}

Result<void> DescriptorStore::append(const SocketChunk& chunk) const {
  std::vector<int> descriptors;
  for (const auto& slot : chunk.slots) {
    for (const auto& socket : slot) descriptors.push_back(socket.get());
  }
  ChunkRecord record{.first_slot = chunk.first_slot,
                     .slot_count = static_cast<std::uint32_t>(chunk.slots.size())};
  if (chunk.new_address) {
    record.is_of_new_address = 1;
    record.new_address = to_record(*chunk.new_address);
  }
  return send(out(), record, descriptors, MSG_DONTWAIT);
}

bool DescriptorStore::is(int other) const {
  struct stat own{}, others{};
  return fstat(in(), &own) == 0 && fstat(other, &others) == 0 && own.st_dev == others.st_dev &&
         own.st_ino == others.st_ino;
}

}  // namespace verbatim::agent
