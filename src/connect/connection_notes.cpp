#include "connect/connection_notes.h"

namespace verbatim::connect {

void ConnectionNotes::begin(ConnectionId id, const Path& path, bool has_sent_reply) {
  noted_[id] = {.note = {.local_id = id,
                         .local = path.local,
                         .remote = path.remote,
                         .has_sent_reply = has_sent_reply}};
}

void ConnectionNotes::set_remote_qpn(ConnectionId id, Qpn qpn) {
  if (const auto found = noted_.find(id); found != noted_.end()) {
    found->second.note.remote_qpn = qpn;
  }
}

void ConnectionNotes::write(ConnectionId id, std::uint32_t remote_id, bool is_established) {
  const auto found = noted_.find(id);
  if (found == noted_.end()) return;
  Noted& noted = found->second;
  if (!noted.entry) noted.entry = take_entry();
  if (!noted.entry) return;
  noted.note.remote_id = remote_id;
  noted.note.is_established = is_established;
  host_.note(*noted.entry, &noted.note);
}

void ConnectionNotes::end(ConnectionId id) {
  const auto found = noted_.find(id);
  if (found == noted_.end()) return;
  if (const auto entry = found->second.entry) {
    host_.note(*entry, nullptr);
    free_.push_back(*entry);
  }
  noted_.erase(found);
}

std::optional<std::uint32_t> ConnectionNotes::take_entry() {
  if (!free_.empty()) {
    const std::uint32_t entry = free_.back();
    free_.pop_back();
    return entry;
  }
  if (used_ == host_.notes_max()) return std::nullopt;
  return used_++;
}

}  // namespace verbatim::connect
