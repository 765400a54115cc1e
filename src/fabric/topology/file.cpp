#include "fabric/topology/file.h"

#include <array>

#include <fcntl.h>
#include <unistd.h>

#include "base/os/unique_fd.h"

namespace verbatim::fabric {

std::string name_of_topology_file(const std::string& path) {
  return path == "-" ? "standard input" : path;
}

Result<Reading> read_topology_file(const std::string& path) {
  const bool is_input = path == "-";
  const UniqueFd file(is_input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                               : open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return refuse_errno(name_of_topology_file(path));
  std::string text;
  std::array<char, 16 * 1024> part;
  while (true) {
    const ssize_t length = ::read(file.get(), part.data(), part.size());
    if (length < 0) return refuse_errno(name_of_topology_file(path));
    if (length == 0) return read_topology(text);
    text.append(part.data(), static_cast<std::size_t>(length));
  }
}

}  // namespace verbatim::fabric
