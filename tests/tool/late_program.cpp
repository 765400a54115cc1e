/// Contains the strings of a program that loads libibverbs by its path, and of one with rdma-core's
/// statically linked. It is never started.
int main(int count, char** /*arguments*/) {
  static const char* const volatile words[] = {LIBRARY_PATH,
                                               "libibverbs: Warning: couldn't load driver '%s'."};
  return words[count % 2][0];
}
