#include "fabric/protocol/interface_addresses.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service/folder.h"

namespace verbatim::fabric::protocol {
namespace {

namespace fs = std::filesystem;

/// Longer than an interface asks a neighbour that does not answer.
constexpr TimeNs kPatience = 8 * kSecond;
constexpr std::size_t kWordsMax = 160;

struct FlatAddress {
  std::uint8_t family = 0;  // 0: none.
  std::array<std::uint8_t, 16> bytes{};
};
struct FlatQuestion {
  FlatAddress source, destination;
};
struct FlatAnswer {
  std::int32_t error = 0;
  FlatAddress source;
  std::array<std::uint8_t, 16> own{}, peer{};
  std::uint8_t port = 1;
  std::uint16_t pkey = 0;
  std::array<char, kWordsMax> words{};
};
static_assert(std::is_trivially_copyable_v<FlatQuestion> &&
              std::is_trivially_copyable_v<FlatAnswer>);

FlatAddress flat(const SocketAddress& address) {
  return {static_cast<std::uint8_t>(address.family()), address.ipv6_bytes()};
}

SocketAddress from_flat(const FlatAddress& flat) {
  const auto& b = flat.bytes;
  if (flat.family == AF_INET) return SocketAddress::ipv4({b[12], b[13], b[14], b[15]});
  if (flat.family == AF_INET6) return SocketAddress::ipv6(b);
  return {};
}

std::string first_of_host(std::uint64_t host_guid) {
  return fmt::format("ipoib-{:016x}-", host_guid);
}

std::string path_of(const FabricFolder& folder, std::uint64_t host_guid,
                    const std::string& interface) {
  return folder.path() + "/" + first_of_host(host_guid) + interface;
}

/// By name.
std::vector<std::string> sockets_of(const FabricFolder& folder, std::uint64_t host_guid) {
  std::vector<std::string> paths;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder.path(), ignored)) {
    if (entry.path().filename().string().starts_with(first_of_host(host_guid)))
      paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

Result<AddressAnswer> ask(const std::string& path, const AddressQuestion& question) {
  const auto connection = service::connect_to(path, kPatience);
  if (!connection) return refuse(ENOENT, "it has ended");
  const FlatQuestion asked{flat(question.source), flat(question.destination)};
  FlatAnswer answer;
  const bool is_sent = ::send(connection->get(), &asked, sizeof asked, MSG_NOSIGNAL) >= 0;
  if (!is_sent || recv(connection->get(), &answer, sizeof answer, 0) != sizeof answer)
    return refuse(ENOENT, "it does not answer");
  answer.words.back() = '\0';
  if (answer.error != 0) return refuse(answer.error, answer.words.data());
  return AddressAnswer{.source = from_flat(answer.source),
                       .own = Gid{answer.own},
                       .port = answer.port,
                       .pkey = PKey{answer.pkey},
                       .peer = Gid{answer.peer}};
}

}  // namespace

Result<AddressAnswer> ask_interfaces(const FabricFolder& folder, std::uint64_t host_guid,
                                     const AddressQuestion& question) {
  const bool is_own = question.destination.empty();
  Error why{is_own ? EADDRNOTAVAIL : EHOSTUNREACH,
            fmt::format("this host has no interface of IP over InfiniBand (verbatim ipoib up), and "
                        "{} is no address of a host of the fabric",
                        (is_own ? question.source : question.destination).ip_text())};
  for (const std::string& path : sockets_of(folder, host_guid)) {
    auto answer = ask(path, question);
    if (answer) return answer;
    if (answer.error().code != ENOENT) why = answer.error();
  }
  return std::unexpected(why);
}

Result<UniqueFd> listen_for_questions(const FabricFolder& folder, std::uint64_t host_guid,
                                      const std::string& interface) {
  return service::listen_at(path_of(folder, host_guid, interface));
}

void stop_listening(const FabricFolder& folder, std::uint64_t host_guid,
                    const std::string& interface) {
  unlink(path_of(folder, host_guid, interface).c_str());
}

Result<AddressQuestion> receive_question(int connection) {
  FlatQuestion asked;
  const auto got = recv(connection, &asked, sizeof asked, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return refuse(EAGAIN, "nothing yet");
  if (got != sizeof asked) return refuse(EPROTO, "no question");
  return AddressQuestion{from_flat(asked.source), from_flat(asked.destination)};
}

void send_answer(int connection, const Result<AddressAnswer>& answer) {
  FlatAnswer told;
  if (answer) {
    told.source = flat(answer->source);
    told.own = answer->own.bytes;
    told.peer = answer->peer.bytes;
    told.port = answer->port;
    told.pkey = raw(answer->pkey);
  } else {
    told.error = answer.error().code;
    answer.error().text.copy(told.words.data(), kWordsMax - 1);
  }
  ::send(connection, &told, sizeof told, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace verbatim::fabric::protocol
