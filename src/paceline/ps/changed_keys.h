#pragma once

// The keys of a table whose rows have changed, for a reader that publishes versions of the table
// and wants only what the version before lacks. Nothing is kept until a reader asks for the first
// time.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace paceline::ps {

class ChangedKeys {
 public:
  void Note(std::span<const uint64_t> keys);

  // The keys of version `number`, rising: those noted since version `number - 1` was taken. The
  // same number again has them, too, and those noted since, so that a reader may repeat what
  // failed. Null: the keys since that version are not known, and the reader needs all rows. From
  // now on keys are noted.
  const std::vector<uint64_t>* Take(uint64_t number);
  // What the last Take returned, if it was of this version; else null.
  const std::vector<uint64_t>* Taken(uint64_t number) const {
    return taken_number_ == number && is_taken_known_ ? &taken_ : nullptr;
  }

  // What was noted is not known any more, as rows have come or gone otherwise.
  void Forget();

 private:
  std::optional<uint64_t> taken_number_;
  bool is_taken_known_ = false;
  std::vector<uint64_t> taken_;
  std::vector<uint64_t> noted_;  // some twice
  size_t distinct_ = 0;          // of them, when they were sorted last
};

}  // namespace paceline::ps
