#include "fabric/protocol/fabric_folder.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include "service/folder.h"

namespace verbatim::fabric::protocol {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "fabric-";
constexpr std::string_view kManager = "manager";

}  // namespace

Result<FabricFolder> FabricFolder::own(const std::string& name) {
  if (!service::check_node_name(name)) {
    return refuse(EINVAL, fmt::format("'{}' cannot be the name of a fabric: use 1 to 63 letters, "
                                      "digits, '-', '_' or '.', a letter or digit first",
                                      name));
  }
  const auto runtime = service::RuntimeFolder::open();
  if (!runtime) return std::unexpected(runtime.error());
  FabricFolder folder;
  folder.name_ = name;
  folder.path_ = fmt::format("{}/{}{}", runtime->path(), kPrefix, name);
  return folder;
}

Result<FabricFolder> FabricFolder::of(const std::string& name) {
  auto folder = own(name);
  if (!folder || fs::exists(folder->socket())) return folder;
  const fs::path runtime = fs::path(folder->path_).parent_path();
  std::vector<std::string> others;
  std::error_code ignored;
  for (const auto& space : fs::directory_iterator(runtime.parent_path(), ignored)) {
    const fs::path other = space.path() / (std::string(kPrefix) + name);
    if (space.path() != runtime && service::connect_to(other / "socket")) others.push_back(other);
  }
  if (others.size() > 1) {
    return refuse(EEXIST, fmt::format("fabrics '{}' run in several other network namespaces: give "
                                      "them names of their own",
                                      name));
  }
  if (!others.empty()) folder->path_ = others.front();
  return folder;
}

Result<void> FabricFolder::make() const {
  if (mkdir(path_.c_str(), 0700) == 0) {
    chmod(path_.c_str(), 0700);  // Whatever the umask left.
  } else if (errno != EEXIST) {
    return refuse_errno("cannot make " + path_);
  }
  struct stat info{};
  if (lstat(path_.c_str(), &info) != 0) return refuse_errno(path_);
  if (S_ISDIR(info.st_mode) && info.st_uid == geteuid()) return {};
  return refuse(EPERM, path_ + " is not a folder of this user: remove it");
}

void FabricFolder::remove() const {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path_, ignored)) {
    const std::string name = entry.path().filename();
    if (name != "log" && !name.starts_with(kManager)) fs::remove_all(entry.path(), ignored);
  }
}

std::string FabricFolder::manager(std::size_t subnet) const {
  const std::string first = fmt::format("{}/{}", path_, kManager);
  return subnet == 0 ? first : fmt::format("{}-{}", first, subnet + 1);
}

std::string FabricFolder::view(std::uint64_t host_guid) const {
  return fmt::format("{}/view-{:016x}", path_, host_guid);
}

std::string FabricFolder::programs(std::uint64_t host_guid) const {
  return fmt::format("{}/programs-{:016x}", path_, host_guid);
}

std::string FabricFolder::issm(std::uint64_t host_guid, unsigned port) const {
  return fmt::format("{}/issm-{:016x}-{}", path_, host_guid, port);
}

Result<UniqueFd> FabricFolder::connect() const {
  auto connection = service::connect_to(socket());
  if (connection) return connection;
  if (connection.error().code != ENOENT && connection.error().code != ECONNREFUSED) {
    return connection;
  }
  const auto others = fabrics();
  if (!others || others->empty()) {
    return refuse(ENOENT,
                  fmt::format("no fabric '{}' runs: 'verbatim fabric up' starts one", name_));
  }
  return refuse(
      ENOENT, fmt::format("no fabric '{}' runs here, but '{}'", name_, fmt::join(*others, "', '")));
}

Result<std::vector<std::string>> fabrics() {
  const auto runtime = service::RuntimeFolder::open();
  if (!runtime) return std::unexpected(runtime.error());
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(runtime->path(), ignored)) {
    const std::string name = entry.path().filename();
    // A killed daemon has left its socket, to which nothing listens.
    if (name.starts_with(kPrefix) && service::connect_to(entry.path() / "socket")) {
      names.push_back(name.substr(kPrefix.size()));
    }
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace verbatim::fabric::protocol
