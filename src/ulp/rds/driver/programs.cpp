#include "ulp/rds/driver/programs.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/passed_descriptors.h"
#include "service/folder.h"
#include "ulp/rds/local/bell.h"

namespace verbatim::ulp::rds {
namespace {

constexpr std::size_t kSpare = local::kInlineBytesMax / kFragmentBytes;
/// For any packet.
constexpr std::uint32_t kNeeded = (1 + local::kOperationsMax) * kFragmentsMax + kSpare;
constexpr int kPacketsOfATurn = 64;

union Beside {
  cmsghdr header;
  std::array<char, CMSG_SPACE(2 * sizeof(int)) + CMSG_SPACE(sizeof(ucred))> bytes;
};

SocketAddress from_local(const local::Address& address) {
  return SocketAddress::from(&address.any, sizeof address).value_or(SocketAddress{});
}

}  // namespace

Programs::Programs(const Parts& parts, std::string path)
    : loop_(parts.loop),
      pool_(parts.pool),
      grants_(parts.grants),
      transfers_(parts.transfers),
      path_(std::move(path)) {}

Result<std::unique_ptr<Programs>> Programs::create(const Parts& parts, const std::string& path) {
  std::unique_ptr<Programs> programs(new Programs(parts, path));
  if (auto opened = programs->open(); !opened) return std::unexpected(opened.error());
  return programs;
}

Result<void> Programs::open() {
  page_file_.reset(memfd_create("verbatim-rds-page", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!page_file_ || ftruncate(page_file_.get(), sizeof *page_) != 0)
    return refuse_errno("memfd_create");
  void* const page =
      mmap(nullptr, sizeof *page_, PROT_READ | PROT_WRITE, MAP_SHARED, page_file_.get(), 0);
  if (page == MAP_FAILED) return refuse_errno("mmap");
  page_ = new (page) local::SharedPage;
  page_->broker.begin();
  fcntl(page_file_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE);
  auto listener = service::listen_at(path_);
  if (!listener) return std::unexpected(listener.error());
  listener_ = std::move(*listener);
  loop_.add(*this);
  return loop_.watch(listener_.get(), EPOLLIN, [this](std::uint32_t, TimeNs) { accept_all(); });
}

Programs::~Programs() {
  while (!programs_.empty()) end(programs_.begin()->first);
  admit_no_more();
  for (const std::string& link : published_) unlink(link.c_str());
  loop_.remove(*this);
  if (page_ != nullptr) page_->broker.end(), munmap(page_, sizeof *page_);
  pool_.give_back(spare_);
}

void Programs::admit_no_more() {
  if (!listener_) return;
  loop_.unwatch(listener_.get());
  unlink(path_.c_str());
  listener_.reset();
}

void Programs::accept_all() {
  for (;;) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd) return;
    if (auto admitted = admit(std::move(fd)); !admitted)
      log(LogLevel::warn, "a program's socket is refused: {}", admitted.error().text);
  }
}

Result<void> Programs::admit(UniqueFd fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
    return refuse_errno("SO_PEERCRED");
  if (peer.uid != geteuid()) return refuse(EPERM, "another user's program");
  const int on = 1;  // Each packet says who has sent it.
  if (setsockopt(fd.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0)
    return refuse_errno("SO_PASSCRED");
  const SocketId id{++last_socket_};
  if (auto opened = broker_->open(id); !opened) return opened;
  auto program = std::make_unique<Program>();
  program->socket = id;
  program->fd = std::move(fd);
  program->process = peer.pid;
  auto made = make_inbox(*program);
  auto watched = made ? loop_.watch(program->fd.get(), EPOLLIN,
                                    [this, id](std::uint32_t, TimeNs) { on_ready(id); })
                      : made;
  if (!watched) {
    broker_->close(id);
    return watched;
  }
  programs_[id] = std::move(program);
  return {};
}

void Programs::end(SocketId id) {
  const auto found = programs_.find(id);
  Program& program = *found->second;
  loop_.unwatch(program.fd.get());
  program.inbox->is_closed.store(1);
  std::erase_if(waiters_, [id](const auto& one) { return one.second.socket == id; });
  broker_->close(id);
  grants_.end_all(id);
  programs_.erase(found);
}

int Programs::process_of(SocketId socket) const {
  const auto found = programs_.find(socket);
  return found == programs_.end() ? 0 : found->second->process;
}

void Programs::watch(Program& program) {
  loop_.change(program.fd.get(), program.is_paused || is_starved_ ? 0u : EPOLLIN);
}

void Programs::pause(SocketId socket, bool is_paused) {
  const auto found = programs_.find(socket);
  if (found == programs_.end()) return;
  found->second->is_paused = is_paused;
  if (is_paused) look_again();
  watch(*found->second);
}

void Programs::on_fragments() {
  if (!is_starved_ || !pool_.has_room(kNeeded)) return;
  is_starved_ = false;
  for (auto& [id, program] : programs_) watch(*program);
}

void Programs::on_ready(SocketId id) {
  read_all(id);
  // Its socket may have been too full for a bell.
  const auto found = programs_.find(id);
  if (found != programs_.end() && local::may_sleep_on(*found->second->inbox)) ring(*found->second);
}

void Programs::read_all(SocketId id) {
  for (int i = 0; i < kPacketsOfATurn; ++i) {
    const auto found = programs_.find(id);
    if (found == programs_.end() || found->second->is_paused) return;
    if (!fill_spare()) {
      is_starved_ = true;
      look_again();
      for (auto& [other, program] : programs_) watch(*program);
      return;
    }
    if (!read_one(*found->second)) return;
  }
}

/// Room for the longest message of either kind, and its operations; false: programs wait.
bool Programs::fill_spare() {
  if (!pool_.has_room(kNeeded)) return false;
  const std::size_t had = spare_.size();
  if (had == kSpare) return true;
  spare_.resize(kSpare);
  return pool_.take(std::span(spare_).subspan(had));
}

void Programs::take_beside(msghdr& message, Packet& packet) {
  std::array<UniqueFd, 2> descriptors;
  take_descriptors(message, descriptors);
  packet.beside = std::move(descriptors[0]);
  packet.file = std::move(descriptors[1]);
  for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
    if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_CREDENTIALS) continue;
    ucred sender;
    std::memcpy(&sender, CMSG_DATA(one), sizeof sender);
    packet.process = sender.pid;
  }
}

/// Returns false if there was no packet.
bool Programs::receive(Program& program, Packet& packet) {
  std::array<iovec, kSpare + 1> pieces;
  pieces[0] = {&packet.head, sizeof packet.head};
  for (std::size_t i = 0; i < kSpare; ++i)
    pieces[i + 1] = {spare_[i].data + Header::kSize, kFragmentBytes};
  Beside beside;
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  message.msg_control = beside.bytes.data();
  message.msg_controllen = beside.bytes.size();
  const ssize_t got = recvmsg(program.fd.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got >= 0) take_beside(message, packet);
  const bool is_ours = got >= static_cast<ssize_t>(sizeof packet.head) &&
                       packet.head.magic == local::kMagic &&
                       (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  if (!is_ours) {
    if (got > 0) log(LogLevel::warn, "process {} sent no packet of ours", program.process);
    end(program.socket);
    return false;
  }
  packet.bytes = static_cast<std::size_t>(got) - sizeof packet.head;
  return true;
}

bool Programs::read_one(Program& program) {
  Packet packet;
  if (!receive(program, packet)) return false;
  switch (packet.head.kind) {
    case local::Kind::message:
    case local::Kind::message_in_file:
      on_message(program, packet);
      return true;
    case local::Kind::question:
      on_question(program, packet);
      return true;
    case local::Kind::bell:
    case local::Kind::room:
      on_word(program, packet.head);
      return true;
    default:
      end(program.socket);
      return false;
  }
}

/// The message's fragments: those that it was received into, or new ones, filled from its file.
Result<std::vector<Slice>> Programs::fragments_in(const Packet& packet) {
  const std::uint32_t bytes = packet.head.bytes;
  if (packet.head.kind == local::Kind::message_in_file)
    return fragments_of_file(packet.beside.get(), bytes);
  if (bytes != packet.bytes) return refuse(EMSGSIZE, "a message of a wrong length");
  std::vector<Slice> slices(fragments_of(bytes));
  std::copy_n(spare_.begin(), slices.size(), slices.begin());
  spare_.erase(spare_.begin(), spare_.begin() + static_cast<std::ptrdiff_t>(slices.size()));
  for (std::uint32_t at = 0; Slice & slice : slices) {
    const std::uint32_t part = std::min(kFragmentBytes, bytes - at);
    slice.bytes = static_cast<std::uint32_t>(Header::kSize) + part;
    at += part;
  }
  return slices;
}

Result<std::vector<Slice>> Programs::fragments_of_file(int file, std::uint32_t bytes) {
  if (bytes > kMessageBytesMax) return refuse(EMSGSIZE, "a message of more than 1 MiB");
  std::vector<Slice> slices(fragments_of(bytes));
  if (!pool_.take(slices)) return refuse(ENOBUFS, "no fragments");
  std::array<iovec, kFragmentsMax> pieces;
  for (std::uint32_t at = 0, i = 0; i < slices.size(); ++i) {
    const std::uint32_t part = std::min(kFragmentBytes, bytes - at);
    slices[i].bytes = static_cast<std::uint32_t>(Header::kSize) + part;
    pieces[i] = {slices[i].data + Header::kSize, part};
    at += part;
  }
  if (bytes > 0 && preadv(file, pieces.data(), static_cast<int>(slices.size()), 0) !=
                       static_cast<ssize_t>(bytes)) {
    pool_.give_back(slices);
    return refuse(EPROTO, "a file that is shorter than its message");
  }
  return slices;
}

/// What is wrong with a message was checked by the program's side; a program that does without
/// loses the message.
void Programs::on_message(Program& program, const Packet& packet) {
  auto slices = fragments_in(packet);
  const auto sent =
      slices ? broker_->send(program.socket, from_local(packet.head.address),
                             {.bytes = packet.head.bytes, .fragments = std::move(*slices)},
                             loop_.now())
             : Result<void>(std::unexpected(slices.error()));
  if (!slices) on_finished(program.socket);
  if (!sent) log(LogLevel::info, "process {}: {}", program.process, sent.error().text);
}

void Programs::show_congestion(bool is_any) {
  page_->is_congested.store(is_any ? 1 : 0, std::memory_order_relaxed);
}

}  // namespace verbatim::ulp::rds
