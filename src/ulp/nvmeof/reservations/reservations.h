#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ulp/nvmeof/wire/reservation_data.h"

/// Which hosts may use a namespace (base specification 1.4, section 8.8).
namespace verbatim::ulp::nvmeof {

/// What the reservation notification log page says has happened (figure 231).
enum class ReservationEvent : std::uint8_t {
  registration_preempted = 1,
  reservation_released = 2,
  reservation_preempted = 3,
};
/// For all controllers of the host.
struct ReservationNotice {
  HostId host{};
  ReservationEvent event{};
};

/// What is registered and reserved with a namespace, whichever controllers have it. Hosts are known
/// by their ids; registrations stay when their controllers end.
class Reservations {
 public:
  static constexpr std::size_t kRegistrantsMax = 256;

  struct Registrant {
    HostId host{};
    std::uint64_t key = 0;
    friend bool operator==(const Registrant&, const Registrant&) = default;
  };
  /// What lasts: a `Keeper` may keep it, and bring it back.
  struct State {
    std::vector<Registrant> registrants;
    ReservationType type = ReservationType::none;
    std::size_t holder = 0;  // Of `registrants`, unless all of them hold it.
    std::uint32_t generation = 0;
  };
  /// Keeps the state, or, with null, keeps none any more. False: it could not.
  class Keeper {
   public:
    virtual ~Keeper() = default;
    virtual bool keep(const State* state) = 0;
  };

  void use(std::unique_ptr<Keeper> keeper) { keeper_ = std::move(keeper); }
  bool has_keeper() const { return keeper_ != nullptr; }
  void restore(State state) { state_ = std::move(state), lasts_ = true; }
  /// PTPL: it is kept.
  bool lasts() const { return lasts_; }
  Status set_lasts(bool lasts);

  /// Without a reservation: a load.
  bool conflicts(const HostId& host, Opcode opcode) const {
    return state_.type != ReservationType::none && is_kept_out(host, opcode);
  }
  /// Register, Acquire, Release of a host. `notices`: what others are told.
  Status change(const HostId& host, const ReservationChange& change,
                std::vector<ReservationNotice>& notices);
  ReservationReport report() const;

  /// Writes of any host, from the check until the store has answered. Those that began before a
  /// preemption may still end after it: Preempt and Abort is answered when they have.
  enum class Epoch : std::uint64_t {};
  static constexpr Epoch kNoEpoch{~std::uint64_t{0}};
  Epoch begin_write();
  /// True: what a `barrier` waits for may have ended.
  bool end_write(Epoch epoch);
  Epoch barrier();
  bool is_past(Epoch barrier) const { return first_epoch_ >= std::to_underlying(barrier); }

 private:
  using Notices = std::vector<ReservationNotice>;
  bool is_kept_out(const HostId& host, Opcode opcode) const;
  std::optional<std::size_t> find(const HostId& host) const;
  bool is_for_all() const;
  bool is_for_registrants() const;
  bool holds(std::size_t registrant) const;

  Status enroll(const HostId& host, const ReservationChange& change, Notices& notices);
  Status acquire(std::size_t registrant, const ReservationChange& change, Notices& notices);
  Status preempt(std::size_t registrant, const ReservationChange& change, Notices& notices);
  Status release(std::size_t registrant, const ReservationChange& change, Notices& notices);
  void clear(std::size_t registrant, Notices& notices);
  /// The reservation that it alone holds ends.
  void remove(std::size_t index, Notices& notices);
  bool remove_by_key(std::uint64_t key, const HostId& by, bool also_own, Notices& notices);
  void tell_others(const HostId& host, ReservationEvent event, Notices& notices) const;
  bool keep();

  State state_;
  bool lasts_ = false;
  std::unique_ptr<Keeper> keeper_;
  // Writes under way, by when they began: a barrier begins an epoch.
  std::deque<std::uint32_t> writes_{0};
  std::uint64_t first_epoch_ = 0;
};

}  // namespace verbatim::ulp::nvmeof
