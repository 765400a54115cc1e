#include "ulp/target/kept_reservations.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
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

json json_of(const nvmeof::Reservations::State& state) {
  json registrants = json::array();
  for (const auto& [host, key] : state.registrants) {
    std::string digits;
    for (const std::byte byte : host)
      digits += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
    registrants.push_back({{"key", key}, {"host", std::move(digits)}});
  }
  return {{"generation", state.generation},
          {"type", raw(state.type)},
          {"holder", state.holder},
          {"registrants", std::move(registrants)}};
}

/// Throws what nlohmann's accessors and std::stoul throw.
nvmeof::Reservations::State nvme_state_of(const json& kept) {
  nvmeof::Reservations::State state{
      .type = nvmeof::ReservationType{kept.at("type").get<std::uint8_t>()},
      .holder = kept.at("holder"),
      .generation = kept.at("generation")};
  for (const json& one : kept.at("registrants")) {
    const std::string digits = one.at("host");
    nvmeof::Reservations::Registrant registrant{.key = one.at("key")};
    for (std::size_t i = 0; i < registrant.host.size(); ++i)
      registrant.host[i] = static_cast<std::byte>(std::stoul(digits.substr(2 * i, 2), nullptr, 16));
    state.registrants.push_back(registrant);
  }
  constexpr auto kLast = nvmeof::ReservationType::exclusive_access_all_registrants;
  const bool has_holder = state.holder < state.registrants.size();
  if (state.type > kLast || (state.type != nvmeof::ReservationType::none && !has_holder))
    throw std::out_of_range("a reservation without its holder");
  return state;
}

template <typename Reservations, typename Read>
void restore(const std::string& path, Reservations& reservations, Read read) {
  std::ifstream file(path);
  if (!file) return;
  try {
    reservations.restore(read(json::parse(file)));
  } catch (const std::exception& error) {
    log(LogLevel::warn, "{}: {}: no reservation is restored", path, error.what());
  }
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

template <typename Kept>
bool keep_in(const std::string& path, const Kept* state) {
  if (state == nullptr) return unlink(path.c_str()) == 0 || errno == ENOENT;
  if (replace(path, json_of(*state).dump(1))) return true;
  log(LogLevel::warn, "{}: {}", path, std::strerror(errno));
  return false;
}

}  // namespace

void KeptReservations::attach(const std::string& path, scsi::Reservations& reservations) {
  reservations.use(std::make_shared<KeptReservations>(path));
  restore(path, reservations, state_of);
}

bool KeptReservations::keep(const State* state) { return keep_in(path_, state); }

void KeptNvmeReservations::attach(const std::string& path, nvmeof::Reservations& reservations) {
  reservations.use(std::make_unique<KeptNvmeReservations>(path));
  restore(path, reservations, nvme_state_of);
}

bool KeptNvmeReservations::keep(const nvmeof::Reservations::State* state) {
  return keep_in(path_, state);
}

}  // namespace verbatim::ulp::target
