/// It has the words of a program that loads libibverbs by its path, and of one that has rdma-core's
/// own linked in. It is never started.
int main(int count, char** /*arguments*/) {
  static const char* const volatile words[] = {LIBRARY_PATH,
                                               "libibverbs: Warning: couldn't load driver '%s'."};
  return words[count % 2][0];
}
