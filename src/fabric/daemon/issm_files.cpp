#include "fabric/daemon/issm_files.h"

#include <algorithm>
#include <array>
#include <set>

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>

namespace verbatim::fabric {
namespace {

/// The writing end alone. It can be opened only while there is a reader.
Result<UniqueFd> open_writing_end(const std::string& path) {
  const UniqueFd reading(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!reading) return refuse_errno(path);
  UniqueFd writing(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  if (!writing) return refuse_errno(path);
  return writing;
}

bool has_reader(int writing) {
  pollfd state{writing, 0, 0};
  return poll(&state, 1, 0) == 0;  // POLLERR without one.
}

}  // namespace

Result<IssmFiles> IssmFiles::create() {
  IssmFiles files;
  files.inotify_.reset(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!files.inotify_) return refuse_errno("inotify");
  return files;
}

Result<void> IssmFiles::add(PortPlace port, const std::string& path) {
  const bool is_there =
      std::ranges::any_of(files_, [&](const auto& entry) { return entry.second.port == port; });
  if (is_there) return {};
  if (mkfifo(path.c_str(), 0600) != 0) return refuse_errno("cannot make " + path);
  auto writing = open_writing_end(path);
  if (!writing) return std::unexpected(writing.error());
  const int number = inotify_add_watch(inotify_.get(), path.c_str(), IN_OPEN | IN_CLOSE);
  if (number < 0) return refuse_errno("cannot watch " + path);
  files_[number] = {port, std::move(*writing)};
  return {};
}

std::vector<IssmFiles::Change> IssmFiles::take_changes() {
  std::set<int> touched;
  alignas(inotify_event) std::array<char, 4096> events;
  for (ssize_t length; (length = read(inotify_.get(), events.data(), events.size())) > 0;) {
    for (ssize_t at = 0; at < length;) {
      const auto& event = *reinterpret_cast<const inotify_event*>(events.data() + at);
      touched.insert(event.wd);
      at += static_cast<ssize_t>(sizeof event + event.len);
    }
  }
  std::vector<Change> changes;
  for (const int number : touched) {
    const auto found = files_.find(number);
    if (found == files_.end()) continue;
    changes.push_back({found->second.port, has_reader(found->second.writing.get())});
  }
  return changes;
}

}  // namespace verbatim::fabric
