#include <infinity/requests/RequestToken.h>

namespace infinity::requests {

RequestToken::RequestToken(core::Context* of) : context(of), completed(false), success(false) {}

void RequestToken::reset() {
  success.store(false);
  completed.store(false);
  region = nullptr;
  userData = nullptr;
  userDataSize = 0;
  userDataValid = false;
  immediateValue = 0;
  immediateValueValid = false;
}

void RequestToken::setCompleted(bool isSuccess) {
  success.store(isSuccess);
  completed.store(true);  // Stored last: a thread that sees it also sees the other.
}

bool RequestToken::checkIfCompleted() {
  if (!completed.load()) context->pollSendCompletionQueue();
  return completed.load();
}

void RequestToken::waitUntilCompleted() {
  while (!completed.load()) context->pollSendCompletionQueue();
}

bool RequestToken::wasSuccessful() { return success.load(); }

void RequestToken::setRegion(memory::Region* of) { region = of; }
memory::Region* RequestToken::getRegion() { return region; }

void RequestToken::setUserData(void* data, uint32_t size) {
  userData = data;
  userDataSize = size;
  userDataValid = true;
}
bool RequestToken::hasUserData() { return userDataValid; }
void* RequestToken::getUserData() { return userData; }
uint32_t RequestToken::getUserDataSize() { return userDataSize; }

void RequestToken::setImmediateValue(uint32_t value) {
  immediateValue = value;
  immediateValueValid = true;
}
bool RequestToken::hasImmediateValue() { return immediateValueValid; }
uint32_t RequestToken::getImmediateValue() { return immediateValue; }

}  // namespace infinity::requests
