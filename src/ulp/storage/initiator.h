#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/completion_status.h"
#include "base/inplace_vector.h"
#include "base/time.h"
#include "ulp/engine/meeting.h"
#include "ulp/engine/work.h"

/// The one shape of NVMe's, SRP's and iSER's initiators: engines without I/O, clock or thread, one
/// object a session, from its login to its end.
///
///     begin -> connect(0)                                       the user (ulp/disk)
///     on_established -> login ... (more channels) -> facts()         | on_request
///     on_message ...                                  answers -------'
///     on_end of a channel -> failure(), all channels end
///
/// When a session is over, requests without an answer are the user's: it begins another session
/// with a new object, and repeats them.
namespace verbatim::ulp::storage {

/// A connection of the session: 0 is the first. NVMe: the admin queue, then the I/O queue.
enum class Channel : std::uint8_t {};
inline constexpr std::size_t kChannelsMax = 2;

/// Registered memory of ours in one piece, which the peer reads or writes by `remote_key`. A peer
/// cannot invalidate the key of a region: each protocol has a way to say so.
struct PeerMemory {
  Slice here;
  MemoryKey remote_key{};
  std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(here.data); }
  std::byte* data() const { return here.data; }
  std::uint32_t bytes() const { return here.bytes; }
};
/// What each engine has for its own commands: the data of Connect, Identify, INQUIRY.
inline constexpr std::uint32_t kScratchBytes = 8192;

/// Whole blocks within the disk, at most `transfer_bytes_max`, or `clear_bytes_max`.
struct DiskRequest {
  enum class Kind : std::uint8_t {
    read,
    write,
    flush,         // All writes that are answered become stable.
    discard,       // Bytes that need not be kept.
    write_zeroes,  // Bytes that read as zeroes, and need not be kept if `may_discard`.
  };
  Kind kind{};
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  PeerMemory memory{};  // Of `read` and `write`: `bytes` of it. Lent until the answer, or the end.
  bool is_stable = false;  // `write`, `write_zeroes`: it is answered when it is stable (FUA).
  bool may_discard = false;
  Tag user{};  // Names it: given back once, in its answer.
};

struct DiskAnswer {
  Tag user{};
  /// 0, or an errno value: EIO, ENOSPC, EROFS, EINVAL, EOPNOTSUPP. EAGAIN: the target is busy, and
  /// the user asks again a little later.
  int error = 0;
};

struct DiskFacts {
  std::uint64_t bytes = 0;
  std::uint32_t block_bytes = 512;
  std::uint32_t transfer_bytes_max = 65536;
  std::uint64_t clear_bytes_max = 0;  // Of `discard` and `write_zeroes`.
  std::uint32_t requests_max = 1;     // At a time.
  bool is_read_only = false;
  bool can_discard = false, can_write_zeroes = false;
  bool can_write_stable = false;  // FUA. Else `is_stable` is not asked for: flush after it.
  std::string name;               // "LIO-ORG ram0 4.0": what it says of itself.
  /// Which disk it is, the same over all paths; empty: it does not say.
  std::string identity{};
  /// Numbers of the target's units, if they alone were asked for: there is no disk then.
  std::vector<std::uint16_t> units{};
};

/// Why a session is over. `words` have both sides' values. `is_final`: to try again is of no use
/// (a wrong secret, no such disk).
struct Failure {
  std::string words;
  bool is_final = false;
};

/// How well this session reaches the disk, as the target says (NVMe: asymmetric namespace access).
enum class PathState : std::uint8_t {
  optimized,
  non_optimized,
  none,  // Not now: no request is sent.
};

struct ConnectRequest {
  Channel channel{};
  PrivateData private_data;
  QueueSizes sizes;
};

/// What one input causes. The driver carries out `connect` and `work`, then the answers, then calls
/// `resume` while `more` is set.
struct InitiatorOutput {
  std::array<WorkList, kChannelsMax> work;  // By channel.
  InplaceVector<ConnectRequest, kChannelsMax> connect;
  InplaceVector<DiskAnswer, 64> answers;
  bool more = false;

  WorkList& on(Channel channel) { return work[static_cast<std::size_t>(channel)]; }
  void clear() {
    for (WorkList& list : work) list.clear();
    connect.clear(), answers.clear(), more = false;
  }
  bool has_room() const {
    for (const WorkList& list : work)
      if (list.size() + 4 > list.capacity()) return false;
    return answers.size() + 4 <= answers.capacity();
  }
};

/// One session. Each call leaves `out`, which was empty, to be carried out before the next one.
class Initiator {
 public:
  virtual ~Initiator() = default;

  virtual void begin(TimeNs now, InitiatorOutput& out) = 0;
  virtual void on_established(Channel channel, ByteSpan private_data, TimeNs now,
                              InitiatorOutput& out) = 0;
  virtual ReceiveUse on_message(Channel channel, const Message& message, TimeNs now,
                                InitiatorOutput& out) = 0;
  /// Work with this tag, and all before it on this channel, has ended.
  virtual void on_done(Channel channel, Tag tag, CompletionStatus status, TimeNs now,
                       InitiatorOutput& out) = 0;
  /// False: nothing was taken; the user asks again after the next input. Only after the login.
  virtual bool on_request(const DiskRequest& request, TimeNs now, InitiatorOutput& out) = 0;
  virtual void on_time(TimeNs now, InitiatorOutput& out) = 0;
  virtual TimeNs deadline() const = 0;
  /// Goes on with what did not fit into `out`.
  virtual void resume(TimeNs now, InitiatorOutput& out) = 0;
  /// Ends the session in order: nothing is under way. Its channels disconnect.
  virtual void log_out(TimeNs now, InitiatorOutput& out) = 0;

  /// A connection was rejected with these bytes: what they mean, with both sides' values.
  virtual Failure on_rejected(Channel channel, int reason, ByteSpan private_data) = 0;
  /// Null until the login is complete.
  virtual const DiskFacts* facts() const = 0;
  /// Why the engine has ended the session by a `Disconnect`; null: it has not.
  virtual const Failure* failure() const = 0;
  /// May change with each input.
  virtual PathState path_state() const { return PathState::optimized; }
  /// The login has ended what the session before had under way: nothing of that is written later.
  virtual bool ends_older() const { return false; }
};

}  // namespace verbatim::ulp::storage
