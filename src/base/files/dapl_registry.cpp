#include "base/files/dapl_registry.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

namespace verbatim {
namespace {

/// A line of dat.conf(5): name, version, threads, default, library, vendor, instance, platform.
std::string provider(const std::string& name, std::string_view library,
                     const std::string& instance) {
  return fmt::format("{} u2.0 nonthreadsafe default {} dapl.2.0 \"{}\" \"\"\n", name, library,
                     instance);
}

}  // namespace

bool write_dapl_registry(const std::string& root, std::string_view device, unsigned ports,
                         const std::string& address, bool has_datagrams) {
  const std::filesystem::path path = root + std::string(kDaplRegistry);
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  std::ofstream file(path);
  if (!address.empty()) {
    file << provider(fmt::format("ofa-v2-{}", device), "libdaplofa.so.2", address + " 0");
  }
  for (unsigned port = 1; port <= ports && has_datagrams; ++port) {
    const std::string name = fmt::format("ofa-v2-{}-{}", device, port);
    const std::string instance = fmt::format("{} {}", device, port);
    file << provider(name, "libdaploscm.so.2", instance)
         << provider(name + "u", "libdaploucm.so.2", instance);
  }
  return bool(file.flush());
}

}  // namespace verbatim
