// Which keys of a call each table server has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "paceline/model/table_routing.h"
#include "paceline/ps/row_hash.h"
#include "paceline/ps/table_spec.h"

namespace paceline::client {

// Keys of one table that one server has, and where they stand in the caller's order.
struct Share {
  std::vector<uint64_t> keys;
  std::vector<uint32_t> places;
  std::vector<float> values;
  // Keeps the memory: a call needs about as much as the one before.
  void Clear() {
    keys.clear();
    places.clear();
    values.clear();
  }
};

// Adds the keys of one table to the shares of the servers: (*shares)[server][index]. `values` are
// empty, or dim floats for each key. `shares` has all servers of the routing.
inline void DivideKeys(const TableRouting& routing, const ps::TableSpec& spec,
                       std::span<const uint64_t> keys, std::span<const float> values, size_t index,
                       std::vector<std::vector<Share>>* shares) {
  const ps::TableKey key_of_table = ps::TableKeyOf(spec.name);
  const size_t servers = shares->size();
  for (std::vector<Share>& of_server : *shares) {
    if (of_server.size() <= index) of_server.resize(index + 1);
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    const size_t server = servers == 1 ? 0 : routing.Of(ps::PartitionOf(key_of_table, keys[i]));
    Share& share = (*shares)[server][index];
    share.keys.push_back(keys[i]);
    share.places.push_back(static_cast<uint32_t>(i));
    if (values.empty()) continue;
    const auto row = values.subspan(i * spec.dim, spec.dim);
    share.values.insert(share.values.end(), row.begin(), row.end());
  }
}

}  // namespace paceline::client
