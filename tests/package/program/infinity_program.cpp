// A program for Infinity, built with the installed library.
#include <cstring>

#include <infinity/infinity.h>

int main() {
  infinity::core::Context* context = new infinity::core::Context();
  infinity::memory::Buffer* buffer = new infinity::memory::Buffer(context, 4096);
  std::memset(buffer->getData(), 1, 4096);
  delete buffer;
  delete context;
  return 0;
}
