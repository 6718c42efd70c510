// Numbers distinct keys in the order in which they come first. An open-addressing table without
// deletion: it serves one batch and is then cleared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::client {

class KeyIndex {
 public:
  // Makes room for so many keys, so that adding them moves nothing.
  void Reserve(size_t keys) {
    if (keys * 2 > slots_.size()) Resize(keys * 2);
  }

  // The key's number, which is keys().size() of before if the key is new.
  uint32_t Add(uint64_t key) {
    if ((keys_.size() + 1) * 2 > slots_.size()) Resize(slots_.size() * 2);
    size_t at = Mix(key) & (slots_.size() - 1);
    while (slots_[at] != kEmpty && keys_[slots_[at]] != key) at = (at + 1) & (slots_.size() - 1);
    if (slots_[at] == kEmpty) {
      slots_[at] = static_cast<uint32_t>(keys_.size());
      keys_.push_back(key);
    }
    return slots_[at];
  }

  const std::vector<uint64_t>& keys() const { return keys_; }

  void Clear() {
    keys_.clear();
    slots_.assign(slots_.size(), kEmpty);
  }

 private:
  static constexpr uint32_t kEmpty = UINT32_MAX;

  // The finalizer of MurmurHash3: neighbouring keys come to lie far apart.
  static uint64_t Mix(uint64_t key) {
    key = (key ^ key >> 33) * 0xff51afd7ed558ccdu;
    key = (key ^ key >> 33) * 0xc4ceb9fe1a85ec53u;
    return key ^ key >> 33;
  }

  void Resize(size_t wanted) {
    size_t size = 16;
    while (size < wanted) size *= 2;
    slots_.assign(size, kEmpty);
    for (uint32_t number = 0; number < keys_.size(); ++number) {
      size_t at = Mix(keys_[number]) & (size - 1);
      while (slots_[at] != kEmpty) at = (at + 1) & (size - 1);
      slots_[at] = number;
    }
  }

  std::vector<uint64_t> keys_;
  std::vector<uint32_t> slots_;  // numbers of keys; a power of two, at most half full
};

}  // namespace paceline::client
