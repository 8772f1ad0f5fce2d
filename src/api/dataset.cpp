// Dataset, the handle; and random_bits(), version().
#include "millrace/dataset.h"

#include "api/dataset_impl.h"
#include "base/philox.h"
#include "millrace/error.h"
#include "millrace/version.h"

namespace millrace {
namespace {

const Dataset::Impl& impl_of(const Dataset& dataset) {
  if (!dataset.impl())
    throw Error(ErrorKind::invalid_argument,
                "this Dataset is empty; make one by image_folder(), make_dataset() or their like");
  return *dataset.impl();
}

}  // namespace

int64_t Dataset::size() const { return impl_of(*this).size(); }

const std::vector<FieldSpec>& Dataset::fields() const { return impl_of(*this).fields(); }

std::array<uint32_t, 4> random_bits(const SampleKey& key, uint32_t stream, uint32_t number) {
  return base::Philox(key, stream).words(number);
}

#define MILLRACE_TEXT(x) #x
#define MILLRACE_VERSION_TEXT(a, b, c) MILLRACE_TEXT(a) "." MILLRACE_TEXT(b) "." MILLRACE_TEXT(c)
const char* version() {
  return MILLRACE_VERSION_TEXT(MILLRACE_VERSION_MAJOR, MILLRACE_VERSION_MINOR, MILLRACE_VERSION_PATCH);
}

}  // namespace millrace
