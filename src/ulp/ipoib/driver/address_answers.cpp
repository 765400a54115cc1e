#include "ulp/ipoib/driver/address_answers.h"

#include <cerrno>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

namespace verbatim::ulp::ipoib {

namespace protocol = fabric::protocol;

AddressAnswers::AddressAnswers(service::Loop& loop, protocol::FabricFolder folder,
                               std::uint64_t host_guid, std::string interface, UniqueFd listener,
                               Find find)
    : loop_(loop),
      folder_(std::move(folder)),
      host_guid_(host_guid),
      interface_(std::move(interface)),
      listener_(std::move(listener)),
      find_(std::move(find)) {}

Result<std::unique_ptr<AddressAnswers>> AddressAnswers::create(service::Loop& loop,
                                                               std::uint64_t host_guid,
                                                               const std::string& interface,
                                                               Find find) {
  const char* const host = getenv("VERBATIM_HOST");
  const char* const fabric = getenv("VERBATIM_FABRIC");
  if (host == nullptr) return refuse(ENOENT, "this node is no host of a fabric");
  const bool is_named = fabric != nullptr && *fabric != '\0';
  auto folder = protocol::FabricFolder::of(is_named ? fabric : protocol::kDefaultFabric);
  if (!folder) return std::unexpected(folder.error());
  auto listener = protocol::listen_for_questions(*folder, host_guid, interface);
  if (!listener) return std::unexpected(listener.error());
  const int fd = listener->get();
  std::unique_ptr<AddressAnswers> answers(new AddressAnswers(
      loop, std::move(*folder), host_guid, interface, std::move(*listener), std::move(find)));
  auto watched = loop.watch(
      fd, EPOLLIN, [self = answers.get()](std::uint32_t, TimeNs now) { self->accept(now); });
  if (!watched) return std::unexpected(watched.error());
  loop.add(*answers);
  return answers;
}

AddressAnswers::~AddressAnswers() {
  protocol::stop_listening(folder_, host_guid_, interface_);
  while (!clients_.empty()) end(clients_.begin());
  loop_.unwatch(listener_.get());
  loop_.remove(*this);
}

/// Those for whom there is no room see the connection end.
void AddressAnswers::accept(TimeNs now) {
  UniqueFd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection || clients_.size() == kClientsMax) return;
  const int fd = connection.get();
  const auto client = clients_.insert(
      clients_.end(),
      {.connection = std::move(connection), .question = {}, .gives_up = now + kPatience});
  auto watched =
      loop_.watch(fd, EPOLLIN, [this, client](std::uint32_t, TimeNs) { on_ready(client); });
  if (!watched) clients_.erase(client);
}

/// Its question, or it has ended.
void AddressAnswers::on_ready(Clients::iterator client) {
  if (client->question) return static_cast<void>(end(client));
  const auto question = protocol::receive_question(client->connection.get());
  if (!question && question.error().code == EAGAIN) return;
  if (!question) return static_cast<void>(end(client));
  client->question = *question;
  if (answer(*client)) end(client);
}

bool AddressAnswers::answer(Client& client) {
  const auto found = find_(*client.question);
  if (found) protocol::send_answer(client.connection.get(), *found);
  return found.has_value();
}

AddressAnswers::Clients::iterator AddressAnswers::end(Clients::iterator client) {
  loop_.unwatch(client->connection.get());
  return clients_.erase(client);
}

void AddressAnswers::look_again() {
  for (auto at = clients_.begin(); at != clients_.end();)
    at = at->question && answer(*at) ? end(at) : std::next(at);
}

TimeNs AddressAnswers::deadline() const {
  return clients_.empty() ? kNever : clients_.front().gives_up;  // In the order of their coming.
}

void AddressAnswers::on_time(TimeNs now) {
  while (!clients_.empty() && clients_.front().gives_up <= now) {
    const Client& late = clients_.front();
    if (late.question) {
      protocol::send_answer(
          late.connection.get(),
          refuse(EHOSTUNREACH, fmt::format("{}: {} does not answer", interface_,
                                           late.question->destination.ip_text())));
    }
    end(clients_.begin());
  }
}

}  // namespace verbatim::ulp::ipoib
