#include "paceline/ckpt/store/stores.h"

#include "paceline/base/text.h"
#include "paceline/ckpt/store/posix.h"
#include "paceline/ckpt/store/s3.h"
#include "paceline/model/storage_place.h"

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
  const StoragePlace named = JudgePlace(place);
  if (!named.problem.empty()) {
    return Failure{FailureKind::kInvalid, Concat(named.problem, "; use ", named.fix)};
  }
  for (const StoreBackend& backend : StoreBackends()) {
    if (named.text.starts_with(backend.prefix)) return backend.open(named.text, host);
  }
  return Failure{FailureKind::kInvalid, Concat("no store is called ", place)};
}

}  // namespace paceline::ckpt
