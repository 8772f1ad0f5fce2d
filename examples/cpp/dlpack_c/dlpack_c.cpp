// Batches go to another library by DLPack, without a copy and without torch. The other library, statistics.c,
// is C.
//
//   dlpack_c
#include <cstddef>
#include <exception>
#include <iostream>
#include <numeric>
#include <vector>

#include "millrace/arrays.h"
#include "millrace/dlpack.h"
#include "millrace/loader.h"
#include "statistics.h"

int main() try {
  std::vector<float> values(100 * 3);
  std::iota(values.begin(), values.end(), 0.0F);
  std::vector<DLManagedTensor*> tensors;
  {
    millrace::Loader loader(millrace::array_rows({millrace::array_of("x", values, {3})}),
                            {.batch_size = 25, .threads = 2});
    for (const millrace::Batch& batch : loader)
      tensors.push_back(millrace::to_dlpack<DLManagedTensor>(batch["x"]));
  }
  // Batches and loader are gone; the tensors keep the memory.
  for (DLManagedTensor* tensor : tensors) std::cout << mean_of(tensor) << "\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << "dlpack_c: " << error.what() << "\n";
  return 1;
}
