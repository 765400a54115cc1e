#pragma once

#include <atomic>
#include <cstddef>

#include "base/time.h"
#include "base/types.h"

/// What passes of `Progress` work on.
namespace verbatim::adapter {

/// Has output and time-outs: a queue pair.
class Task {
 public:
  Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  /// Called at the end of a pass, after `Progress::note_output`.
  virtual void transmit_output(TimeNs now) = 0;
  /// A deadline that it armed is due, even if it has moved the deadline since.
  virtual void on_timer(TimeNs now) = 0;

 protected:
  ~Task() = default;

 private:
  friend class Progress;
  std::atomic<bool> output_pending_{false};  // It is in Progress's list.
};

/// Tasks by number, because a timer may outlive its task.
class Tasks {
 public:
  /// Returns null if the task does not exist any more. Called in a pass.
  virtual Task* find_task(Qpn number) const = 0;

 protected:
  ~Tasks() = default;
};

/// What passes receive from: a port, Ethernet frames, TCP connections.
class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  /// Receives a bounded amount without blocking; returns how much.
  virtual std::size_t receive(TimeNs now) = 0;
  /// Before a thread sleeps on its descriptors. Returns false if it has something already. Between
  /// passes.
  virtual bool begin_sleep() { return true; }
  /// False: `receive` costs next to nothing where nothing has come.
  virtual bool asks_kernel() const { return true; }
  /// Keeps no reference to the task. Between passes.
  virtual void forget(Task&) {}

 protected:
  ~Source() = default;
};

}  // namespace verbatim::adapter
