#include "ulp/target/tree/system_bus.h"

#include <bit>
#include <cstring>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "service/folder.h"

namespace verbatim::ulp::target {
namespace {

// D-Bus specification, "Message Protocol".
constexpr std::size_t kFixedBytes = 16;
enum MessageType : char { kCall = 1, kReturn = 2, kError = 3 };
constexpr char kNoReply = 1;
enum Field : char {
  kErrorName = 4,
  kReplySerial = 5,
  kDestination = 6,
  kSender = 7,
  kSignature = 8
};

std::size_t rounded(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

std::uint32_t load(const std::string& in, std::size_t at, bool is_little) {
  std::uint32_t value = 0;
  std::memcpy(&value, in.data() + at, sizeof value);
  return is_little ? value : std::byteswap(value);
}

std::string number(std::uint32_t value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}
std::string text(std::string_view value) {
  return number(static_cast<std::uint32_t>(value.size())) + std::string(value) + '\0';
}
void add_field(std::string& fields, Field code, std::string_view signature,
               const std::string& value) {
  fields.resize(rounded(fields.size()));
  fields += {static_cast<char>(code), static_cast<char>(signature.size())};
  fields += std::string(signature) + '\0' + value;
}

std::string message(MessageType type, std::uint32_t serial, const std::string& fields,
                    const std::string& body) {
  std::string out = {'l', static_cast<char>(type), kNoReply, 1};
  out += number(static_cast<std::uint32_t>(body.size())) + number(serial) +
         number(static_cast<std::uint32_t>(fields.size())) + fields;
  out.resize(rounded(out.size()));
  return out + body;
}

}  // namespace

std::string bus_line_answer(std::string_view line) {
  const std::string kOk = "OK " + std::string(32, '1') + "\r\n";
  if (line.starts_with('\0')) line.remove_prefix(1);  // With it come the credentials.
  if (line.starts_with("BEGIN")) return {};
  if (line.starts_with("AUTH EXTERNAL ")) return kOk;
  if (line.starts_with("AUTH EXTERNAL")) return "DATA\r\n";
  if (line.starts_with("AUTH")) return "REJECTED EXTERNAL\r\n";
  if (line.starts_with("DATA")) return kOk;
  return line.starts_with("NEGOTIATE_UNIX_FD") ? "AGREE_UNIX_FD\r\n" : "ERROR\r\n";
}

bool take_bus_message(std::string& in, std::uint32_t serial, std::string& answer) {
  answer.clear();
  if (in.size() < kFixedBytes) return false;
  const bool is_little = in[0] == 'l';
  const std::size_t body = load(in, 4, is_little), fields = load(in, 12, is_little);
  const std::uint32_t asked = load(in, 8, is_little);
  const std::size_t whole = kFixedBytes + rounded(fields) + body;
  if (in.size() < whole) return false;
  const bool is_due = in[1] == kCall && (in[2] & kNoReply) == 0;
  const bool is_hello =
      std::string_view(in).substr(kFixedBytes, fields).find("Hello") != std::string_view::npos;
  in.erase(0, whole);
  if (!is_due) return true;
  std::string out;
  add_field(out, kReplySerial, "u", number(asked));
  add_field(out, kSender, "s", text("org.freedesktop.DBus"));
  if (is_hello)
    add_field(out, kDestination, "s", text(":1.1"));
  else
    add_field(out, kErrorName, "s", text("org.freedesktop.DBus.Error.ServiceUnknown"));
  add_field(out, kSignature, "g", std::string("\1s\0", 3));
  answer = message(is_hello ? kReturn : kError, serial, out,
                   text(is_hello ? ":1.1" : "this bus has no services"));
  return true;
}

Result<std::unique_ptr<SystemBus>> SystemBus::create(service::Loop& loop, const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (auto fits = service::check_plain_path(path); !fits) return std::unexpected(fits.error());
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  unlink(path.c_str());
  if (!listener ||
      bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener.get(), 8) != 0)
    return refuse_errno(path);
  std::unique_ptr<SystemBus> bus(new SystemBus(loop, path, std::move(listener)));
  auto watched = loop.watch(bus->listener_.get(), EPOLLIN,
                            [self = bus.get()](std::uint32_t, TimeNs) { self->accept_all(); });
  if (!watched) return std::unexpected(watched.error());
  return bus;
}

SystemBus::~SystemBus() {
  for (const auto& [fd, connection] : connections_) loop_.unwatch(fd);
  loop_.unwatch(listener_.get());
  unlink(path_.c_str());
}

void SystemBus::accept_all() {
  for (;;) {
    UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    if (connections_.size() >= kConnectionsMax) continue;
    const int fd = socket.get();
    if (!loop_.watch(fd, EPOLLIN, [this, fd](std::uint32_t, TimeNs) { on_ready(fd); })) continue;
    connections_[fd].socket = std::move(socket);
  }
}

void SystemBus::on_ready(int fd) {
  Connection& connection = connections_.at(fd);
  char bytes[4096];
  const ssize_t got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
  if (got > 0) connection.in.append(bytes, static_cast<std::size_t>(got));
  std::string out;
  while (!connection.is_authenticated) {
    const std::size_t end = connection.in.find("\r\n");
    if (end == std::string::npos) break;
    const std::string answer = bus_line_answer(std::string_view(connection.in).substr(0, end));
    connection.in.erase(0, end + 2);
    connection.is_authenticated = answer.empty();
    out += answer;
  }
  std::string answer;
  while (connection.is_authenticated &&
         take_bus_message(connection.in, connection.serial + 1, answer)) {
    ++connection.serial;
    out += answer;
  }
  if (!out.empty()) send(fd, out.data(), out.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  const bool is_open = got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
  if (is_open && connection.in.size() <= kBytesMax) return;
  loop_.unwatch(fd);
  connections_.erase(fd);
}

}  // namespace verbatim::ulp::target
