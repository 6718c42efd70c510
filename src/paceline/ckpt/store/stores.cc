#include "paceline/ckpt/store/stores.h"

#include "paceline/base/text.h"
#include "paceline/ckpt/store/posix.h"
#include "paceline/ckpt/store/s3.h"

namespace paceline::ckpt {
namespace {

Result<std::unique_ptr<Store>> OpenPosix(const std::string& place, const StoreHost&) {
  return MakePosixStore(place);
}

}  // namespace

const std::vector<StoreBackend>& StoreBackends() {
  static const std::vector<StoreBackend>* const kBackends = new std::vector<StoreBackend>{
      {"s3", "s3://", OpenS3},
      {"posix", "", OpenPosix},
  };
  return *kBackends;
}

Result<std::unique_ptr<Store>> OpenStore(const std::string& place, const StoreHost& host) {
  for (const StoreBackend& backend : StoreBackends()) {
    if (place.starts_with(backend.prefix)) return backend.open(place, host);
  }
  return Failure{FailureKind::kInvalid, Concat("no store is called ", place)};
}

bool IsStorePlace(std::string_view place) {
  if (place.starts_with("/")) return true;
  for (const StoreBackend& backend : StoreBackends()) {
    if (!backend.prefix.empty() && place.starts_with(backend.prefix) &&
        place.size() > backend.prefix.size()) {
      return true;
    }
  }
  return false;
}

}  // namespace paceline::ckpt
