#include "service/control.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

namespace verbatim::service {
namespace {

constexpr Protocol kProtocol{.magic = 0x56727343, .version = 1};  // "VrsC"
enum Type : std::uint16_t { kQuestion = 1, kAnswer, kLongAnswer };
/// Answers beyond it come in a file beside the message.
constexpr std::size_t kInlineBytes = 32 << 10;
constexpr std::size_t kAnswerBytesMax = 256 << 20;
constexpr std::string_view kPrefix = "ulp+";
constexpr TimeNs kEndPatience = 10 * kSecond;  // For one that has been killed.

std::string file_of(const ServiceName& name) {
  return fmt::format("{}{}+{}", kPrefix, name.kind, name.name);
}

std::optional<ServiceName> name_of(std::string_view file) {
  if (!file.starts_with(kPrefix)) return std::nullopt;
  file.remove_prefix(kPrefix.size());
  const std::size_t plus = file.find('+');
  if (plus == std::string_view::npos) return std::nullopt;
  return ServiceName{std::string(file.substr(0, plus)), std::string(file.substr(plus + 1))};
}

ByteSpan bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

Result<UniqueFd> file_with(const std::string& text) {
  UniqueFd file(memfd_create("verbatim-answer", MFD_CLOEXEC));
  if (!file) return refuse_errno("memfd_create");
  for (std::size_t at = 0; at < text.size();) {
    const auto written =
        pwrite(file.get(), text.data() + at, text.size() - at, static_cast<off_t>(at));
    if (written < 0 && errno != EINTR) return refuse_errno("writing an answer");
    if (written > 0) at += static_cast<std::size_t>(written);
  }
  return file;
}

Result<std::string> text_in(int file) {
  struct stat info{};
  if (fstat(file, &info) != 0) return refuse_errno("an answer's file");
  if (static_cast<std::uint64_t>(info.st_size) > kAnswerBytesMax) {
    return refuse(EFBIG, fmt::format("an answer of {} bytes", info.st_size));
  }
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  for (std::size_t at = 0; at < text.size();) {
    const auto got = pread(file, text.data() + at, text.size() - at, static_cast<off_t>(at));
    if (got == 0 || (got < 0 && errno != EINTR)) return refuse(EPROTO, "an answer is cut");
    if (got > 0) at += static_cast<std::size_t>(got);
  }
  return text;
}

Result<nlohmann::json> parse(std::string_view text) {
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) return refuse(EPROTO, "what came is not JSON");
  return json;
}

/// The process that has written itself into the lock's file last; it may have ended since.
pid_t noted_process(const RuntimeFolder& folder, const ServiceName& name) {
  const UniqueFd file(open(folder.agent_lock(file_of(name)).c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 16> text{};
  if (!file || pread(file.get(), text.data(), text.size() - 1, 0) <= 0) return 0;
  return static_cast<pid_t>(std::atoi(text.data()));
}

/// Whether the process has been killed, or ends: it holds its lock until its memory is free.
bool is_ending(pid_t process) {
  constexpr unsigned long kExiting = 0x4;  // PF_EXITING, of the kernel's <linux/sched.h>.
  if (process <= 0) return false;
  const auto text_of = [process](const char* file) {
    std::ifstream stream(fmt::format("/proc/{}/{}", process, file));
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  const std::string stat = text_of("stat"), status = text_of("status");
  unsigned long flags = 0, pending = 0;
  if (const auto name_end = stat.rfind(')'); name_end != stat.npos)
    std::sscanf(stat.c_str() + name_end, ") %*c %*d %*d %*d %*d %*d %lu", &flags);
  if (const auto at = status.find("ShdPnd:"); at != status.npos)
    std::sscanf(status.c_str() + at, "ShdPnd: %lx", &pending);
  return (flags & kExiting) != 0 || (pending >> (SIGKILL - 1) & 1) != 0;
}

}  // namespace

Result<std::unique_ptr<Control>> Control::open(const ServiceName& name, Loop& loop) {
  if (auto fits = check_node_name(name.name); !fits) return std::unexpected(fits.error());
  auto folder = RuntimeFolder::open();
  if (!folder) return std::unexpected(folder.error());
  const std::string file = file_of(name);
  auto lock = LockFile::take(folder->agent_lock(file), 0);
  if (!lock && lock.error().code == EWOULDBLOCK && is_ending(noted_process(*folder, name)))
    lock = LockFile::take(folder->agent_lock(file), kEndPatience);
  if (!lock && lock.error().code == EWOULDBLOCK) {
    return refuse(
        EEXIST,
        fmt::format(
            "{} runs already: 'verbatim {} down' ends it (with the same --node, --host or --name)",
            name.text(), name.kind.substr(0, name.kind.find('-'))));  // nfs-serve: nfs.
  }
  if (!lock) return std::unexpected(lock.error());
  auto listener = listen_at(folder->socket(file));
  if (!listener) return std::unexpected(listener.error());
  std::unique_ptr<Control> control(new Control(std::move(*folder), file, std::move(*lock)));
  auto clients = Clients::create(loop, std::move(*listener), kProtocol, {.clients = 64});
  if (!clients) return std::unexpected(clients.error());
  control->clients_ = std::move(*clients);
  control->clients_->on(kQuestion, [self = control.get()](Client& client, const Incoming& asked) {
    return self->answer(client, asked);
  });
  return control;
}

Result<std::string> folder_of(const ServiceName& name) {
  auto folder = RuntimeFolder::open();
  if (!folder) return std::unexpected(folder.error());
  return folder->path() + "/" + file_of(name) + ".files";
}

Control::Control(RuntimeFolder folder, std::string file, LockFile lock)
    : folder_(std::move(folder)), file_(std::move(file)), lock_(std::move(lock)) {
  // For `process_of`: the lock itself does not name its holder.
  const std::string process = std::to_string(getpid());
  if (ftruncate(lock_.fd(), 0) == 0) {
    [[maybe_unused]] const auto written = pwrite(lock_.fd(), process.data(), process.size(), 0);
  }
}

Control::~Control() {
  clients_.reset();
  unlink(folder_.socket(file_).c_str());
  lock_.remove();
  folder_.remove_if_empty();
}

void Control::on(const std::string& ask, Answer answer) { answers_[ask] = std::move(answer); }

Result<void> Control::answer(Client& client, const Incoming& incoming) {
  const auto question =
      parse({reinterpret_cast<const char*>(incoming.bytes.data()), incoming.bytes.size()});
  if (!question) return std::unexpected(question.error());
  const bool asks =
      question->is_object() && question->contains("ask") && question->at("ask").is_string();
  if (!asks) return refuse(EINVAL, "a question is an object with a text 'ask'");
  const auto found = answers_.find(question->at("ask").get<std::string>());
  if (found == answers_.end()) {
    return refuse(EINVAL, fmt::format("nothing here answers '{}'", question->at("ask").dump()));
  }
  const auto answered = found->second(*question);
  if (!answered) return std::unexpected(answered.error());
  const std::string text = answered->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() <= kInlineBytes) {
    clients_->send(client, kAnswer, bytes_of(text));
    return {};
  }
  const auto file = file_with(text);
  if (!file) return std::unexpected(file.error());
  const int descriptor = file->get();
  clients_->send(client, kLongAnswer, {}, std::span(&descriptor, 1));
  return {};
}

namespace {

Error none_runs(const ServiceName& name) {
  return {ENOENT, fmt::format("no {} runs: 'verbatim {} up' starts it", name.text(), name.kind)};
}

/// One that ends just now, or could not begin, closes its socket with the question unread.
Error in_words(Error error, const ServiceName& name) {
  if (error.code == ECONNRESET || error.code == EPIPE) return none_runs(name);
  if (error.code != EAGAIN) return error;
  return {ETIMEDOUT, fmt::format("{} (process {}) does not answer", name.text(), process_of(name))};
}

Result<Channel> put_question(const RuntimeFolder& folder, const ServiceName& name,
                             const nlohmann::json& question, TimeNs patience) {
  auto socket = connect_to(folder.socket(file_of(name)), patience);
  if (!socket && socket.error().code == EAGAIN) return std::unexpected(socket.error());
  if (!socket) return std::unexpected(none_runs(name));
  set_patience(socket->get(), SO_SNDTIMEO, patience);
  Channel channel(std::move(*socket), kProtocol);
  const std::string text = question.dump();
  if (auto sent = channel.send_and_wait(kQuestion, bytes_of(text)); !sent) {
    return std::unexpected(sent.error());
  }
  return channel;
}

Result<nlohmann::json> take_answer(Channel& channel) {
  auto incoming = channel.receive();
  if (incoming) incoming = unless_refused(std::move(*incoming));
  if (!incoming) return std::unexpected(incoming.error());
  if (incoming->type == kAnswer) {
    return parse({reinterpret_cast<const char*>(incoming->bytes.data()), incoming->bytes.size()});
  }
  if (incoming->type != kLongAnswer || incoming->descriptors.size() != 1) {
    return refuse(EPROTO, "what came is no answer");
  }
  const auto text = text_in(incoming->descriptors.front().get());
  if (!text) return std::unexpected(text.error());
  return parse(*text);
}

}  // namespace

std::vector<Result<nlohmann::json>> ask(const std::vector<ServiceName>& names,
                                        const nlohmann::json& question, TimeNs patience) {
  const auto folder = RuntimeFolder::open();
  if (!folder) return {names.size(), std::unexpected(folder.error())};
  const TimeNs until = monotonic_now() + patience;
  const auto left = [until] { return std::max<TimeNs>(elapsed(monotonic_now(), until), 0); };
  std::vector<Result<Channel>> channels;
  for (const ServiceName& name : names) {
    channels.push_back(put_question(*folder, name, question, left()));
  }
  std::vector<Result<nlohmann::json>> answers;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (channels[i]) set_patience(channels[i]->fd(), SO_RCVTIMEO, left());
    auto answer = channels[i] ? take_answer(*channels[i])
                              : Result<nlohmann::json>(std::unexpected(channels[i].error()));
    if (!answer) answer = std::unexpected(in_words(answer.error(), names[i]));
    answers.push_back(std::move(answer));
  }
  return answers;
}

Result<nlohmann::json> ask(const ServiceName& name, const nlohmann::json& question,
                           TimeNs patience) {
  return std::move(ask(std::vector{name}, question, patience).front());
}

Result<void> end(const ServiceName& name, TimeNs patience) {
  const auto answer = ask(name, {{"ask", "stop"}}, patience);
  if (!answer) return std::unexpected(answer.error());
  const pid_t process = answer->at("process");
  const UniqueFd watch(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  if (!watch) return {};  // It has ended already.
  pollfd waiting{watch.get(), POLLIN, 0};
  if (poll(&waiting, 1, static_cast<int>(patience / kMillisecond)) > 0) return {};
  return refuse(ETIMEDOUT, fmt::format("{} (process {}) does not end", name.text(), process));
}

std::vector<ServiceName> services() {
  std::vector<ServiceName> found;
  const auto folder = RuntimeFolder::open();
  if (!folder) return found;
  for (const std::string& file : folder->sockets()) {
    if (auto name = name_of(file)) found.push_back(std::move(*name));
  }
  return found;
}

pid_t process_of(const ServiceName& name) {
  const auto folder = RuntimeFolder::open();
  if (!folder) return 0;
  // A socket that nobody listens at is one of a daemon that was killed.
  const auto socket = connect_to(folder->socket(file_of(name)), kMillisecond);
  if (!socket && socket.error().code != EAGAIN) return 0;
  return noted_process(*folder, name);
}

}  // namespace verbatim::service
