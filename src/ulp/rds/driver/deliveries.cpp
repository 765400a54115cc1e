// What goes to programs: messages into their inboxes, and bells for those that sleep.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "ulp/rds/driver/programs.h"
#include "ulp/rds/local/bell.h"

namespace verbatim::ulp::rds {
namespace {

using local::Head;
using local::Inbox;

/// A program that does not answer for its inbox is asked again after this.
constexpr TimeNs kLooksAgain = kMillisecond;

Head head_of(const Delivery& delivery) {
  Head head{.kind = local::Kind::message, .bytes = delivery.bytes};
  if (delivery.notice) {
    head.kind = local::Kind::notice;
    head.value = delivery.notice->token;
    head.option = static_cast<std::int32_t>(delivery.notice->status);
    return head;
  }
  std::memcpy(&head.address, delivery.from.data(), delivery.from.size());
  if (delivery.used) {
    head.brings |= local::kUsedKey;
    head.used_key = raw(*delivery.used);
  }
  if (delivery.offered) {
    head.brings |= local::kOffer;
    head.cookie = local::cookie_of(raw(delivery.offered->key), delivery.offered->offset);
  }
  return head;
}

}  // namespace

Result<void> Programs::make_inbox(Program& program) {
  program.inbox_file.reset(local::create_inbox());
  if (!program.inbox_file) return refuse_errno("an inbox");
  program.inbox.reset(local::map_inbox(program.inbox_file.get()));
  if (!program.inbox) return refuse_errno("mmap of an inbox");
  set_limit(program);
  return {};
}

void Programs::set_limit(Program& program) {
  const Broker::Socket* const socket = broker_->find(program.socket);
  program.inbox->limit.store(socket == nullptr ? Inbox::kCapacity : socket->receive_limit);
}

/// Returns false if the inbox has no room, or its owner keeps it locked.
bool Programs::put_in(Program& program, const Head& head, std::span<const ByteSpan> pieces) {
  Inbox& inbox = *program.inbox;
  if (!inbox.lock_soon()) return false;
  bool rings = false;
  const auto put = inbox.put(head, pieces, [&rings] { return rings = true; });
  if (rings && local::ring(program.fd.get(), inbox) == local::Rung::later) owe_bell(program);
  inbox.lock.unlock();
  return put == Inbox::Put::done;
}

bool Programs::deliver(SocketId socket, const Delivery& delivery) {
  const auto found = programs_.find(socket);
  if (found == programs_.end()) return true;
  const bool is_put = put_in(*found->second, head_of(delivery), delivery.pieces);
  if (!is_put) wait_for_room(*found->second);
  return is_put;
}

void Programs::ring(Program& program) {
  program.owes_bell = false;
  if (local::ring_soon(program.fd.get(), *program.inbox) == local::Rung::later) owe_bell(program);
}

void Programs::owe_bell(Program& program) {
  program.owes_bell = true;
  look_again();
}

void Programs::look_again() { looks_again_ = std::min(looks_again_, loop_.now() + kLooksAgain); }

/// Messages are held. The program tells when it has read some; one that was stopped in the middle
/// of it does not, so there is also a time.
void Programs::wait_for_room(Program& program) {
  program.inbox->is_held.store(1);
  program.inbox->wants_room.store(1);
  program.waits = true;
  look_again();
}

void Programs::on_word(Program& program, const Head& head) {
  if (head.kind == local::Kind::room) return serve_held(program);
  const SocketId id =
      head.value == 0 ? program.socket : SocketId{static_cast<std::uint32_t>(head.value)};
  const auto found = programs_.find(id);
  if (found != programs_.end()) ring(*found->second);
}

void Programs::serve_held(Program& program) {
  program.waits = false;
  broker_->on_room(program.socket);  // It waits again if there is no room for all.
  if (!program.waits) program.inbox->is_held.store(0);
}

/// While bells may lie in sockets that are not read, each inbox is looked at.
void Programs::on_time(TimeNs) {
  looks_again_ = kNever;
  for (auto& [id, program] : programs_) {
    if (program->waits) serve_held(*program);
    if (program->owes_bell || local::may_sleep_on(*program->inbox)) ring(*program);
    tell_owed_congestion(*program);
    if (program->is_paused || is_starved_) look_again();
  }
}

void Programs::on_finished(SocketId socket) {
  const auto found = programs_.find(socket);
  if (found != programs_.end()) found->second->inbox->finished.fetch_add(1);
}

void Programs::tell_congestion(SocketId socket, std::uint64_t ports) {
  const auto found = programs_.find(socket);
  if (found == programs_.end()) return;
  found->second->owed_ports |= ports;
  tell_owed_congestion(*found->second);
}

/// A program that has not asked for the ports, but whose socket was full, wakes up, too.
void Programs::tell_owed_congestion(Program& program) {
  if (program.owed_ports == 0) return;
  const bool is_told = broker_->find(program.socket)->monitors;
  const Head head{
      .kind = local::Kind::congestion, .option = is_told ? 1 : 0, .value = program.owed_ports};
  if (!put_in(program, head, {})) return look_again();
  program.owed_ports = 0;
}

void Programs::share() { page_->is_shared.store(1); }

/// Programs of other nodes find this one's inboxes by its address.
void Programs::publish(const SocketAddress& address) {
  if (page_->is_shared.load() == 0) return;
  const std::filesystem::path path(path_);
  const std::string link =
      path.parent_path() / fmt::format("{}{}", local::kAddressPrefix, address.ip_text());
  if (!published_.insert(link).second) return;
  unlink(link.c_str());  // Of a broker that was killed: the address is this node's now.
  if (symlink(path.filename().c_str(), link.c_str()) != 0)
    log(LogLevel::info, "{}: {}", link, std::strerror(errno));
}

}  // namespace verbatim::ulp::rds
