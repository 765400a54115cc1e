#pragma once

#include <atomic>

#include <infinity/core/Context.h>
#include <infinity/memory/Region.h>
#include <stdint.h>

namespace infinity {
namespace requests {

/// The end of one request. It lives until then, and may be used for the next one afterwards.
class RequestToken {
 public:
  RequestToken(infinity::core::Context* context);

  void reset();

  void setRegion(infinity::memory::Region* region);
  infinity::memory::Region* getRegion();

  void setCompleted(bool success);
  bool wasSuccessful();

  /// Looks once, and returns whether the request has ended.
  bool checkIfCompleted();
  /// Looks until the request has ended, without sleeping; `wasSuccessful` tells how. A failure is
  /// also told on standard error.
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
