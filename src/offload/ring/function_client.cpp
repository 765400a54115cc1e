#include "offload/ring/function_client.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/os/passed_descriptors.h"

namespace verbatim::offload {
namespace {

constexpr timeval kPatience{.tv_sec = 4, .tv_usec = 0};

/// What the card answers, and the files beside it.
struct Answer {
  vnic_message header{};
  std::array<std::byte, 512> rest{};
  std::size_t size = 0;  // Of the rest.
  std::array<UniqueFd, 2> files;
};

Result<void> tell(int socket, std::uint16_t type, ByteSpan rest, std::span<const int> files = {}) {
  vnic_message header{VNIC_MAGIC, VNIC_VERSION, type};
  const std::array<iovec, 2> pieces{iovec{&header, sizeof header},
                                    iovec{const_cast<std::byte*>(rest.data()), rest.size()}};
  if (!send_message(socket, pieces, files)) return refuse_errno("card");
  return {};
}

/// The next answer; a refusal becomes the error that it says.
Result<Answer> hear(int socket, std::uint16_t wanted) {
  Answer got;
  const std::array<iovec, 2> pieces{iovec{&got.header, sizeof got.header},
                                    iovec{got.rest.data(), got.rest.size()}};
  const auto message = receive_message(socket, pieces, got.files);
  if (!message) return refuse_errno("card");
  if (message->bytes < sizeof got.header) return refuse(ECONNRESET, "card: it ended");
  got.size = message->bytes - sizeof got.header;
  if (got.header.magic != VNIC_MAGIC) return refuse(EPROTO, "card: no card answers there");
  if (got.header.type == VNIC_REFUSAL && got.size >= sizeof(std::int32_t)) {
    std::int32_t code = 0;
    std::memcpy(&code, got.rest.data(), sizeof code);
    const char* const words = reinterpret_cast<const char*>(got.rest.data()) + sizeof code;
    return refuse(code, "card: " + std::string(words, got.size - sizeof code));
  }
  if (got.header.version != VNIC_VERSION) return refuse(EPROTONOSUPPORT, "card: another version");
  if (got.header.type == VNIC_WAKE && wanted != VNIC_WAKE) return hear(socket, wanted);
  if (got.header.type != wanted) return refuse(EPROTO, "card: an answer to no question");
  return got;
}

}  // namespace

Result<std::unique_ptr<FunctionClient>> FunctionClient::join(const Wish& wish) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (wish.socket.size() >= sizeof address.sun_path) {
    return refuse(ENAMETOOLONG, "socket " + wish.socket);
  }
  wish.socket.copy(address.sun_path, wish.socket.size());
  std::unique_ptr<FunctionClient> client(new FunctionClient);
  client->socket_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!client->socket_) return refuse_errno("socket");
  setsockopt(client->fd(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  setsockopt(client->fd(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  if (connect(client->fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0) {
    return refuse_errno("no card at " + wish.socket + " (verbatim nic up)");
  }
  if (auto greeted = client->greet(wish); !greeted) return std::unexpected(greeted.error());
  if (auto given = client->register_memory(); !given) return std::unexpected(given.error());
  return client;
}

Result<void> FunctionClient::greet(const Wish& wish) {
  receive_buffers_ = std::bit_floor(std::clamp(wish.receive_buffers, 1u, VNIC_SLOTS));
  send_buffers_ = std::bit_floor(std::clamp(wish.send_buffers, 1u, VNIC_SLOTS));
  const vnic_join join{.function = wish.function,
                       .wants = wish.wants,
                       .qpn_range = wish.qpn_range,
                       .qpn_shift = wish.qpn_shift};
  if (auto told = tell(fd(), VNIC_JOIN, std::as_bytes(std::span(&join, 1))); !told) {
    return told;
  }
  auto answer = hear(fd(), VNIC_JOINED);
  if (!answer) return std::unexpected(answer.error());
  vnic_joined joined{};
  if (answer->size != sizeof joined || !answer->files[1]) return refuse(EPROTO, "card: joined");
  std::memcpy(&joined, answer->rest.data(), sizeof joined);
  if (joined.region_bytes != sizeof(vnic_function_region)) return refuse(EPROTO, "card: region");
  void* const at = mmap(nullptr, sizeof(vnic_function_region), PROT_READ | PROT_WRITE, MAP_SHARED,
                        answer->files[0].get(), 0);
  if (at == MAP_FAILED) return refuse_errno("mapping a function's rings");
  region_ = static_cast<vnic_function_region*>(at);
  doorbell_ = std::move(answer->files[1]);
  mtu_ = joined.mtu;
  std::ranges::copy(joined.mac, mac_.begin());
  return {};
}

Result<void> FunctionClient::register_memory() {
  const std::size_t bytes = (receive_buffers_ + send_buffers_) * kBufferBytes;
  const UniqueFd file(memfd_create("verbatim-frames", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ftruncate(file.get(), static_cast<off_t>(bytes)) < 0) {
    return refuse_errno("memory for frames");
  }
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED) return refuse_errno("mapping memory for frames");
  memory_ = static_cast<std::byte*>(at);
  if (auto given = give_memory(file.get(), bytes); !given) return given;
  // The first frame makes `fd` readable, whenever it comes.
  release(region_->client_asleep, 1u);
  for (std::uint32_t i = 0; i < receive_buffers_; ++i) write_empty(i);
  release(region_->receive.posted, receive_buffers_);
  return {};
}

Result<void> FunctionClient::give_memory(int file, std::size_t bytes) const {
  const vnic_memory piece{reinterpret_cast<std::uint64_t>(memory_), bytes, 0};
  if (auto told = tell(fd(), VNIC_MEMORY, std::as_bytes(std::span(&piece, 1)), {&file, 1}); !told) {
    return told;
  }
  const auto answer = hear(fd(), VNIC_REGISTERED);
  if (!answer) return std::unexpected(answer.error());
  return {};
}

FunctionClient::~FunctionClient() {
  if (region_ != nullptr) munmap(region_, sizeof *region_);
  if (memory_ != nullptr) munmap(memory_, (receive_buffers_ + send_buffers_) * kBufferBytes);
}

/// Before it is posted. `number`: of all empty buffers that ever were.
void FunctionClient::write_empty(std::uint32_t number) {
  vnic_descriptor& slot = region_->receive.slots[number % VNIC_SLOTS];
  slot.address = reinterpret_cast<std::uint64_t>(buffer(number % receive_buffers_));
  slot.length = kBufferBytes;
}

MutableByteSpan FunctionClient::room() {
  if (sent_ - taken_ >= send_buffers_) taken_ = acquire(region_->send.done);
  if (sent_ - taken_ >= send_buffers_) return {};
  return {buffer(receive_buffers_ + sent_ % send_buffers_), VNIC_FUNCTION_FRAME_MAX};
}

void FunctionClient::post(std::size_t bytes) {
  vnic_descriptor& slot = region_->send.slots[sent_ % VNIC_SLOTS];
  slot.address = reinterpret_cast<std::uint64_t>(buffer(receive_buffers_ + sent_ % send_buffers_));
  slot.length = static_cast<std::uint32_t>(bytes);
  release(region_->send.posted, ++sent_);
}

void FunctionClient::ring() const { wake_card(region_->card_asleep, doorbell_.get()); }

bool FunctionClient::begin_sleep() {
  std::array<std::byte, 64> message;
  ssize_t size = 1;
  while (size > 0) size = recv(fd(), message.data(), message.size(), MSG_DONTWAIT);
  const bool has_ended = size == 0;
  release(region_->client_asleep, 1u);
  // Before the last look: the card completes, and then reads whether the client sleeps.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return !has_ended && acquire(region_->receive.done) == received_;
}

bool FunctionClient::has_card() const {
  pollfd socket{.fd = fd(), .events = POLLRDHUP, .revents = 0};
  return poll(&socket, 1, 0) <= 0;
}

}  // namespace verbatim::offload
