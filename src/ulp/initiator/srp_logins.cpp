#include "ulp/initiator/srp_logins.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/log.h"

namespace verbatim::ulp::initiator {
namespace {

std::string folder_of(std::uint32_t host) {
  return fmt::format("/sys/class/scsi_host/host{}", host);
}
std::string remote_port_of(std::uint32_t host) {
  return fmt::format("/sys/class/srp_remote_ports/port-{}:1", host);
}

/// "fe80:0000:0000:0000:0200:0000:0010:0003".
std::string text_of(const Gid& gid) {
  std::string text;
  for (std::size_t i = 0; i < gid.bytes.size(); i += 2)
    text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", gid.bytes[i], gid.bytes[i + 1]);
  return text;
}

bool is_same(const srp::AddTarget& a, const srp::AddTarget& b) {
  return a.extension == b.extension && a.guid == b.guid &&
         a.initiator_extension == b.initiator_extension;
}

rdma::ServicePlace place_of(const srp::AddTarget& target) {
  if (target.is_by_ip()) return rdma::IpService{target.to};
  return rdma::InfinibandService{
      .service = *target.service, .gid = *target.gid, .pkey = target.pkey};
}

void call(SrpLogins::Done& done, int code) {
  if (const auto called = std::exchange(done, nullptr)) called(code);
}

}  // namespace

SrpLogins::SrpLogins(service::Loop& loop, Adapter& adapter, Files& files, std::string node)
    : loop_(loop), adapter_(adapter), files_(files), node_(std::move(node)) {
  files_.make_folder("/sys/class/scsi_host");
  files_.make_folder("/sys/class/srp_remote_ports");
  loop_.add(*this);
}

SrpLogins::~SrpLogins() { loop_.remove(*this); }

bool SrpLogins::has(std::uint32_t number) const {
  return std::ranges::any_of(hosts_, [&](const auto& host) { return host->number == number; });
}

void SrpLogins::add(const std::string& line, const std::string& device, const std::string& port,
                    Done done) {
  const auto target = srp::parse_add_target(line);
  if (!target) {
    log(LogLevel::warn, "add_target '{}': {}", line, target.error().text);
    return done(target.error().code);
  }
  std::uint32_t number = 0;
  while (has(number)) ++number;
  for (const auto& host : hosts_)
    if (is_same(host->target, *target)) return done(EEXIST);
  auto host = std::make_unique<Host>();
  host->number = number;
  host->target = *target;
  host->device = device;
  host->port = port;
  host->added = std::move(done);
  if (const auto asked = ask_units(*host); !asked) {
    log(LogLevel::warn, "add_target '{}': {}", line, asked.error().text);
    return call(host->added, asked.error().code);
  }
  hosts_.push_back(std::move(host));
}

/// A login of our own says which units there are. Each has a process then, which logs in itself.
Result<void> SrpLogins::ask_units(Host& host) {
  const auto links = adapter_.open();
  if (!links) return std::unexpected(links.error());
  if (!host.target.is_by_ip() && !(*links)->device().port().is_infiniband)
    return refuse(ENODEV, "a dgid is on no RoCE or iWARP port: dest=IP:PORT is");
  host.link = std::make_unique<Link>(**links, [this] { has_changed_ = true; });
  if (auto opened = host.link->open(); !opened) return opened;
  host.link->begin(
      place_of(host.target),
      [target = host.target](const disk::OwnSide& own) {
        srp::InitiatorSettings settings = settings_for(target, own.guid);
        settings.lists_units = true;
        return std::make_unique<srp::Initiator>(settings, own.scratch);
      },
      loop_.now());
  return {};
}

void SrpLogins::on_time(TimeNs now) {
  has_changed_ = false;
  std::erase_if(hosts_, [&](const auto& host) { return !advance(*host, now); });
}

bool SrpLogins::advance(Host& host, TimeNs now) {
  storage::Initiator* const engine = host.link == nullptr ? nullptr : host.link->engine();
  std::erase_if(host.disks, [](const auto& disk) { return disk->is_over(); });
  switch (host.state) {
    case State::asking:
      if (engine == nullptr) {
        log(LogLevel::warn, "add_target '{}': {}", srp::text_of(host.target), host.link->words());
        call(host.added, ECONNRESET);
        return false;
      }
      if (engine->facts() == nullptr) return true;
      host.units = engine->facts()->units;
      host.state = State::leaving;
      host.link->log_out(now);
      return true;
    case State::leaving:
      if (engine != nullptr) return true;
      host.link.reset();
      host.state = State::serving;
      start_disks(host);
      return true;
    case State::serving:
      return serve(host);
    case State::ending:
      if (engine != nullptr || !host.disks.empty()) return true;
      hide(host);
      call(host.added, ECONNRESET);
      call(host.removed, 0);
      return false;
  }
  return false;
}

void SrpLogins::start_disks(Host& host) {
  for (const std::uint16_t unit : host.units) {
    const std::string name = fmt::format("{}-host{}", node_, host.number);
    const DiskProcess::Options options{
        .url = fmt::format("srp://{}/{}", srp::text_of(host.target), unit),
        .name = unit == 0 ? name : fmt::format("{}-lun{}", name, unit)};
    auto disk = DiskProcess::start(loop_, options, [this] { has_changed_ = true; });
    if (disk) {
      host.disks.push_back(std::move(*disk));
    } else {
      log(LogLevel::warn, "{}: {}", options.url, disk.error().text);
    }
  }
  has_changed_ = true;
}

/// A target without units is logged in, as with Linux, and has no disk.
bool SrpLogins::serve(Host& host) {
  if (!std::ranges::all_of(host.disks, [](const auto& disk) { return disk->is_settled(); }))
    return true;
  if (host.disks.empty() && !host.units.empty()) {
    hide(host);
    call(host.added, ECONNRESET);
    return false;
  }
  if (host.added == nullptr) return true;
  show(host);
  call(host.added, 0);
  return true;
}

void SrpLogins::remove(std::uint32_t number, Done done) {
  const auto found =
      std::ranges::find(hosts_, number, [](const auto& host) { return host->number; });
  if (found == hosts_.end() || (*found)->state == State::ending) return done(ENODEV);
  Host& host = **found;
  host.state = State::ending;
  host.removed = std::move(done);
  for (const auto& disk : host.disks) disk->stop();
  if (host.link != nullptr) host.link->log_out(loop_.now());
  has_changed_ = true;
}

void SrpLogins::stop() {
  for (const auto& host : hosts_)
    if (host->state != State::ending) remove(host->number, [](int) {});
}

/// What srp_daemon reads to know what is connected, and what `lsscsi` looks at.
void SrpLogins::show(const Host& host) {
  const srp::AddTarget& target = host.target;
  const std::string folder = folder_of(host.number) + "/";
  const std::string gid = target.gid ? text_of(*target.gid) : std::string();
  const std::pair<const char*, std::string> files[] = {
      {"id_ext", fmt::format("{:#018x}", target.extension)},
      {"ioc_guid", fmt::format("{:#018x}", target.guid)},
      {"initiator_ext", fmt::format("{:#018x}", target.initiator_extension)},
      {"service_id", target.service ? fmt::format("{:#018x}", *target.service) : ""},
      {"pkey", target.gid ? fmt::format("{:#06x}", raw(target.pkey)) : ""},
      {"dgid", gid},
      {"orig_dgid", gid},
      {"local_ib_device", host.device},
      {"local_ib_port", host.port},
      {"proc_name", "ib_srp"},
      {"state", "running"},
      {"active_mode", "Initiator"},
      {"supported_mode", "Initiator"},
      {"can_queue", fmt::to_string(target.requests)},
      {"cmd_per_lun", fmt::to_string(target.unit_requests)}};
  for (const auto& [name, text] : files)
    files_.put(folder + name, text.empty() ? text : text + "\n");
  const std::string remote = remote_port_of(host.number) + "/";
  std::string id;
  for (const std::uint64_t half : {target.extension, target.guid})
    for (int shift = 56; shift >= 0; shift -= 8)
      id += fmt::format("{}{:02x}", id.empty() ? "" : ":", half >> shift & 0xff);
  files_.put(remote + "port_id", id + "\n");
  files_.put(remote + "roles", "SRP Target\n");
  files_.put(remote + "state", "running\n");
  files_.put(remote + "delete", "", 0200);
}

void SrpLogins::hide(const Host& host) {
  files_.remove(folder_of(host.number));
  files_.remove(remote_port_of(host.number));
}

nlohmann::json SrpLogins::status() const {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& host : hosts_)
    all.push_back({{"host", fmt::format("host{}", host->number)},
                   {"target", srp::text_of(host->target)},
                   {"disks", host->disks.size()}});
  return all;
}

}  // namespace verbatim::ulp::initiator
