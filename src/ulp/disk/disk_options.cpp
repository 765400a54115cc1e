#include "ulp/disk/disk_options.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <utility>

#include <fmt/format.h>

namespace verbatim::ulp::disk {
namespace {

/// CHAP: "userid NAME" and "password SECRET", as LIO's files are named; with "_mutual" those of the
/// target.
Result<void> read_auth(const std::string& path, Identity& self) {
  std::ifstream file(path);
  if (!file) return refuse(errno, fmt::format("auth={}: {}", path, std::strerror(errno)));
  const std::pair<std::string_view, std::string*> known[] = {
      {"userid", &self.credentials.user},
      {"password", &self.credentials.secret},
      {"userid_mutual", &self.target_proves.user},
      {"password_mutual", &self.target_proves.secret}};
  for (std::string key, value; file >> key && std::getline(file >> std::ws, value);) {
    const auto place = std::ranges::find(known, key, [](const auto& one) { return one.first; });
    if (place == std::end(known))
      return refuse(
          EINVAL,
          fmt::format(
              "auth={}: '{}': userid, password, userid_mutual and password_mutual are known", path,
              key));
    *place->second = value;
  }
  if (!self.credentials.empty()) return {};
  return refuse(
      EINVAL, fmt::format("auth={}: no userid and password, each with its value in a line", path));
}

Result<void> read_patience(const std::string& value, TimeNs& patience) {
  std::uint32_t seconds = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
  if (error != std::errc{} || end != value.data() + value.size())
    return refuse(EINVAL, fmt::format("patience={}: seconds are expected", value));
  patience = seconds * kSecond;
  return {};
}

Result<void> read_host_id(const std::string& value, Identity& self) {
  const auto id = parse_host_id(value);
  if (!id) return refuse(EINVAL, fmt::format("host-id={}: a UUID is expected", value));
  self.host_id = *id;
  return {};
}

}  // namespace

Result<bool> DiskOptions::set(std::string_view key, const std::string& value) {
  Result<void> done;
  if (key == "url") {
    urls.push_back(value);
  } else if (key == "initiator") {
    identity.iqn = identity.nqn = value;
  } else if (key == "name") {
    settings.name = value;
  } else if (key == "host-id") {
    done = read_host_id(value, identity);
  } else if (key == "auth") {
    done = read_auth(value, identity);
  } else if (key == "patience") {
    done = read_patience(value, settings.patience);
  } else {
    return false;
  }
  if (!done) return std::unexpected(done.error());
  return true;
}

Result<void> DiskOptions::complete() {
  if (urls.empty()) return refuse(EINVAL, "which disk? Say url=iser://HOST/IQN/LUN");
  auto targets = parse_paths(urls, identity);
  if (!targets) return std::unexpected(targets.error());
  settings.url = urls.front();
  settings.targets = std::move(*targets);
  return {};
}

}  // namespace verbatim::ulp::disk
