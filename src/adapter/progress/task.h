#pragma once

#include <atomic>
#include <cstddef>

#include "base/time.h"
#include "base/types.h"

/// What turns of `Progress` work on.
namespace verbatim::adapter {

/// What has something to send now and then, and time-outs: a queue pair.
class Task {
 public:
  Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  /// At the end of a turn, after `Progress::note_output`.
  virtual void transmit_output(TimeNs now) = 0;
  /// A time has come that it armed, or one that it has moved since.
  virtual void on_timer(TimeNs now) = 0;

 protected:
  ~Task() = default;

 private:
  friend class Progress;
  std::atomic<bool> output_pending_{false};  // It is in Progress's list.
};

/// Tasks by number, for a timer may outlive its task.
class Tasks {
 public:
  /// Null where there is none any more; during a turn.
  virtual Task* find_task(Qpn number) const = 0;

 protected:
  ~Tasks() = default;
};

/// What turns receive from: a port, Ethernet frames, TCP connections.
class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  /// Takes what is there, bounded, without blocking; returns how much there was.
  virtual std::size_t receive(TimeNs now) = 0;
  /// Before a thread sleeps on its descriptors. Returns false if it has something already. Between
  /// passes.
  virtual bool begin_sleep() { return true; }
  /// Keeps no reference to the task. Between passes.
  virtual void forget(Task&) {}

 protected:
  ~Source() = default;
};

}  // namespace verbatim::adapter
