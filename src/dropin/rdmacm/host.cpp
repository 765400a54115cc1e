#include <cstring>

#include "dropin/rdmacm/manager.h"

/// The connection service's host, by means of libibverbs.so.1.
namespace verbatim::rdmacm {
namespace {

sockaddr_storage storage_of(const SocketAddress& address) {
  sockaddr_storage storage{};
  std::memcpy(&storage, address.data(), address.size());
  return storage;
}

}  // namespace

void Manager::send_mad(const SocketAddress& source, const verbatim::Path& destination,
                       std::span<const std::byte, connect::kMadBytes> mad) {
  const arena::FlatPath path = arena::flat_path_of(destination);
  services_->send_mad(source.data(), &path, mad.data());
}

Result<void> Manager::watch(int fd, std::uint32_t events, std::uint64_t tag) {
  const int error = services_->watch(fd, events, on_ready, tag);
  return error == 0 ? Result<void>() : refuse(error, "the background thread takes no descriptor");
}

void Manager::unwatch(int fd) { services_->unwatch(fd); }

Result<void> Manager::start_stream(Qpn qpn, UniqueFd socket, const connect::StreamAgreement& agreed,
                                   bool is_initiator) {
  const VerbatimStream stream{.is_initiator = is_initiator,
                              .sends_markers = agreed.sends_markers,
                              .receives_markers = agreed.receives_markers,
                              .has_crc = agreed.has_crc,
                              .ready = static_cast<std::uint8_t>(agreed.ready),
                              .inbound_reads = agreed.inbound_reads,
                              .outbound_reads = agreed.outbound_reads};
  const int error = services_->start_stream(qpn.value(), socket.release(), &stream);
  return error == 0 ? Result<void>() : refuse(error, "the queue pair takes no stream");
}

void Manager::note(std::uint32_t entry, const connect::ConnectionNote* note) {
  if (note == nullptr) {
    services_->set_connection(entry, nullptr);
    return;
  }
  const VerbatimConnection told{.is_established = note->is_established,
                                .has_sent_reply = note->has_sent_reply,
                                .local_id = raw(note->local_id),
                                .remote_id = note->remote_id,
                                .remote_qpn = note->remote_qpn.value(),
                                .local = storage_of(note->local),
                                .remote = arena::flat_path_of(note->remote)};
  services_->set_connection(entry, &told);
}

}  // namespace verbatim::rdmacm
