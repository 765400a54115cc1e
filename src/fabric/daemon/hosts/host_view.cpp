#include "fabric/daemon/hosts/host_view.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <fmt/format.h>

#include "fabric/daemon/hosts/host_facts.h"
#include "fabric/protocol/decode.h"

namespace verbatim::fabric {
namespace {

namespace fs = std::filesystem;
constexpr const char* kVerbsDevice = "uverbs0";

/// Returns false if it cannot be written.
bool write_file(const fs::path& path, const std::string& content) {
  fs::create_directories(path.parent_path());
  std::ofstream file(path);
  file << content << '\n';
  return bool(file.flush());
}

bool write_all(const fs::path& root, const protocol::HostDescription& host) {
  const std::string device(protocol::text_of(host.device));
  const fs::path infiniband = root / "sys/class/infiniband" / device;
  bool written = true;
  for (const auto& file : files_of(host))
    written &= write_file(infiniband / file.path, file.content);
  const fs::path verbs = root / "sys/class/infiniband_verbs";
  written &= write_file(verbs / "abi_version", "6");
  written &= write_file(verbs / kVerbsDevice / "ibdev", device);
  written &= write_file(verbs / kVerbsDevice / "abi_version", "1");
  written &= write_file(verbs / kVerbsDevice / "dev", "231:192");
  // Programs look whether it is a character device that they may read and write, no more.
  fs::create_directories(root / "dev/infiniband");
  fs::create_symlink("/dev/null", root / "dev/infiniband" / kVerbsDevice);
  const fs::path management = root / "sys/class/infiniband_mad";
  written &= write_file(management / "abi_version", "5");
  for (std::uint32_t port = 0; port < host.port_count; ++port) {
    for (const char* kind : {"umad", "issm"}) {
      const fs::path folder = management / fmt::format("{}{}", kind, port);
      written &= write_file(folder / "ibdev", device);
      written &= write_file(folder / "port", fmt::format("{}", port + 1));
    }
  }
  return written;
}

}  // namespace

Result<void> write_view(const std::string& folder, const protocol::HostDescription& host) {
  const std::string fresh = folder + ".new";
  try {
    fs::remove_all(fresh);
    if (!write_all(fresh, host)) return refuse(EIO, "cannot write into " + fresh);
    if (renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) != 0 &&
        rename(fresh.c_str(), folder.c_str()) != 0) {
      return refuse_errno("cannot rename " + fresh);
    }
    fs::remove_all(fresh);
  } catch (const fs::filesystem_error& error) {
    return refuse(error.code().value(), error.what());
  }
  return {};
}

}  // namespace verbatim::fabric
