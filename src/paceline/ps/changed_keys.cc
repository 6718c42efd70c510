#include "paceline/ps/changed_keys.h"

#include <algorithm>
#include <utility>

namespace paceline::ps {
namespace {

constexpr size_t kSortAfter = 65'536;  // keys, at least

void MakeDistinct(std::vector<uint64_t>* keys) {
  std::sort(keys->begin(), keys->end());
  keys->erase(std::unique(keys->begin(), keys->end()), keys->end());
}

}  // namespace

// Popular keys come again and again. Sorting when the keys have doubled keeps the memory, and the
// work for each key, within a factor of what the distinct ones need.
void ChangedKeys::Note(std::span<const uint64_t> keys) {
  if (!taken_number_) return;
  noted_.insert(noted_.end(), keys.begin(), keys.end());
  if (noted_.size() < 2 * distinct_ + kSortAfter) return;
  MakeDistinct(&noted_);
  distinct_ = noted_.size();
}

const std::vector<uint64_t>* ChangedKeys::Take(uint64_t number) {
  if (taken_number_ != number) {
    is_taken_known_ = taken_number_ && *taken_number_ + 1 == number;
    taken_number_ = number;
    taken_.clear();
  }
  taken_.insert(taken_.end(), noted_.begin(), noted_.end());
  MakeDistinct(&taken_);
  noted_.clear();
  distinct_ = 0;
  return is_taken_known_ ? &taken_ : nullptr;
}

void ChangedKeys::Forget() {
  taken_number_.reset();
  is_taken_known_ = false;
  taken_.clear();
  noted_.clear();
  distinct_ = 0;
}

}  // namespace paceline::ps
