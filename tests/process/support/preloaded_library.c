/* A library that devices find loaded. */
__attribute__((visibility("default"))) int openreg_test_preloaded(void) {
  return 42;
}
