#include "offload/driver/connection.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <rte_memory.h>
#include <rte_pause.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/os/passed_descriptors.h"

namespace verbatim::offload::driver {
namespace {

constexpr int kPatienceSeconds = 8;
/// A driver that waits for room lets the card work: it looks for a moment, then sleeps, each time
/// for twice as long.
constexpr int kPausesBeforeSleep = 20;
constexpr useconds_t kShortestSleep = 50;  // Microseconds.
constexpr useconds_t kLongestSleep = 1000;

/// A message of the card's socket, as it is sent: its header and what follows.
struct Message {
  vnic_message header{VNIC_MAGIC, VNIC_VERSION, 0};
  std::array<std::byte, sizeof(vnic_welcome)> rest{};
  std::size_t size = 0;  // Of the rest.
  std::array<UniqueFd, 2> files;
};

Result<void> send(int socket, std::uint16_t type, ByteSpan rest, std::span<const int> files = {}) {
  vnic_message header{VNIC_MAGIC, VNIC_VERSION, type};
  const std::array<iovec, 2> pieces{iovec{&header, sizeof header},
                                    iovec{const_cast<std::byte*>(rest.data()), rest.size()}};
  if (!send_message(socket, pieces, files)) return refuse_errno("card");
  return {};
}

/// Receives the answer of type `wanted`; a refusal becomes the error that it says.
Result<Message> receive(int socket, std::uint16_t wanted) {
  Message got;
  const std::array<iovec, 2> pieces{iovec{&got.header, sizeof got.header},
                                    iovec{got.rest.data(), got.rest.size()}};
  const auto message = receive_message(socket, pieces, got.files);
  if (!message) return refuse_errno("card");
  if (message->bytes < sizeof got.header) return refuse(ECONNRESET, "card: it ended");
  if (got.header.magic != VNIC_MAGIC) return refuse(EPROTO, "card: no card answers there");
  got.size = message->bytes - sizeof got.header;
  if (got.header.type == VNIC_REFUSAL && got.size >= sizeof(std::int32_t)) {
    std::int32_t code = 0;
    std::memcpy(&code, got.rest.data(), sizeof code);
    const char* const words = reinterpret_cast<const char*>(got.rest.data()) + sizeof code;
    return refuse(code, "card: " + std::string(words, got.size - sizeof code));
  }
  if (got.header.version != VNIC_VERSION || got.header.type != wanted) {
    return refuse(EPROTONOSUPPORT, "card: it is of another version");
  }
  return got;
}

/// A piece of DPDK's memory, in one file.
struct Piece {
  std::uint64_t address;
  std::uint64_t length;
  std::uint64_t offset;
  int file;
};

/// Adds a segment of DPDK's memory, to the last piece if it continues that.
int add_segment(const rte_memseg_list*, const rte_memseg* segment, void* to) {
  auto& pieces = *static_cast<std::vector<Piece>*>(to);
  std::size_t offset = 0;
  const int file = rte_memseg_get_fd_thread_unsafe(segment);
  if (file < 0 || rte_memseg_get_fd_offset_thread_unsafe(segment, &offset) < 0) return 0;
  if (!pieces.empty()) {
    Piece& last = pieces.back();
    if (last.file == file && last.address + last.length == segment->addr_64 &&
        last.offset + last.length == offset) {
      last.length += segment->len;
      return 0;
    }
  }
  pieces.push_back({segment->addr_64, segment->len, offset, file});
  return 0;
}

}  // namespace

Result<std::unique_ptr<Connection>> Connection::open(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX};
  if (path.size() >= sizeof address.sun_path) return refuse(ENAMETOOLONG, "socket " + path);
  path.copy(address.sun_path, path.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return refuse_errno("socket");
  // For each answer: a card that hangs keeps nobody for ever.
  const timeval patience{.tv_sec = kPatienceSeconds, .tv_usec = 0};
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0) {
    return refuse_errno("no card at " + path + " (verbatim nic up)");
  }
  std::unique_ptr<Connection> connection(new Connection(std::move(socket)));
  if (auto greeted = connection->greet(); !greeted) return std::unexpected(greeted.error());
  return connection;
}

Result<void> Connection::greet() {
  if (auto sent = send(socket_.get(), VNIC_HELLO, {}); !sent) return sent;
  auto answer = receive(socket_.get(), VNIC_WELCOME);
  if (!answer) return std::unexpected(answer.error());
  if (answer->size != sizeof welcome_ || !answer->files[1]) return refuse(EPROTO, "card: welcome");
  std::memcpy(&welcome_, answer->rest.data(), sizeof welcome_);
  if (welcome_.ports == 0 || welcome_.ports > VNIC_PORTS_MAX) return refuse(EPROTO, "card: ports");
  void* const at = mmap(nullptr, welcome_.region_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                        answer->files[0].get(), 0);
  if (at == MAP_FAILED) return refuse_errno("card: its memory");
  region_ = static_cast<vnic_region*>(at);
  doorbell_ = std::move(answer->files[1]);
  return {};
}

Connection::~Connection() {
  if (region_ != nullptr) munmap(region_, welcome_.region_bytes);
}

Result<void> Connection::register_memory() {
  const std::lock_guard lock(memory_lock_);
  std::vector<Piece> pieces;
  rte_memseg_walk(add_segment, &pieces);
  for (const Piece& piece : pieces) {
    const std::pair known{piece.address, piece.length};
    if (std::ranges::find(registered_, known) != registered_.end()) continue;
    const vnic_memory memory{piece.address, piece.length, piece.offset};
    auto sent =
        send(socket_.get(), VNIC_MEMORY, std::as_bytes(std::span(&memory, 1)), {&piece.file, 1});
    if (!sent) return sent;
    if (auto answer = receive(socket_.get(), VNIC_REGISTERED); !answer) {
      return std::unexpected(answer.error());
    }
    registered_.push_back(known);
  }
  return {};
}

/// The socket is silent except for answers: what can be read is its end.
bool Connection::has_ended() const {
  std::byte peeked;
  return recv(socket_.get(), &peeked, sizeof peeked, MSG_PEEK | MSG_DONTWAIT) == 0;
}

Result<void> Connection::wait_until_done(std::uint32_t number) const {
  for (int turn = 0; turn < kPausesBeforeSleep && !is_done(number); ++turn) rte_pause();
  for (useconds_t wait = kShortestSleep; !is_done(number);
       wait = std::min(2 * wait, kLongestSleep)) {
    usleep(wait);
    if (wait == kLongestSleep && has_ended()) return refuse(ECONNRESET, "the card has ended");
  }
  return {};
}

Result<std::uint32_t> Connection::post(const vnic_command& command) {
  const std::lock_guard lock(command_lock_);
  const std::uint32_t at = relaxed(region_->command_posted);
  if (auto room = wait_until_done(at + 1 - VNIC_COMMANDS); !room) {
    return std::unexpected(room.error());
  }
  // Its rest is not used.
  const std::size_t used = offsetof(vnic_command, rule) + vnic_rule_bytes(&command.rule);
  std::memcpy(&region_->commands[at % VNIC_COMMANDS], &command, used);
  release(region_->command_posted, at + 1);
  ring();
  return at + 1;
}

Result<void> Connection::execute(const vnic_command& command) {
  const auto number = post(command);
  if (!number) return std::unexpected(number.error());
  if (auto done = wait_until_done(*number); !done) return done;
  const int result = relaxed(region_->commands[(*number - 1) % VNIC_COMMANDS].result);
  return result == 0 ? Result<void>{} : refuse(-result, "the card refuses it");
}

}  // namespace verbatim::offload::driver
