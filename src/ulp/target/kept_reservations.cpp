#include "ulp/target/kept_reservations.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/log.h"
#include "base/os/unique_fd.h"
#include "base/types.h"

namespace verbatim::ulp::target {
namespace {

using State = scsi::Reservations::State;
using nlohmann::json;

json json_of(const State& state) {
  json registrants = json::array();
  for (const auto& [port, key] : state.registrants)
    registrants.push_back({{"key", key},
                           {"protocol", raw(port.protocol)},
                           {"name", port.name},
                           {"isid", port.isid},
                           {"target", port.target},
                           {"target_id", port.target_id}});
  return {{"generation", state.generation},
          {"type", raw(state.type)},
          {"holder", state.holder},
          {"registrants", std::move(registrants)}};
}

/// Throws what nlohmann's accessors throw.
State state_of(const json& kept) {
  State state{.type = scsi::ReservationType{kept.at("type").get<std::uint8_t>()},
              .holder = kept.at("holder"),
              .generation = kept.at("generation")};
  for (const json& one : kept.at("registrants"))
    state.registrants.push_back(
        {.port = {.protocol = scsi::Protocol{one.at("protocol").get<std::uint8_t>()},
                  .name = one.at("name"),
                  .isid = one.at("isid"),
                  .target = one.at("target"),
                  .target_id = one.at("target_id")},
         .key = one.at("key")});
  const bool has_holder = state.holder < state.registrants.size();
  if (state.type != scsi::ReservationType::none && !has_holder)
    throw std::out_of_range("a reservation without its holder");
  return state;
}

/// On the disk when it returns true, whole or not at all.
bool replace(const std::string& path, const std::string& text) {
  const std::string next = path + ".new";
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  const UniqueFd file(open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  return file && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
         fsync(file.get()) == 0 && rename(next.c_str(), path.c_str()) == 0;
}

}  // namespace

void KeptReservations::attach(const std::string& path, scsi::Reservations& reservations) {
  reservations.use(std::make_shared<KeptReservations>(path));
  std::ifstream file(path);
  if (!file) return;
  try {
    reservations.restore(state_of(json::parse(file)));
  } catch (const std::exception& error) {
    log(LogLevel::warn, "{}: {}: no reservation is restored", path, error.what());
  }
}

bool KeptReservations::keep(const State* state) {
  if (state == nullptr) return unlink(path_.c_str()) == 0 || errno == ENOENT;
  if (replace(path_, json_of(*state).dump(1))) return true;
  log(LogLevel::warn, "{}: {}", path_, std::strerror(errno));
  return false;
}

}  // namespace verbatim::ulp::target
