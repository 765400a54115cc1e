#include "ulp/initiator/initiator_service.h"

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "service/daemon.h"
#include "ulp/initiator/files.h"
#include "ulp/initiator/links.h"
#include "ulp/initiator/nvme/nvme_controllers.h"
#include "ulp/initiator/program_socket.h"
#include "ulp/initiator/srp_logins.h"

namespace verbatim::ulp::initiator {
namespace {

constexpr std::string_view kFabrics = "/dev/nvme-fabrics";

/// "/sys/class/infiniband_srp/srp-DEVICE-PORT/add_target".
struct SrpFile {
  std::string device, port;
};
std::optional<SrpFile> add_target_of(std::string_view path) {
  constexpr std::string_view kFolder = "/sys/class/infiniband_srp/srp-", kFile = "/add_target";
  if (!path.starts_with(kFolder) || !path.ends_with(kFile)) return {};
  path.remove_prefix(kFolder.size());
  path.remove_suffix(kFile.size());
  const std::size_t dash = path.rfind('-');
  if (dash == std::string_view::npos) return {};
  return SrpFile{std::string(path.substr(0, dash)), std::string(path.substr(dash + 1))};
}

/// "/sys/class/srp_remote_ports/port-HOST:1/delete".
std::optional<std::uint32_t> removed_host_of(std::string_view path) {
  constexpr std::string_view kFolder = "/sys/class/srp_remote_ports/port-", kFile = ":1/delete";
  if (!path.starts_with(kFolder) || !path.ends_with(kFile)) return {};
  path.remove_prefix(kFolder.size());
  path.remove_suffix(kFile.size());
  std::uint32_t host = 0;
  const auto [end, error] = std::from_chars(path.data(), path.data() + path.size(), host);
  if (error != std::errc{} || end != path.data() + path.size()) return {};
  return host;
}

/// Ends the process when programs have left nothing: the next one starts it anew.
class Idleness final : public service::Source {
 public:
  static constexpr TimeNs kPatience = 2 * kSecond;
  Idleness(service::Loop& loop, std::function<bool()> is_idle)
      : loop_(loop), is_idle_(std::move(is_idle)) {
    loop_.add(*this);
  }
  ~Idleness() { loop_.remove(*this); }
  TimeNs deadline() const override { return next_; }
  void on_time(TimeNs now) override {
    if (!is_idle_()) idle_since_ = now;
    if (elapsed(idle_since_, now) >= kPatience) loop_.stop();
    next_ = now + kPatience / 4;
  }

 private:
  service::Loop& loop_;
  const std::function<bool()> is_idle_;
  TimeNs next_ = loop_.now();
  TimeNs idle_since_ = loop_.now();
};

/// The daemon owns it: it ends before the loop.
class InitiatorService final : public std::enable_shared_from_this<InitiatorService>,
                               private ProgramHandler {
 public:
  Result<void> open(service::Daemon& daemon) {
    for (const char* const of_programs : {"VERBATIM_INITIATOR", "VERBATIM_TARGET"})
      unsetenv(of_programs);  // What we start would ask us.
    service::Loop& loop = daemon.loop();
    const auto folder = service::folder_of({"initiator", daemon.name()});
    if (!folder) return std::unexpected(folder.error());
    auto files = Files::create(*folder);
    if (!files) return std::unexpected(files.error());
    files_.emplace(std::move(*files));
    adapter_.emplace(loop);
    srp_.emplace(loop, *adapter_, *files_, daemon.name());
    nvme_.emplace(loop, *adapter_, *files_, daemon.name());
    auto socket = ProgramSocket::create(loop, *folder + "/socket", *this);
    if (!socket) return std::unexpected(socket.error());
    socket_ = std::move(*socket);
    idleness_.emplace(loop, [this] { return is_idle() && socket_->connection_count() == 0; });
    daemon.on_status([this, self = shared_from_this()] {
      return nlohmann::json{{"srp", srp_->status()}, {"nvme", nvme_->status()}};
    });
    daemon.on_stop([this] { srp_->stop(), nvme_->stop(); }, [this] { return is_idle(); });
    return {};
  }

 private:
  bool is_idle() const { return srp_->is_idle() && nvme_->is_idle() && adapter_->is_idle(); }

  int on_open(const std::string& path) override {
    if (path == kFabrics || add_target_of(path) || nvme_->has(path)) return 0;
    const auto host = removed_host_of(path);
    return host && srp_->has(*host) ? 0 : ENOENT;
  }

  void on_message(OpenFile file, const std::string& path, std::string_view message) override {
    const auto done = [this, file, size = message.size()](int code) {
      socket_->answer(file, code, std::to_string(size));
    };
    if (path == kFabrics)
      return nvme_->connect(std::string(message),
                            [this, file, size = message.size()](int code, const std::string& text) {
                              socket_->answer(file, code, std::to_string(size), text);
                            });
    if (path.starts_with("/dev/")) return control(file, path, message);
    if (path.starts_with("/sys/class/nvme/")) return nvme_->write(path, message, done);
    if (const auto target = add_target_of(path))
      return srp_->add(std::string(message), target->device, target->port, done);
    if (const auto host = removed_host_of(path)) return srp_->remove(*host, done);
    done(EINVAL);
  }

  void on_close(OpenFile file) override { nvme_->forget(file); }

  void control(OpenFile file, const std::string& path, std::string_view message) {
    const auto request = decode_device_request(std::as_bytes(std::span(message)));
    const auto done = [this, file](int code, const std::string& answer) {
      socket_->answer(file, code, answer);
    };
    return request ? nvme_->control(file, path, *request, done) : done(EINVAL, "");
  }

  std::optional<Files> files_;
  std::optional<Adapter> adapter_;
  std::optional<SrpLogins> srp_;
  std::optional<NvmeControllers> nvme_;
  std::unique_ptr<ProgramSocket> socket_;
  std::optional<Idleness> idleness_;
};

}  // namespace

int run_initiator(int argc, char** argv) {
  return service::run_daemon({.program = "verbatim-ulpd initiator",
                              .kind = "initiator",
                              .summary = "keeps the logins of a node's programs to storage targets",
                              .settings = {}},
                             argc, argv, [](service::Daemon& daemon) {
                               return std::make_shared<InitiatorService>()->open(daemon);
                             });
}

}  // namespace verbatim::ulp::initiator
