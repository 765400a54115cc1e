#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ulp/scsi/cdb.h"
#include "ulp/scsi/data/writer.h"
#include "ulp/scsi/plan.h"

/// Who may use a unit: PERSISTENT RESERVE (SPC-4, 5.13), and RESERVE of SCSI-2.
namespace verbatim::ulp::scsi {

/// A unit, as reservations know it.
class ReservedUnit {
 public:
  virtual void tell(NexusId nexus, Attention what) = 0;
  virtual void abort_tasks(NexusId of) = 0;

 protected:
  ~ReservedUnit() = default;
};

/// SPC-4, 6.16.3.4.
enum class ReservationType : std::uint8_t {
  none = 0,
  write_exclusive = 1,
  exclusive_access = 3,
  write_exclusive_registrants_only = 5,
  exclusive_access_registrants_only = 6,
  write_exclusive_all_registrants = 7,
  exclusive_access_all_registrants = 8,
};

/// Whether an initiator that a reservation keeps out may send a command: a row of the table.
struct WhileReserved {
  bool write_exclusive = false, exclusive_access = false;  // PERSISTENT RESERVE.
  bool scsi_2 = false;                                     // RESERVE.
};
WhileReserved allowed_while_reserved(Operation operation);

/// An initiator's TransportID (SPC-4, 7.6.4).
void write_transport_id(const InitiatorPort& port, DataWriter& out);
/// Without a name: the bytes are no TransportID of a protocol that is served.
InitiatorPort read_transport_id(ByteSpan bytes);
/// Of the TransportID that the bytes begin with, at least 4.
std::size_t transport_id_bytes(ByteSpan bytes);

/// What is registered and reserved with a disk, whichever ports and protocols show it: units of one
/// disk share it. Registrations stay when their initiators log out.
class Reservations {
 public:
  static constexpr std::size_t kRegistrantsMax = 256;

  /// Who asks: an initiator that is logged in at one of the units.
  struct Nexus {
    ReservedUnit* unit = nullptr;
    NexusId id{};
    friend bool operator==(const Nexus&, const Nexus&) = default;
  };
  struct Registrant {
    InitiatorPort port;
    std::uint64_t key = 0;
    friend bool operator==(const Registrant&, const Registrant&) = default;
  };
  /// What lasts: a `Keeper` may keep it (APTPL), and bring it back.
  struct State {
    std::vector<Registrant> registrants;
    ReservationType type = ReservationType::none;
    std::size_t holder = 0;  // Of `registrants`, unless all of them hold it.
    std::uint32_t generation = 0;
  };
  /// Keeps the state, or, with null, keeps none any more. False: it could not.
  class Keeper {
   public:
    virtual bool keep(const State* state) = 0;

   protected:
    ~Keeper() = default;
  };

  void use(std::shared_ptr<Keeper> keeper) { keeper_ = std::move(keeper); }
  bool has_keeper() const { return keeper_ != nullptr; }
  void restore(State state) { state_ = std::move(state), is_kept_ = true; }
  const State& state() const { return state_; }

  void on_login(const Nexus& nexus, const InitiatorPort& port);
  /// RESERVE ends with the initiator's session.
  void on_gone(const Nexus& nexus);
  /// The unit is destroyed: its initiators have gone.
  void on_gone(const ReservedUnit& unit);
  /// RESERVE ends.
  void on_reset() { scsi_2_.reset(); }

  /// Without any reservation: two loads.
  bool conflicts(const Nexus& nexus, Operation operation) const {
    return (state_.type != ReservationType::none || scsi_2_) && is_kept_out(nexus, operation);
  }

  Answer reserve(const Nexus& nexus);
  Answer release(const Nexus& nexus);
  /// PERSISTENT RESERVE OUT.
  Answer change(const Nexus& nexus, const Cdb& cdb, ByteSpan parameters);
  /// PERSISTENT RESERVE IN.
  void report(const Cdb& cdb, DataWriter& out) const;

 private:
  struct Here {
    Nexus nexus;
    InitiatorPort port;
  };
  struct Change;

  bool is_kept_out(const Nexus& nexus, Operation operation) const;
  bool is_for_registrants() const;
  bool is_for_all() const;
  bool holds(std::size_t registrant) const;
  const Here* find(const Nexus& nexus) const;
  /// Its index; `registrants.size()`: it has none.
  std::size_t registrant_of(const InitiatorPort& port) const;

  Answer enroll(const Change& change);
  static bool read_ports(const Change& change, std::vector<InitiatorPort>& ports);
  Answer take(const Change& change);
  Answer give_up(const Change& change);
  Answer clear(const Change& change);
  Answer preempt(const Change& change);
  Answer move(const Change& change);
  /// Requires that `index` is a registrant. The reservation that it alone holds ends.
  void remove(std::size_t index, const Nexus* by);
  void end_reservation(const Nexus* by);
  void tell(const InitiatorPort& port, Attention what);
  void tell_registrants_but(const Nexus* by, Attention what);
  void abort_tasks(const InitiatorPort& port);

  State state_;
  bool is_kept_ = false;
  std::shared_ptr<Keeper> keeper_;  // Shared: a disk may be removed before its units are.
  std::vector<Here> here_;
  std::optional<Nexus> scsi_2_;
};

}  // namespace verbatim::ulp::scsi
