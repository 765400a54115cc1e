#include "fabric/daemon/hosts/description_files.h"

#include <array>
#include <set>

#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

namespace verbatim::fabric {
namespace {

/// Its first line, as far as a node description goes. A program may have put anything in its place.
std::string text_of(const std::string& path) {
  constexpr std::size_t kDescriptionBytes = 64;
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  std::array<char, kDescriptionBytes> bytes{};
  const ssize_t length = read(file.get(), bytes.data(), bytes.size());
  const std::string text(bytes.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  return text.substr(0, text.find('\n'));
}

}  // namespace

Result<DescriptionFiles> DescriptionFiles::create() {
  DescriptionFiles files;
  files.inotify_.reset(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!files.inotify_) return refuse_errno("inotify");
  return files;
}

void DescriptionFiles::watch(std::uint32_t host, const std::string& path) {
  const int number = inotify_add_watch(inotify_.get(), path.c_str(), IN_CLOSE_WRITE);
  if (number >= 0) files_[number] = {host, path};
}

std::vector<DescriptionFiles::Change> DescriptionFiles::take_changes() {
  std::set<int> written;
  alignas(inotify_event) std::array<char, 4096> events;
  for (ssize_t length; (length = read(inotify_.get(), events.data(), events.size())) > 0;) {
    for (ssize_t at = 0; at < length;) {
      const auto& event = *reinterpret_cast<const inotify_event*>(events.data() + at);
      at += static_cast<ssize_t>(sizeof event + event.len);
      if ((event.mask & IN_IGNORED) != 0) {
        files_.erase(event.wd);  // The daemon has put another file in its place.
      } else {
        written.insert(event.wd);
      }
    }
  }
  std::vector<Change> changes;
  for (const int number : written) {
    const auto found = files_.find(number);
    if (found == files_.end()) continue;
    changes.push_back({found->second.host, text_of(found->second.path)});
  }
  return changes;
}

}  // namespace verbatim::fabric
