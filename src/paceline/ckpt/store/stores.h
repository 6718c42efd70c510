#pragma once

// All store backends, by the prefix of a place's name.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/ckpt/store/store.h"

namespace paceline::ckpt {

// What a backend may need from its host.
struct StoreHost {
  std::string python;  // interpreter with the paceline package; "": object stores do not work
};

struct StoreBackend {
  std::string_view name;
  std::string_view prefix;  // of the places that it serves
  Result<std::unique_ptr<Store>> (*open)(const std::string& place, const StoreHost& host);
};

// In the order in which prefixes are compared.
const std::vector<StoreBackend>& StoreBackends();

// Opens "/runs/gpt" or "s3://bucket/prefix". Reads nothing yet. kInvalid: the place is malformed;
// model/storage_place.h says why.
Result<std::unique_ptr<Store>> OpenStore(const std::string& place, const StoreHost& host);

}  // namespace paceline::ckpt
