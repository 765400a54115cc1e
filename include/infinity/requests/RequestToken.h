#pragma once

#include <atomic>

#include <infinity/core/Context.h>
#include <infinity/memory/Region.h>
#include <stdint.h>

namespace infinity {
namespace requests {

/// The completion of one request. It must live until then, and may be used for another request
/// afterwards.
class RequestToken {
 public:
  RequestToken(infinity::core::Context* context);

  void reset();

  void setRegion(infinity::memory::Region* region);
  infinity::memory::Region* getRegion();

  void setCompleted(bool success);
  bool wasSuccessful();

  /// Polls once; returns true if the request has completed.
  bool checkIfCompleted();
  /// Polls until the request has completed, without sleeping; `wasSuccessful` gives the result. A
  /// failure is also reported on standard error.
  void waitUntilCompleted();

  void setImmediateValue(uint32_t immediateValue);
  bool hasImmediateValue();
  uint32_t getImmediateValue();

  void setUserData(void* userData, uint32_t userDataSize);
  bool hasUserData();
  void* getUserData();
  uint32_t getUserDataSize();

 protected:
  infinity::core::Context* const context;
  infinity::memory::Region* region = nullptr;

  std::atomic<bool> completed;
  std::atomic<bool> success;

  void* userData = nullptr;
  uint32_t userDataSize = 0;
  bool userDataValid = false;

  uint32_t immediateValue = 0;
  bool immediateValueValid = false;
};

}  // namespace requests
}  // namespace infinity
