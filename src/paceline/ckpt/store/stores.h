#pragma once

// All backends, by the beginning of a place's name.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/ckpt/store/store.h"

namespace paceline::ckpt {

// What a backend may need of its host.
struct StoreHost {
  std::string python;  // interpreter with the paceline package; "": none, and no object store
};

struct StoreBackend {
  std::string_view name;
  std::string_view prefix;  // of the places that it serves
  Result<std::unique_ptr<Store>> (*open)(const std::string& place, const StoreHost& host);
};

// In the order in which they are asked.
const std::vector<StoreBackend>& StoreBackends();

// "/runs/gpt" or "s3://bucket/prefix". Nothing is read yet. kInvalid: model/storage_place.h says
// why it is no place.
Result<std::unique_ptr<Store>> OpenStore(const std::string& place, const StoreHost& host);

}  // namespace paceline::ckpt
