// Any bytes from a program on a target's D-Bus: lines are answered by lines, messages are taken off
// as a whole, however they are cut.
#include "ulp/target/tree/system_bus.h"

#include <string>

#include "base/assert.h"
#include "input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace verbatim::ulp::target;
  std::string in(reinterpret_cast<const char*>(data), size), answer;
  const std::string line = bus_line_answer(in);
  VERBATIM_ASSERT(line.empty() || line.ends_with("\r\n"));
  for (std::size_t before = in.size(); take_bus_message(in, 1, answer); before = in.size()) {
    VERBATIM_ASSERT(in.size() < before);
    VERBATIM_ASSERT(answer.empty() || answer[0] == 'l');
  }
  return 0;
}
